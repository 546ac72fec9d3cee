/* SPDX-License-Identifier: MIT */
/* server_impl - what the parts of the server share. Everything in here belongs to the I/O thread,
 * but a call that a helper works on, which is the helper's until it is taken back. */
#ifndef QUIRE_FRONTEND_HTTP_SERVER_IMPL_H
#define QUIRE_FRONTEND_HTTP_SERVER_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/log.h"
#include "frontend/api/dialect.h"
#include "frontend/http/access.h"
#include "frontend/http/helper.h"
#include "frontend/http/http_conn.h"
#include "frontend/http/metrics.h"
#include "frontend/http/server.h"

#define LISTENERS_MAX 8u              /* addresses that a name may stand for */
#define BODIES_BYTES_MAX (256u << 20) /* bodies in memory, of all connections: whole or not */

/* Where a path leads. One of dialect, query and plain is set. */
struct route {
    const char *path; /* ends with '/': everything below it, the rest is the argument */
    const char *name; /* in log lines and metrics */
    bool post;        /* POST, else GET and HEAD */
    bool open;        /* without a key */
    bool early;       /* answered while the model is loading, too */
    bool slow;        /* a helper may be busy with it for seconds */
    bool quiet;       /* logged at debug level: it is asked every few seconds */
    const struct dialect *dialect;
    api_query *query;
    void (*plain)(struct conn *c);
    const struct dialect *errors; /* of a query: how its errors look; NULL: as OpenAI's */
};

enum call_state {
    CALL_OPENING, /* the helper's */
    CALL_WAITING, /* some of its requests are not yet submitted */
    CALL_RUNNING
};

/* What has been counted of one choice. */
struct call_choice {
    uint32_t tokens;
    uint64_t last_us;
};

/* A request that is not answered at once. It outlives its connection: what runs is cancelled, and
 * the record goes when the last of it has ended. */
struct call {
    struct call *prev, *next; /* of the server's list */
    struct server *server;
    struct conn *conn; /* NULL: the client has gone */
    const struct route *route;
    const struct api_context *context;
    struct api_call api;
    enum call_state state;
    struct text body;  /* of the request, until it has been read */
    size_t body_bytes; /* counted against the server's budget */
    /* from the helper: */
    void *job;      /* of a dialect */
    json_t *answer; /* of a query */
    bool refused;   /* error says why */
    struct api_error error;
    /* while it runs: */
    bool stream, streaming; /* asked for; its head is sent */
    bool busy;              /* call_advance is in the middle of it */
    struct text frames;
    struct call_choice *choices;
    uint32_t choice_count;
    uint32_t places;            /* that it takes among all that run or wait */
    uint64_t began_us, sent_us; /* sent: the last bytes of the stream */
};

/* What is logged of a request when its reply goes out. */
struct request_note {
    bool generated;
    const char *error_code;
    const char *finish;
    uint32_t choices, prompt_tokens, cached_tokens, output_tokens;
    uint64_t queue_us, first_token_us;
};

struct server {
    struct server_options options;
    struct access access;
    struct log log;
    struct clock clock;
    uint64_t now_us; /* at the beginning of this round of the loop */
    int epoll_fd, event_fd;
    int listeners[LISTENERS_MAX];
    uint32_t listener_count;
    bool listening; /* epoll looks at the listeners */
    char url[128];
    struct conn *conns, *closed; /* closed in this round */
    uint32_t conn_count;
    struct call *calls, *calls_last;    /* by arrival */
    uint32_t call_count, waiting_count; /* waiting: in CALL_WAITING */
    uint32_t live;                      /* requests of the calls that are waiting or running */
    uint64_t body_bytes;                /* bodies in memory */
    uint64_t call_number, request_number;
    uint64_t boot; /* random: makes ids of this process unlike those of others */
    struct helper *helper;
    struct api_context context;
    bool ready, draining;
    uint64_t started_us, drain_until_us;
    int64_t created;        /* when it started, seconds since 1970 */
    uint32_t retry_after_s; /* for the next reply that says 429 or 503 */
    _Atomic int loaded;     /* 0 = loading, 1 = ready, 2 = failed */
    struct metrics metrics;
    struct request_note note;
};

static inline uint64_t server_now_us(const struct server *s)
{
    return clock_now_us(&s->clock);
}

/* server.c */
void server_conn_close(struct conn *c); /* safe at any time; freed at the end of the round */
void server_conn_next(struct conn *c);  /* a reply has ended: the next request, if it is there */
const char *server_model_name(const struct server *s);
bool server_model_lost(const struct server *s); /* bytes of its file are gone for good */

/* routes.c */
const struct dialect *route_errors(const struct route *route); /* NULL too: OpenAI's */
void routes_take_head(struct conn *c, const struct http_head *head); /* answered, or CONN_BODY */
void routes_take_body(struct conn *c);                               /* and now its body */

/* reply.c */
void server_note_reply(struct conn *c, int status);        /* log line and counters */
void reply_json(struct conn *c, int status, json_t *body); /* takes the reference */
void reply_error(struct conn *c, const struct dialect *dialect, const struct api_error *error);
void reply_refusal(struct conn *c, int status, const char *why); /* of the protocol */

/* call.c */
void call_start(struct conn *c);      /* the body is in c->body_text */
void call_work(void *item);           /* the helper's part */
void call_opened(struct call *call);  /* back from the helper */
void call_advance(struct call *call); /* there may be something new */
void call_leave(struct call *call);   /* its connection is gone */
void call_tick(struct call *call);
void call_retry_waiting(struct server *s);

/* endpoints.c */
void endpoint_health(struct conn *c);
void endpoint_models(struct conn *c);
void endpoint_model(struct conn *c);
void endpoint_metrics(struct conn *c);
void endpoint_props(struct conn *c);
void endpoint_slots(struct conn *c);
void endpoint_version(struct conn *c);
void endpoint_tokenizer_info(struct conn *c);
void endpoint_load(struct conn *c);
void endpoint_page(struct conn *c);

#endif
