/* SPDX-License-Identifier: MIT */
/* http_client - see http_client.h. */
#include "frontend/http/http_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/str.h"
#include "frontend/http/http_head.h"

#define HEAD_BYTES_MAX (64u << 10)
#define READ_BYTES (16u << 10)

/* Seconds without a word, between asking whether the other machine is there, and questions. */
enum { ALIVE_IDLE_S = 30, ALIVE_EVERY_S = 10, ALIVE_QUESTIONS = 6 };

/* Where in a chunked body the next byte is. */
enum chunk_step { CHUNK_SIZE, CHUNK_SIZE_REST, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };

static enum rc parse_unix(struct http_url *out, const char *path, struct fault *fault)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->address;
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof un->sun_path)
        return fault_set(fault, RC_USAGE, "unix:%s: the path must have 1 to %zu bytes", path,
                         sizeof un->sun_path - 1);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len + 1);
    out->address_bytes = sizeof *un;
    memcpy(out->host, "localhost", sizeof "localhost");
    return RC_OK;
}

enum rc http_url_parse(struct http_url *out, const char *text, struct fault *fault)
{
    *out = (struct http_url){ 0 };
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(out, text + 5, fault);
    if (strncmp(text, "http://", 7) != 0)
        return fault_set(fault, RC_USAGE, "%s: wanted http://HOST:PORT or unix:PATH", text);
    const char *host = text + 7, *slash = strchr(host, '/');
    size_t len = slash != NULL ? (size_t)(slash - host) : strlen(host);
    size_t path_len = slash != NULL ? strlen(slash) : 0;
    while (path_len > 0 && slash[path_len - 1] == '/')
        path_len--;
    if (len == 0 || len >= sizeof out->host || path_len >= sizeof out->path)
        return fault_set(fault, RC_USAGE, "%s: the host must have 1 to %zu bytes", text,
                         sizeof out->host - 1);
    memcpy(out->host, host, len);
    memcpy(out->path, slash != NULL ? slash : "", path_len);
    char name[sizeof out->host];
    memcpy(name, out->host, sizeof name);
    char *colon = strrchr(name, ':'), *end = strrchr(name, ']');
    const char *port = "80";
    if (colon != NULL && (end == NULL || colon > end)) {
        *colon = '\0';
        port = colon + 1;
    }
    char *bare = name;
    if (end != NULL && name[0] == '[') {
        *end = '\0';
        bare = name + 1;
    }
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int error = getaddrinfo(bare, port, &hints, &found);
    if (error != 0)
        return fault_set(fault, RC_USAGE, "%s: %s", text, gai_strerror(error));
    memcpy(&out->address, found->ai_addr, found->ai_addrlen);
    out->address_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return RC_OK;
}

static enum http_state fail(struct http_client *c, const char *what)
{
    snprintf(c->why, sizeof c->why, "%s", what);
    return c->state = HTTP_FAILED;
}

/* An answer may take hours, but a machine that is gone (power, cable) must be noticed: the kernel
 * asks in silence, and no answer ends the connection with ETIMEDOUT after a minute and a half. */
static void ask_whether_alive(int fd)
{
    static const struct {
        int level, name, value;
    } set[] = {
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, ALIVE_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, ALIVE_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, ALIVE_QUESTIONS },
    };
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        (void)setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof set[i].value);
}

void http_client_post(struct http_client *c, const struct http_url *url, const char *target,
                      const char *headers, const char *body, size_t body_len, http_body_fn *take,
                      void *ctx)
{
    char head[1024];
    *c = (struct http_client){ .fd = -1, .body_left = -1, .take = take, .ctx = ctx };
    int len = snprintf(head, sizeof head,
                       "POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n%s\r\n",
                       url->path, target, url->host, body_len, headers);
    if (len < 0 || (size_t)len >= sizeof head) {
        fail(c, "the request's head is too long");
        return;
    }
    if (text_append(&c->out, head, (size_t)len) != RC_OK ||
        text_append(&c->out, body, body_len) != RC_OK) {
        fail(c, "out of memory");
        return;
    }
    c->fd = socket(url->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && url->address.ss_family != AF_UNIX)
        ask_whether_alive(c->fd);
    if (c->fd < 0 ||
        (connect(c->fd, (const struct sockaddr *)&url->address, url->address_bytes) != 0 &&
         errno != EINPROGRESS))
        fail(c, strerror(errno));
}

void http_client_close(struct http_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    text_close(&c->out);
    text_close(&c->head);
}

short http_client_wants(const struct http_client *c)
{
    return c->sent < c->out.len ? POLLOUT : POLLIN;
}

struct str http_client_field(const struct http_client *c, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = strstr(c->head.data, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;
            return str_trim((struct str){ value, strcspn(value, "\r") });
        }
    }
    return (struct str){ 0 };
}

/* The head is complete and zero-terminated. */
static enum http_state read_head(struct http_client *c)
{
    const char *head = c->head.data;
    uint64_t bytes;
    if (strncmp(head, "HTTP/1.", 7) != 0 || strlen(head) < 12 ||
        !str_parse_u32((struct str){ head + 9, 3 }, 100, 599, &c->status))
        return fail(c, "the answer is not HTTP/1.1");
    struct str coding = http_client_field(c, "Transfer-Encoding");
    struct str length = http_client_field(c, "Content-Length");
    c->chunked = coding.len == 7 && strncasecmp(coding.text, "chunked", 7) == 0;
    c->chunk_step = CHUNK_SIZE;
    c->head_done = true;
    if (c->chunked) {
        c->body_left = 0;
    } else if (length.len > 0) {
        if (!str_parse_u64(length, 0, INT64_MAX, &bytes))
            return fail(c, "the answer's length is unreadable");
        c->body_left = (int64_t)bytes;
        c->state = bytes == 0 ? HTTP_DONE : c->state;
    }
    return c->state;
}

/* One byte of a chunked body that is no data. */
static enum http_state take_frame(struct http_client *c, char ch)
{
    switch ((enum chunk_step)c->chunk_step) {
    case CHUNK_SIZE:
        if (http_hex_digit(ch) >= 0 && c->body_left < INT64_C(1) << 40) {
            c->body_left = c->body_left * 16 + http_hex_digit(ch);
            return c->state;
        }
        c->chunk_step = CHUNK_SIZE_REST;
        return ch == '\r' || ch == ';' ? c->state : fail(c, "a chunk's size is unreadable");
    case CHUNK_SIZE_REST:
        if (ch == '\n')
            c->chunk_step = c->body_left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
        return c->state;
    case CHUNK_DATA_END:
        if (ch == '\n')
            c->chunk_step = CHUNK_SIZE;
        return c->state;
    case CHUNK_TRAILER: /* servers of today send none: the empty line ends the answer */
        return ch == '\n' ? c->state = HTTP_DONE : c->state;
    case CHUNK_DATA:
        break;
    }
    return c->state;
}

static enum http_state take_chunked(struct http_client *c, const char *p, size_t len)
{
    while (len > 0 && c->state == HTTP_BUSY) {
        if (c->chunk_step != CHUNK_DATA) {
            take_frame(c, *p++);
            len--;
            continue;
        }
        size_t part = (int64_t)len < c->body_left ? len : (size_t)c->body_left;
        c->take(c->ctx, p, part);
        p += part;
        len -= part;
        c->body_left -= (int64_t)part;
        if (c->body_left == 0)
            c->chunk_step = CHUNK_DATA_END;
    }
    return c->state;
}

static enum http_state take_body(struct http_client *c, const char *p, size_t len)
{
    if (c->chunked)
        return take_chunked(c, p, len);
    if (c->body_left >= 0 && (int64_t)len > c->body_left)
        return fail(c, "the answer is longer than it says");
    if (len > 0)
        c->take(c->ctx, p, len);
    if (c->body_left >= 0 && (c->body_left -= (int64_t)len) == 0)
        c->state = HTTP_DONE;
    return c->state;
}

static enum http_state take_bytes(struct http_client *c, const char *p, size_t len)
{
    if (c->head_done)
        return take_body(c, p, len);
    if (c->head.len + len > HEAD_BYTES_MAX)
        return fail(c, "the answer's head is too long");
    if (text_append(&c->head, p, len) != RC_OK)
        return fail(c, "out of memory");
    char *end = strstr(c->head.data, "\r\n\r\n");
    if (end == NULL)
        return c->state;
    size_t head_len = (size_t)(end - c->head.data) + 4;
    end[2] = '\0';
    if (read_head(c) != HTTP_BUSY)
        return c->state;
    return take_body(c, c->head.data + head_len, c->head.len - head_len);
}

static enum http_state step_write(struct http_client *c)
{
    ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
        return fail(c, strerror(errno));
    c->sent += n > 0 ? (size_t)n : 0;
    return c->state;
}

enum http_state http_client_step(struct http_client *c)
{
    char buffer[READ_BYTES];
    if (c->state != HTTP_BUSY)
        return c->state;
    if (c->sent < c->out.len)
        return step_write(c);
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return c->state;
    if (n < 0)
        return fail(c, strerror(errno));
    if (n > 0)
        return take_bytes(c, buffer, (size_t)n);
    if (c->head_done && !c->chunked && c->body_left < 0)
        return c->state = HTTP_DONE;
    return fail(c, "the server closed the connection before the answer was complete");
}
