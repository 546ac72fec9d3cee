/* SPDX-License-Identifier: MIT */
/* http_client: answers that come in pieces, chunked, counted, cut off; a machine that is gone is
 * noticed (the kernel asks). */
#include "tests/unit/test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "frontend/http/http_client.h"

struct other {
    int listener, fd;
    struct http_url url;
    struct http_client client;
    char body[64];
    size_t len;
};

static void take(void *ctx, const char *data, size_t len)
{
    struct other *o = ctx;
    assert_true(o->len + len < sizeof o->body);
    memcpy(o->body + o->len, data, len);
    o->len += len;
    o->body[o->len] = '\0';
}

static void open_other(struct other *o)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof a;
    struct fault fault = { 0 };
    char text[64];
    *o = (struct other){ .listener = socket(AF_INET, SOCK_STREAM, 0), .fd = -1 };
    assert_int_equal(bind(o->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(o->listener, 1), 0);
    assert_int_equal(getsockname(o->listener, (struct sockaddr *)&a, &bytes), 0);
    snprintf(text, sizeof text, "http://127.0.0.1:%u", ntohs(a.sin_port));
    assert_int_equal(http_url_parse(&o->url, text, &fault), RC_OK);
    http_client_post(&o->client, &o->url, "/x", "", "{}", 2, take, o);
    o->fd = accept(o->listener, NULL, NULL);
    assert_true(o->fd >= 0);
}

static void close_other(struct other *o)
{
    http_client_close(&o->client);
    if (o->fd >= 0)
        close(o->fd);
    close(o->listener);
}

static void step(struct other *o)
{
    struct pollfd fd = { o->client.fd, http_client_wants(&o->client), 0 };
    assert_int_equal(poll(&fd, 1, 60000), 1);
    (void)http_client_step(&o->client);
}

/* Sends the answer in pieces of so many bytes, then closes; the state it ends with. */
static enum http_state answered(struct other *o, const char *answer, size_t piece)
{
    char request[512];
    size_t len = strlen(answer);
    o->len = 0;
    step(o); /* the request goes out; what is not read would reset the connection at its end */
    assert_true(read(o->fd, request, sizeof request) > 0);
    for (size_t at = 0; at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        assert_int_equal(write(o->fd, answer + at, n), (ssize_t)n);
        if (o->client.state == HTTP_BUSY)
            step(o);
    }
    close(o->fd);
    o->fd = -1;
    while (o->client.state == HTTP_BUSY)
        step(o);
    return o->client.state;
}

static void test_answers(void **state)
{
    static const struct {
        const char *answer, *body;
        enum http_state end;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", HTTP_DONE },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
          "hello", HTTP_DONE },
        { "HTTP/1.1 200 OK\r\n\r\nhello", "hello", HTTP_DONE },
        { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "hello", HTTP_FAILED },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello",
          HTTP_FAILED },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "", HTTP_FAILED },
        { "", "", HTTP_FAILED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 200; piece += 70) {
            struct other o;
            open_other(&o);
            assert_int_equal(answered(&o, cases[i].answer, piece), cases[i].end);
            assert_string_equal(o.body, cases[i].body);
            assert_true(cases[i].end == HTTP_DONE || o.client.why[0] != '\0');
            close_other(&o);
        }
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &bytes), 0);
    return value;
}

static void test_a_machine_that_is_gone(void **state)
{
    struct other o;
    (void)state;
    open_other(&o);
    assert_int_equal(option(o.client.fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    int seconds = option(o.client.fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(o.client.fd, IPPROTO_TCP, TCP_KEEPINTVL) *
                      option(o.client.fd, IPPROTO_TCP, TCP_KEEPCNT);
    assert_in_range(seconds, 60, 120);
    close_other(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_a_machine_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
