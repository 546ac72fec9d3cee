/* SPDX-License-Identifier: MIT */
/* server - the loop: one thread, epoll, and three ways in from other threads, which all write to
 * one eventfd (the scheduler after a step with events, the helpers, the loader).
 *
 *   accept -> conn -> routes -> answered at once
 *                          \--> call -> helper -> scheduler ... -> frames or a body -> conn
 *
 *   1. Nothing waits but epoll. What is slow is done by a helper or by the scheduler.
 *   2. A connection that goes away leaves its call, which is cancelled at once; both are freed when
 *      nobody can name them any more: connections at the end of the round, calls after the last
 *      event of their requests.
 *   3. Once a second, while there are connections, the deadlines are looked at. Without any the
 *      loop sleeps for good. */
#include "frontend/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/http/listen.h"
#include "frontend/http/server_impl.h"
#include "frontend/interrupt.h"

#define EVENTS_MAX 256
#define TICK_MS 1000
#define TICK_US 1000000u
#define LINGER_US 2000000u       /* after the last reply without a byte, for the client to close */
#define LINGER_MOST_US 30000000u /* after the last reply, whatever still comes */
#define LISTENER_MARK 1u         /* tags of epoll data that is no connection */

void server_wake(void *ctx)
{
    struct server *s = ctx;
    uint64_t one = 1;
    ssize_t n = write(s->event_fd, &one, sizeof one);
    must(n == sizeof one || errno == EAGAIN);
}

static void watch_listeners(struct server *s, bool on)
{
    if (s->listening == on)
        return;
    s->listening = on;
    for (uint32_t i = 0; i < s->listener_count; i++) {
        struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.ptr = &s->listeners[i] };
        must(epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i], &event) == 0);
    }
}

void server_conn_close(struct conn *c)
{
    struct server *s = c->server;
    if (c->fd < 0)
        return;
    close(c->fd);
    c->fd = -1;
    http_conn_drop_body(c);
    if (c->call != NULL)
        call_leave(c->call);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    c->next = s->closed;
    s->closed = c;
    s->conn_count--;
    watch_listeners(s, true);
}

static void free_closed(struct server *s)
{
    while (s->closed != NULL) {
        struct conn *c = s->closed;
        s->closed = c->next;
        text_close(&c->in);
        text_close(&c->out);
        mem_free(c);
    }
}

/* At the limit an idle connection makes room: the one that has been idle longest. */
static bool make_room(struct server *s)
{
    struct conn *oldest = NULL;
    for (struct conn *c = s->conns; c != NULL; c = c->next)
        if (c->state == CONN_HEAD && c->in.len == 0 && http_conn_unsent(c) == 0 &&
            (oldest == NULL || c->moved_us < oldest->moved_us))
            oldest = c;
    if (oldest == NULL)
        return false;
    server_conn_close(oldest);
    return true;
}

static void take_conn(struct server *s, int fd, const char *peer)
{
    struct conn *c = mem_alloc(sizeof *c);
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = c };
    if (c == NULL || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        mem_free(c);
        close(fd);
        return;
    }
    *c = (struct conn){ .server = s, .fd = fd, .watched = event.events, .next = s->conns };
    c->moved_us = s->now_us;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    if (s->conns != NULL)
        s->conns->prev = c;
    s->conns = c;
    s->conn_count++;
    s->metrics.connections_total++;
}

/* A few at a time, so that a flood of new connections does not keep the others waiting. */
static void accept_some(struct server *s, int listener)
{
    for (int i = 0; i < 64; i++) {
        char peer[48];
        if (s->conn_count >= s->options.connections) {
            if (i > 0)
                return; /* whether there is another one, epoll will say */
            if (!make_room(s)) {
                watch_listeners(s, false);
                return;
            }
        }
        int fd = listen_accept(listener, peer);
        if (fd >= 0)
            take_conn(s, fd, peer);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            watch_listeners(s, false); /* the next one that closes turns it on again, or the tick */
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* What the head says to the bytes that are there; goes on while whole requests are, and the client
 * takes the replies. */
static void process(struct conn *c)
{
    while (c->fd >= 0 && (c->state == CONN_HEAD || c->state == CONN_BODY) &&
           http_conn_unsent(c) == 0) {
        size_t used = 0;
        int status;
        if (c->state == CONN_HEAD) {
            if (c->in.len == 0)
                break;
            if (c->request.began_us == 0)
                c->request.began_us = server_now_us(c->server);
            status = http_head_scan(&c->scan, c->in.data, c->in.len, &used);
            if (status == 200) {
                struct http_head head;
                const char *why;
                status = http_head_parse(&head, c->in.data + c->scan.head_begin,
                                         used - c->scan.head_begin, &why);
                if (status == 200)
                    routes_take_head(c, &head);
                else
                    reply_refusal(c, status, why);
                http_conn_drop_in(c, used);
                continue;
            }
            if (status != 0)
                reply_refusal(c, status,
                              "the head of the request is too long, or has a bare line feed");
        } else {
            size_t before = c->body_text.len;
            status = http_body_push(&c->body, c->in.data, c->in.len, &used, &c->body_text);
            c->server->body_bytes += c->body_text.len - before;
            http_conn_drop_in(c, used);
            if (status == 0 && c->server->body_bytes > BODIES_BYTES_MAX)
                status = 503;
            if (status == 200)
                routes_take_body(c);
            else if (status != 0)
                reply_refusal(c, status,
                              status == 503
                                  ? "too many long requests at once"
                                  : "the body of the request is too long or badly framed");
        }
        if (status == 0)
            break;
    }
    http_conn_watch(c);
}

void server_conn_next(struct conn *c)
{
    if (c->fd >= 0)
        process(c);
}

static void take_conn_event(struct conn *c, uint32_t events)
{
    struct server *s = c->server;
    if (c->fd < 0)
        return; /* closed earlier in this round */
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        server_conn_close(c);
        return;
    }
    if ((events & EPOLLIN) != 0 && http_conn_may_read(c) && http_conn_read(c))
        process(c);
    if (c->fd >= 0 && (events & EPOLLOUT) != 0) {
        bool waited = !http_conn_may_write(c);
        if (http_conn_flush(c)) {
            if (waited && http_conn_may_write(c) && c->call != NULL)
                call_advance(c->call);
            process(c); /* what has waited behind the reply */
        }
    }
    if (c->fd >= 0 && (events & EPOLLRDHUP) != 0 && c->state == CONN_REPLY) {
        if (!s->options.keep_half_closed) {
            server_conn_close(c);
            return;
        }
        c->half_closed = true;
        c->request.keep_alive = false;
        http_conn_watch(c);
    }
}

static void take_helped(struct server *s)
{
    struct call *call;
    while ((call = helper_take(s->helper)) != NULL)
        call_opened(call);
}

static void take_sched_events(struct server *s)
{
    struct request *r;
    while (s->ready && (r = sched_next_event(s->context.engine->sched, 0)) != NULL) {
        struct completion *completion = request_user(r);
        call_advance(completion->user);
    }
}

static void tick_conn(struct conn *c, uint64_t now)
{
    const struct server_options *o = &c->server->options;
    uint64_t still = now > c->moved_us ? now - c->moved_us : 0;
    uint64_t second = 1000000;
    if (http_conn_unsent(c) > 0) {
        if (still > o->write_s * second) {
            c->server->metrics.dropped_slow++;
            server_conn_close(c);
        }
    } else if (c->state == CONN_LAST) {
        if (still > LINGER_US || (c->shut_us > 0 && now > c->shut_us + LINGER_MOST_US))
            server_conn_close(c);
    } else if (c->state == CONN_HEAD && c->in.len == 0) {
        if (still > o->idle_s * second || c->server->draining)
            server_conn_close(c);
    } else if (c->state != CONN_REPLY && now > c->request.began_us + o->read_s * second) {
        reply_refusal(c, 408, "the request did not come to its end in time");
    }
}

static void tick(struct server *s)
{
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        tick_conn(c, s->now_us);
    }
    for (struct call *call = s->calls, *next; call != NULL; call = next) {
        next = call->next;
        call_tick(call);
    }
    watch_listeners(s, true);
}

/* The first signal. */
static void begin_drain(struct server *s)
{
    s->draining = true;
    s->drain_until_us = s->now_us + (uint64_t)s->options.drain_s * 1000000u;
    struct log_line line;
    log_begin(&line, &s->log, LOG_INFO, "draining");
    log_u64(&line, "calls", s->call_count);
    log_end(&line);
}

static bool drained(struct server *s)
{
    if (!s->draining)
        return false;
    if (s->now_us >= s->drain_until_us)
        while (s->conns != NULL)
            server_conn_close(s->conns);
    bool unsent = false;
    for (struct conn *c = s->conns; c != NULL; c = c->next)
        unsent |= http_conn_unsent(c) > 0;
    return s->call_count == 0 && !unsent;
}

static void take_events(struct server *s, const struct epoll_event *events, int count)
{
    s->now_us = server_now_us(s);
    for (int i = 0; i < count; i++) {
        void *p = events[i].data.ptr;
        uint64_t ignored;
        if (p == &s->event_fd)
            (void)!read(s->event_fd, &ignored, sizeof ignored);
        else if (p >= (void *)s->listeners && p < (void *)(s->listeners + LISTENERS_MAX))
            accept_some(s, *(int *)p);
        else
            take_conn_event(p, events[i].events);
    }
    take_helped(s);
    take_sched_events(s);
    call_retry_waiting(s);
}

/* Until the end of the drain, or until loading has failed. */
static void loop(struct server *s)
{
    sigset_t during, blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    during = blocked;
    sigdelset(&during, SIGTERM);
    sigdelset(&during, SIGINT);
    uint64_t ticked_us = 0;
    s->now_us = server_now_us(s);
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        bool busy = s->conn_count > 0 || s->call_count > 0 || s->draining || !s->listening;
        int n = epoll_pwait(s->epoll_fd, events, EVENTS_MAX, busy ? TICK_MS : -1, &during);
        must(n >= 0 || errno == EINTR);
        take_events(s, events, n > 0 ? n : 0);
        /* epoll_pwait lets no signal in while there are always events */
        pthread_sigmask(SIG_SETMASK, &during, NULL);
        pthread_sigmask(SIG_SETMASK, &blocked, NULL);
        int loaded = atomic_load_explicit(&s->loaded, memory_order_acquire);
        if (loaded == 2)
            return;
        if (loaded == 1 && !s->ready) {
            s->ready = true;
            fprintf(stderr, "ready     %s\n", s->url);
        }
        if (interrupt_signal() != 0 && !s->draining)
            begin_drain(s);
        if (s->now_us - ticked_us >= TICK_US - TICK_US / 10) {
            ticked_us = s->now_us;
            tick(s);
        }
        free_closed(s);
        if (loaded != 0 && drained(s))
            return;
    }
}

struct loading {
    struct server *server;
    const struct server_load *load;
    struct fault *fault;
    enum rc rc;
};

static void *loading_main(void *arg)
{
    struct loading *l = arg;
    l->rc = l->load->open(l->load->ctx, &l->server->context, l->fault);
    atomic_store_explicit(&l->server->loaded, l->rc == RC_OK ? 1 : 2, memory_order_release);
    server_wake(l->server);
    return NULL;
}

enum rc server_run(struct server *s, const struct server_load *load, struct fault *fault)
{
    struct loading loading = { .server = s, .load = load, .fault = fault };
    pthread_t thread;
    sigset_t all, signals, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* interrupt_guard_files */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, loading_main, &loading);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        errno = error;
        return fault_set_errno(fault, RC_NO_MEMORY, "the loading thread cannot be started");
    }
    sigemptyset(&signals); /* they come inside epoll_pwait and nowhere else */
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    loop(s);
    must(pthread_join(thread, NULL) == 0);
    while (s->conns != NULL)
        server_conn_close(s->conns);
    while (s->call_count > 0) { /* what is cancelled ends within a step */
        struct request *r = sched_next_event(s->context.engine->sched, 20000);
        if (r != NULL)
            call_advance(((struct completion *)request_user(r))->user);
        take_helped(s);
    }
    free_closed(s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loading.rc;
}

static enum rc open_access(struct server *s, struct fault *fault)
{
    const struct server_options *o = &s->options;
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < o->keys.count && rc == RC_OK; i++)
        rc = access_add_key(&s->access, o->keys.items[i], fault);
    if (rc == RC_OK && o->key_file != NULL)
        rc = access_read_keys(&s->access, o->key_file, fault);
    s->access.hosts = &o->hosts;
    s->access.origins = &o->origins;
    if (rc == RC_OK && !s->access.loopback && s->access.key_count == 0 && !o->open)
        rc = fault_set(fault, RC_USAGE,
                       "--host %.60s can be reached from other machines: give --api-key or "
                       "--api-key-file, or --no-key if everybody may use it",
                       o->host);
    return rc;
}

static enum rc open_listeners(struct server *s, struct fault *fault)
{
    const struct server_options *o = &s->options;
    struct listen_config config = { .host = o->host,
                                    .port = (uint16_t)o->port,
                                    .unix_socket = o->unix_socket,
                                    .backlog = (int)o->connections };
    return listen_open(s->listeners, &s->listener_count, LISTENERS_MAX, &config, s->url,
                       sizeof s->url, fault);
}

static enum rc open_epoll(struct server *s, struct fault *fault)
{
    s->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &s->event_fd };
    if (s->event_fd < 0 || s->epoll_fd < 0 ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->event_fd, &event) != 0)
        return fault_set_errno(fault, RC_IO, "epoll cannot be set up");
    for (uint32_t i = 0; i < s->listener_count; i++) {
        event.data.ptr = &s->listeners[i];
        if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listeners[i], &event) != 0)
            return fault_set_errno(fault, RC_IO, "epoll cannot be set up");
    }
    s->listening = true;
    return RC_OK;
}

enum rc server_open(struct server **out, const struct server_options *options, struct fault *fault)
{
    *out = NULL;
    struct server *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    s->options = *options;
    s->epoll_fd = s->event_fd = -1;
    s->clock = clock_real();
    s->log = (struct log){ .fd = STDERR_FILENO,
                           .level = (enum log_level)options->log_level,
                           .format = (enum log_format)options->log_format,
                           .wall = clock_wall() };
    (void)!getrandom(&s->boot, sizeof s->boot, 0);
    s->access.loopback = options->unix_socket != NULL || listen_is_loopback(options->host);
    struct helper_config helper = { options->connections, call_work, server_wake, s };
    enum rc rc = open_access(s, fault);
    if (rc == RC_OK)
        rc = open_listeners(s, fault);
    if (rc == RC_OK)
        rc = open_epoll(s, fault);
    if (rc == RC_OK)
        rc = helper_open(&s->helper, &helper, fault);
    s->started_us = server_now_us(s);
    s->created = (int64_t)(clock_wall().now_us(NULL) / 1000000u);
    if (rc == RC_OK)
        *out = s;
    else
        server_close(s);
    return rc;
}

void server_close(struct server *s)
{
    if (s == NULL)
        return;
    helper_close(s->helper);
    for (uint32_t i = 0; i < s->listener_count; i++)
        close(s->listeners[i]);
    if (s->options.unix_socket != NULL && s->listener_count > 0)
        unlink(s->options.unix_socket);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    if (s->event_fd >= 0)
        close(s->event_fd);
    access_close(&s->access);
    mem_free(s);
}

const char *server_model_name(const struct server *s)
{
    return s->ready ? s->context.engine->name : "";
}

bool server_model_lost(const struct server *s)
{
    return s->ready && exec_cpu_lost(s->context.engine->exec);
}

const char *server_url(const struct server *s)
{
    return s->url;
}
