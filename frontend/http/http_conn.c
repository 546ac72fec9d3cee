/* SPDX-License-Identifier: MIT */
/* http_conn - bytes in and out.
 *   1. Nothing here blocks. What a socket does not take waits in `out`, and EPOLLOUT says when.
 *   2. While a request is answered nothing is read, so a client that sends on is slowed down by its
 *      own socket; EPOLLRDHUP alone says that it has gone. Nor is anything read while a reply waits
 *      for the socket: requests that ask for more than they take would fill the memory.
 *   3. The last reply of a connection is followed by a shutdown, and what the client still sends is
 *      read and dropped for a while: closing at once would reset the connection, and a reset takes
 *      the reply with it. */
#include "frontend/http/http_conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "frontend/http/server_impl.h"

#define DROPPED_BYTES_MAX (64u << 20) /* read and dropped after the last reply */
#define KEEP_BYTES 16384u /* a buffer larger than this is not kept for the next request */

size_t http_conn_unsent(const struct conn *c)
{
    return c->out.len - c->out_sent;
}

bool http_conn_may_write(const struct conn *c)
{
    return http_conn_unsent(c) < CONN_OUT_HIGH;
}

bool http_conn_may_read(const struct conn *c)
{
    return c->state == CONN_LAST || (c->state != CONN_REPLY && http_conn_unsent(c) == 0);
}

void http_conn_drop_in(struct conn *c, size_t count)
{
    must(count <= c->in.len);
    c->in.len -= count;
    if (c->in.len > 0)
        memmove(c->in.data, c->in.data + count, c->in.len);
    else if (c->in.capacity > KEEP_BYTES)
        text_close(&c->in);
}

void http_conn_drop_body(struct conn *c)
{
    c->server->body_bytes -= c->body_text.len;
    text_close(&c->body_text);
}

bool http_conn_read(struct conn *c)
{
    char bytes[CONN_READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        c->half_closed = n == 0;
        server_conn_close(c);
        return false;
    }
    if (http_conn_unsent(c) == 0) /* who sends and reads nothing stands still */
        c->moved_us = server_now_us(c->server);
    if (c->state == CONN_LAST) {
        c->dropped += (uint64_t)n;
        if (c->dropped <= DROPPED_BYTES_MAX)
            return true;
        server_conn_close(c);
        return false;
    }
    if (text_append(&c->in, bytes, (size_t)n) == RC_OK)
        return true;
    server_conn_close(c);
    return false;
}

bool http_conn_flush(struct conn *c)
{
    while (http_conn_unsent(c) > 0) {
        ssize_t n = send(c->fd, c->out.data + c->out_sent, http_conn_unsent(c),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0) {
            server_conn_close(c);
            return false;
        }
        c->out_sent += (size_t)n;
        c->moved_us = server_now_us(c->server);
    }
    c->out.len = c->out_sent = 0;
    if (c->out.capacity > KEEP_BYTES)
        text_close(&c->out);
    if (c->state == CONN_LAST && c->shut_us == 0) {
        c->shut_us = server_now_us(c->server);
        if (shutdown(c->fd, SHUT_WR) != 0) {
            server_conn_close(c);
            return false;
        }
    }
    return true;
}

void http_conn_watch(struct conn *c)
{
    if (c->fd < 0)
        return;
    bool reads = http_conn_may_read(c);
    uint32_t wanted = reads ? EPOLLIN : 0; /* its end is read behind the bytes before it */
    if (!c->half_closed && (reads || c->state == CONN_REPLY))
        wanted |= EPOLLRDHUP;
    if (http_conn_unsent(c) > 0)
        wanted |= EPOLLOUT;
    if (wanted == c->watched)
        return;
    struct epoll_event event = { .events = wanted, .data.ptr = c };
    must(epoll_ctl(c->server->epoll_fd, EPOLL_CTL_MOD, c->fd, &event) == 0);
    c->watched = wanted;
}

/* Bytes that were sent make room first; without memory the connection is given up. */
static void put(struct conn *c, const char *bytes, size_t len)
{
    if (c->fd < 0)
        return;
    if (c->out_sent > 0) {
        c->out.len -= c->out_sent;
        memmove(c->out.data, c->out.data + c->out_sent, c->out.len);
        c->out_sent = 0;
    }
    if (c->out.len == 0) /* the time of a stalled reader begins with the first byte that waits */
        c->moved_us = server_now_us(c->server);
    if (text_append(&c->out, bytes, len) != RC_OK)
        server_conn_close(c);
}

static void putf(struct conn *c, const char *format, ...) ATTR_PRINTF(2, 3);
static void putf(struct conn *c, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    must(len >= 0 && (size_t)len < sizeof line);
    put(c, line, (size_t)len);
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        { 200, "OK" },
        { 204, "No Content" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Error";
}

/* The fields that every answer has. */
static void put_head(struct conn *c, int status)
{
    char date[40];
    time_t now = (time_t)(clock_wall().now_us(NULL) / 1000000u);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    const struct conn_request *q = &c->request;
    putf(c, "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: quire\r\nX-Content-Type-Options: nosniff\r\n",
         status, status_text(status), date);
    if (q->id[0] != '\0')
        putf(c, "x-request-id: %s\r\n", q->id);
    if (q->origin[0] != '\0')
        putf(c,
             "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
             "Access-Control-Expose-Headers: x-request-id, retry-after\r\n",
             q->origin);
    if (!q->keep_alive)
        putf(c, "Connection: close\r\n");
    else if (q->http_1_0)
        putf(c, "Connection: keep-alive\r\n");
}

/* The reply is in `out`: on to the next request of the connection. */
static void end_request(struct conn *c)
{
    if (c->fd < 0)
        return;
    c->state = c->request.keep_alive ? CONN_HEAD : CONN_LAST;
    c->scan = (struct http_scan){ 0 };
    c->request = (struct conn_request){ 0 };
    http_conn_drop_body(c);
    if (http_conn_flush(c))
        http_conn_watch(c);
}

void http_conn_reply(struct conn *c, const struct reply *r)
{
    put_head(c, r->status);
    if (r->type != NULL)
        putf(c, "Content-Type: %s\r\n", r->type);
    if (r->status != 204)
        putf(c, "Content-Length: %zu\r\n", r->len);
    putf(c, "Cache-Control: no-store\r\n");
    if (r->allow != NULL)
        putf(c, "Allow: %s\r\n", r->allow);
    if (r->status == 204 && c->request.origin[0] != '\0')
        putf(c,
             "Access-Control-Allow-Methods: %s\r\nAccess-Control-Allow-Headers: authorization, "
             "*\r\nAccess-Control-Max-Age: 600\r\n", /* * is all others: clients send many */
             r->allow != NULL ? r->allow : "GET, POST");
    if (r->status == 401)
        putf(c, "WWW-Authenticate: Bearer\r\n");
    if (r->retry_after_s > 0)
        putf(c, "Retry-After: %u\r\n", r->retry_after_s);
    if (r->no_retry)
        putf(c, "x-should-retry: false\r\n");
    put(c, "\r\n", 2);
    if (!c->request.head_only && r->len > 0)
        put(c, r->body, r->len);
    server_note_reply(c, r->status);
    end_request(c);
}

void http_conn_continue(struct conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    put(c, text, sizeof text - 1);
    if (c->fd >= 0 && http_conn_flush(c))
        http_conn_watch(c);
}

void http_conn_stream_begin(struct conn *c, const char *type)
{
    c->chunked = !c->request.http_1_0;
    if (c->request.http_1_0)
        c->request.keep_alive = false;
    put_head(c, 200);
    putf(c, "Content-Type: %s\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n%s\r\n", type,
         c->chunked ? "Transfer-Encoding: chunked\r\n" : "");
    if (c->fd >= 0 && http_conn_flush(c))
        http_conn_watch(c);
}

void http_conn_stream(struct conn *c, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    if (c->chunked)
        putf(c, "%zx\r\n", len);
    put(c, bytes, len);
    if (c->chunked)
        put(c, "\r\n", 2);
    if (c->fd >= 0 && http_conn_flush(c))
        http_conn_watch(c);
}

void http_conn_stream_end(struct conn *c)
{
    if (c->chunked)
        put(c, "0\r\n\r\n", 5);
    server_note_reply(c, 200);
    end_request(c);
}
