/* SPDX-License-Identifier: MIT */
/* http_conn - one connection: its socket, what came in and is not yet read, what goes out and is
 * not yet sent. Requests of a connection are answered one after another.
 *   owner    the server's loop
 *   thread   the I/O thread
 *   errors   a connection that fails is closed, and whoever it belongs to is told by
 *            server_conn_gone
 *   limits   what is unsent may grow to CONN_OUT_HIGH, after which a stream is not continued until
 *            it has been sent (http_conn_may_write); a whole reply may be longer */
#ifndef QUIRE_FRONTEND_HTTP_HTTP_CONN_H
#define QUIRE_FRONTEND_HTTP_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/detok.h"
#include "frontend/http/http_body.h"
#include "frontend/http/http_head.h"
#include "sched/request.h"

#define CONN_OUT_HIGH (256u << 10) /* unsent bytes of a stream: a slow reader waits from here on */
#define CONN_READ_BYTES 65536u     /* of one read */
#define CONN_REQUEST_ID_MAX 64u    /* bytes of an x-request-id */
#define CONN_CORS_BYTES_MAX 128u   /* bytes of an origin that is allowed */

struct call;
struct route;
struct server;

enum conn_state {
    CONN_HEAD,  /* a request's head is read */
    CONN_BODY,  /* its body */
    CONN_REPLY, /* it is being answered; nothing is read */
    CONN_LAST   /* the last reply is being sent; what still comes is dropped */
};

/* What is kept of a request once its head has been read. */
struct conn_request {
    const struct route *route; /* NULL: refused before one was found */
    char id[CONN_REQUEST_ID_MAX + 1];
    char origin[CONN_CORS_BYTES_MAX + 1]; /* an allowed origin, "" when none was named */
    char argument[128];     /* the rest of the path, or what the route wants of the query */
    uint64_t began_us;      /* when the first byte of it was seen */
    uint32_t key;           /* which one was shown: index + 1, 0 = none is needed */
    enum priority priority; /* the best class it may have, by its own head */
    bool head_only;         /* HEAD */
    bool http_1_0;
    bool keep_alive;
};

struct conn {
    struct server *server;
    struct conn *prev, *next; /* of the server's list */
    int fd;                   /* -1: closed, freed at the end of the loop's round */
    enum conn_state state;
    uint32_t watched; /* events asked of epoll */
    struct text in, out;
    size_t out_sent;
    struct http_scan scan;
    struct http_body body;
    struct text body_text;
    struct conn_request request;
    struct call *call; /* what answers the request, when it is not answered at once */
    uint64_t moved_us; /* when bytes last went either way */
    uint64_t shut_us;  /* when we said that we send no more, else 0 */
    uint64_t dropped;  /* bytes read in CONN_LAST */
    const char *allow; /* methods for the reply that is about to be made, or NULL */
    bool chunked;      /* the reply that is being sent is */
    bool half_closed;  /* the client sends no more */
    char peer[48];     /* address, for log lines */
};

/* http_conn_read - reads once: bytes go to in, or are dropped in CONN_LAST. False: the connection
 * was closed. */
bool http_conn_read(struct conn *c);

/* http_conn_flush - sends what can be sent. False: the connection was closed. */
bool http_conn_flush(struct conn *c);

/* http_conn_watch - tells epoll what the state makes interesting. */
void http_conn_watch(struct conn *c);

size_t http_conn_unsent(const struct conn *c);
bool http_conn_may_write(const struct conn *c);

/* http_conn_may_read - not while a request is answered, and not until its reply has been sent. */
bool http_conn_may_read(const struct conn *c);

/* http_conn_drop_in - the first bytes of in are used. */
void http_conn_drop_in(struct conn *c, size_t count);

/* http_conn_drop_body - what has come of the body, which the server's budget counts. */
void http_conn_drop_body(struct conn *c);

/* A whole answer. */
struct reply {
    int status;
    const char *type; /* content-type; NULL when there is no body */
    const char *body;
    size_t len;
    const char *allow;      /* 405, OPTIONS: the methods */
    uint32_t retry_after_s; /* 0: not said */
    bool no_retry;          /* x-should-retry: false */
};

/* http_conn_reply - sends a whole answer and ends the request: the connection is at its next head,
 * or at CONN_LAST. */
void http_conn_reply(struct conn *c, const struct reply *r);

/* http_conn_continue - 100 Continue, where the client waits for it. */
void http_conn_continue(struct conn *c);

/* A stream: head, pieces of the body, end. */
void http_conn_stream_begin(struct conn *c, const char *type);
void http_conn_stream(struct conn *c, const char *bytes, size_t len);
void http_conn_stream_end(struct conn *c);

#endif
