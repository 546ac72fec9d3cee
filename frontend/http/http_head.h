/* SPDX-License-Identifier: MIT */
/* http_head - the head of an HTTP/1.1 request: request line and fields, read strictly.
 *   owner    results point into the caller's bytes
 *   thread   any, no state
 *   errors   the status of the answer: 400, 414, 417, 431, 501, 505. After any of them the
 *            connection ends: where the next request would begin is not known
 *   limits   HTTP_HEAD_BYTES_MAX, HTTP_LINE_BYTES_MAX, HTTP_FIELDS_MAX
 *   source   RFC 9112 (message syntax), RFC 9110 (fields). What it allows a server to refuse and
 *            what two readers could take in two ways is refused: bare line feeds, folded lines,
 *            blanks before a colon, repeated or both length fields, other codings than chunked */
#ifndef QUIRE_FRONTEND_HTTP_HTTP_HEAD_H
#define QUIRE_FRONTEND_HTTP_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

#define HTTP_HEAD_BYTES_MAX 32768u /* request line and fields: browsers send under 4 KiB */
#define HTTP_LINE_BYTES_MAX 8192u  /* one line of it: what RFC 9112 asks for at least */
#define HTTP_FIELDS_MAX 100u       /* fields of a request */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OPTIONS, HTTP_OTHER };

struct http_field {
    struct str name, value;
};

struct http_head {
    enum http_method method;
    struct str path;  /* begins with '/', or is "*" */
    struct str query; /* after the '?', empty when there is none */
    struct str host;  /* of the target when it names one, else of the Host field */
    bool http_1_0;
    bool keep_alive; /* the connection may go on afterwards */
    bool chunked;
    bool has_length;
    bool expect_continue;
    uint64_t length;
    struct http_field fields[HTTP_FIELDS_MAX];
    uint32_t field_count;
};

/* Where the scan for the end of a head stands. Zero it for each request. */
struct http_scan {
    size_t at;         /* bytes looked at */
    size_t line_begin; /* of the line that is being read */
    size_t head_begin; /* after empty lines, which may stand before a request */
};

/* http_head_scan - looks for the empty line that ends a head: 0 = read more, 200 = *end is behind
 * it, else the status of the refusal. Call it with the same bytes and more. */
int http_head_scan(struct http_scan *scan, const char *bytes, size_t len, size_t *end);

/* http_head_parse - the bytes from head_begin to the end: 200, or the status of the refusal, why
 * says what is wrong. */
int http_head_parse(struct http_head *out, const char *bytes, size_t len, const char **why);

/* http_field_get - the value of the first field of that name, in lower case; NULL text when there
 * is none. */
struct str http_field_get(const struct http_head *head, const char *name);

/* http_text_equal - without regard to case, ASCII. */
bool http_text_equal(struct str a, const char *b);

/* http_query_get - the value of "name=" in a query, as it stands; false when there is none. */
bool http_query_get(struct str query, const char *name, struct str *out);

/* http_hex_digit - 0 to 15, -1 when it is none. */
int http_hex_digit(char c);

/* http_unescape - the bytes that a part of a path means, zero-terminated: %2F is a slash. False
 * when there is no room, a half escape or a zero byte. */
bool http_unescape(char *out, size_t cap, struct str s);

#endif
