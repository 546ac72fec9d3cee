/* SPDX-License-Identifier: MIT */
/* server - the HTTP endpoint of one engine: sockets, framing, limits, routes, calls in flight.
 *   owner    cmd_serve
 *   thread   server_open .. server_close: the main thread, which is the I/O thread. server_wake:
 *            any
 *   errors   RC_USAGE for addresses and keys that make no sense, RC_IO for what the system refuses
 *   start    it listens before the model is there, and answers 503 until it is
 *   end      the first SIGTERM or SIGINT drains: what runs goes on, new work is refused with 503;
 *            the second one ends the process */
#ifndef QUIRE_FRONTEND_HTTP_SERVER_H
#define QUIRE_FRONTEND_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "frontend/api/dialect.h"
#include "frontend/options.h"

struct server;

struct server_options {
    const char *host;            /* --host */
    uint32_t port;               /* --port; 0 = any that is free */
    const char *unix_socket;     /* --unix-socket: instead of host and port */
    struct option_texts keys;    /* --api-key */
    const char *key_file;        /* --api-key-file */
    bool open;                   /* --no-key: a public address without a key is meant */
    struct option_texts hosts;   /* --allow-host */
    struct option_texts origins; /* --cors-origin */
    const char *alias;           /* -a: what answers call the model */
    bool strict_model;           /* --strict-model: another name in a request is a 404 */
    uint32_t queue;              /* --queue: requests that may wait */
    uint32_t connections;        /* --max-connections */
    uint64_t body_bytes;         /* --max-body */
    uint32_t ping_s, idle_s, read_s, write_s, drain_s;
    bool keep_half_closed; /* --half-close */
    uint32_t log_format;   /* --log-format: enum log_format */
    uint32_t log_level;    /* --log-level: enum log_level */
};

extern const struct option server_option_rows[];
extern const size_t server_option_count;
struct server_options server_options_default(void);

/* server_open - listens. */
enum rc server_open(struct server **out, const struct server_options *options,
                    struct fault *fault) ATTR_MUST_USE;

/* What the server runs with: both are called on a thread of their own, one after the other. */
struct server_load {
    enum rc (*open)(void *ctx, struct api_context *out, struct fault *fault);
    void *ctx;
};

/* server_run - until a signal and the drain after it; RC_OK then, else what load.open said. */
enum rc server_run(struct server *s, const struct server_load *load,
                   struct fault *fault) ATTR_MUST_USE;

/* server_wake - there are events of the scheduler; ctx is the server. */
void server_wake(void *ctx);

/* server_close - nothing runs any more; the engine of the context is still open. */
void server_close(struct server *s);

/* server_url - "http://127.0.0.1:8080", or the path of a unix socket. */
const char *server_url(const struct server *s);

#endif
