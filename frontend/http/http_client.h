/* SPDX-License-Identifier: MIT */
/* http_client - one POST at a time over a connection of its own, without blocking: what commands
 * speak to a server, ours or another's.
 *   owner    the opener; the url lives longer than the client
 *   thread   one
 *   errors   HTTP_FAILED with a line in `why`; a status other than 200 is no failure here
 *   source   RFC 9112: status line, header fields, chunked and counted bodies */
#ifndef QUIRE_FRONTEND_HTTP_HTTP_CLIENT_H
#define QUIRE_FRONTEND_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/detok.h"
#include "core/err.h"
#include "core/str.h"

/* Where a server is: "http://host:port/prefix" or "unix:PATH". */
struct http_url {
    char host[128]; /* for the Host field */
    char path[256]; /* prefix of every target, "" or "/..." */
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

enum rc http_url_parse(struct http_url *out, const char *text, struct fault *fault) ATTR_MUST_USE;

enum http_state {
    HTTP_BUSY,
    HTTP_DONE,  /* the answer is complete */
    HTTP_FAILED /* refused, reset, cut off or unreadable */
};

/* Takes the next bytes of the body. */
typedef void http_body_fn(void *ctx, const char *data, size_t len);

struct http_client {
    int fd; /* -1: closed */
    enum http_state state;
    bool head_done, chunked;
    uint32_t status;
    struct text out, head;
    size_t sent;
    int64_t body_left;   /* of a counted body, or of the chunk; -1 = up to the end */
    uint32_t chunk_step; /* enum in http_client.c */
    char why[96];
    http_body_fn *take;
    void *ctx;
};

/* http_client_post - starts; headers: further lines, each with its end, or "". */
void http_client_post(struct http_client *c, const struct http_url *url, const char *target,
                      const char *headers, const char *body, size_t body_len, http_body_fn *take,
                      void *ctx);

/* http_client_wants - what to poll fd for. http_client_step - goes on after a poll. */
short http_client_wants(const struct http_client *c);
enum http_state http_client_step(struct http_client *c);

/* http_client_field - a field of the answer's head, which is complete; empty when there is none. */
struct str http_client_field(const struct http_client *c, const char *name);

void http_client_close(struct http_client *c);

#endif
