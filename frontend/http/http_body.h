/* SPDX-License-Identifier: MIT */
/* http_body - the body of a request: so many bytes, or chunks, read strictly.
 *   owner    its connection; the decoded bytes go to the caller's text
 *   thread   its connection's
 *   errors   the status of the answer: 400, 413, 500. After any of them the connection ends
 *   limits   `most` decoded bytes; HTTP_TRAILER_BYTES_MAX for what follows the last chunk
 *   source   RFC 9112, section 7.1. A size is hexadecimal digits and nothing else; extensions are
 *            read over; fields after the last chunk are checked for their line ends and dropped */
#ifndef QUIRE_FRONTEND_HTTP_HTTP_BODY_H
#define QUIRE_FRONTEND_HTTP_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/detok.h"
#include "frontend/http/http_head.h"

#define HTTP_TRAILER_BYTES_MAX 4096u   /* fields after the last chunk, which nobody reads here */
#define HTTP_EXTENSION_BYTES_MAX 1024u /* extensions of one chunk's size line */

enum http_body_state {
    HTTP_BODY_DATA, /* `left` bytes of data come */
    HTTP_BODY_DATA_CR,
    HTTP_BODY_DATA_LF, /* what ends a chunk */
    HTTP_BODY_SIZE,
    HTTP_BODY_EXTENSION,
    HTTP_BODY_SIZE_LF,
    HTTP_BODY_TRAILER, /* at the beginning of a line */
    HTTP_BODY_TRAILER_TEXT,
    HTTP_BODY_TRAILER_LF,
    HTTP_BODY_LAST_LF,
    HTTP_BODY_DONE
};

struct http_body {
    enum http_body_state state;
    bool chunked;
    uint64_t left, most;
    uint32_t digits; /* of the size that is being read */
    uint32_t extra;  /* bytes of extension or trailer so far */
};

/* http_body_open - 200, or 413 when the length is over the limit. */
int http_body_open(struct http_body *b, const struct http_head *head, uint64_t most);

/* http_body_push - appends what is data of these bytes to out; *used of them belong to the body.
 * 0 = read more, 200 = the body is complete, else the status of the refusal. */
int http_body_push(struct http_body *b, const char *bytes, size_t len, size_t *used,
                   struct text *out);

#endif
