/* SPDX-License-Identifier: MIT */
/* listen - names are looked up once, at the start. A path that a dead process has left is taken
 * over; one that somebody answers on is not. */
#include "frontend/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int look_up(const char *host, uint16_t port, struct addrinfo **out)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    return getaddrinfo(host, service, &hints, out);
}

bool listen_is_loopback(const char *host)
{
    struct addrinfo *all;
    bool loopback = true;
    if (look_up(host, 0, &all) != 0)
        return false;
    for (struct addrinfo *a = all; a != NULL; a = a->ai_next)
        loopback &= is_loopback(a->ai_addr);
    freeaddrinfo(all);
    return loopback;
}

/* One address; the port that it got goes to *port. -1 with errno. */
static int open_address(const struct addrinfo *a, uint16_t *port, int backlog)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t len = a->ai_addrlen;
    if (len > sizeof address) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    memcpy(&address, a->ai_addr, len);
    in_port_t *slot = a->ai_family == AF_INET6 ? &address.v6.sin6_port : &address.v4.sin_port;
    *slot = htons(*port);
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, &address.any, len) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, &address.any, &len) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *port = ntohs(*slot);
    return fd;
}

static enum rc open_host(int *fds, uint32_t *count, uint32_t most,
                         const struct listen_config *config, char *url, size_t url_bytes,
                         struct fault *fault)
{
    struct addrinfo *all;
    uint16_t port = config->port;
    int failed = look_up(config->host, port, &all), error = EADDRNOTAVAIL;
    if (failed != 0)
        return fault_set(fault, RC_USAGE, "--host %.100s: %s", config->host, gai_strerror(failed));
    for (struct addrinfo *a = all; a != NULL && *count < most; a = a->ai_next) {
        int fd = open_address(a, &port, config->backlog);
        if (fd >= 0)
            fds[(*count)++] = fd;
        else if (errno != EAFNOSUPPORT && (errno != EADDRNOTAVAIL || a == all))
            error = errno;
        if (fd < 0 && errno == EADDRINUSE)
            break;
    }
    freeaddrinfo(all);
    bool v6 = strchr(config->host, ':') != NULL;
    snprintf(url, url_bytes, "http://%s%s%s:%u", v6 ? "[" : "", config->host, v6 ? "]" : "", port);
    if (*count > 0 && error != EADDRINUSE)
        return RC_OK;
    errno = error;
    return fault_set_errno(fault, RC_IO, "%.120s cannot be listened on", url);
}

static enum rc open_path(int *fds, uint32_t *count, const struct listen_config *config, char *url,
                         size_t url_bytes, struct fault *fault)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = config->unix_socket;
    struct stat st;
    if (strlen(path) >= sizeof address.sun_path)
        return fault_set(fault, RC_USAGE, "--unix-socket: the path has more than %zu bytes",
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fault_set_errno(fault, RC_IO, "a socket cannot be made");
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t before = umask(0117);
    int failed = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                 listen(fd, config->backlog) != 0;
    umask(before);
    if (failed) {
        enum rc rc = fault_set_errno(fault, RC_IO, "--unix-socket %.100s", path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    fds[(*count)++] = fd;
    snprintf(url, url_bytes, "unix:%s", path);
    return RC_OK;
}

enum rc listen_open(int *fds, uint32_t *count, uint32_t most, const struct listen_config *config,
                    char *url, size_t url_bytes, struct fault *fault)
{
    *count = 0;
    if (config->unix_socket != NULL)
        return open_path(fds, count, config, url, url_bytes, fault);
    return open_host(fds, count, most, config, url, url_bytes, fault);
}

int listen_accept(int listener, char peer[48])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t len = sizeof address;
    int fd = accept4(listener, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    snprintf(peer, 48, "unix");
    if (fd < 0)
        return -1;
    if (address.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &address.v4.sin_addr, peer, 48);
    else if (address.any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &address.v6.sin6_addr, peer, 48);
    else
        return fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}
