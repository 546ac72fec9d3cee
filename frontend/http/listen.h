/* SPDX-License-Identifier: MIT */
/* listen - sockets that wait for clients: the addresses of a host, or a path.
 *   owner    the caller closes what it gets
 *   thread   any, no state
 *   errors   RC_USAGE for a name that is no address, RC_IO for what the system refuses */
#ifndef QUIRE_FRONTEND_HTTP_LISTEN_H
#define QUIRE_FRONTEND_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct listen_config {
    const char *host;
    uint16_t port;           /* 0: any that is free */
    const char *unix_socket; /* instead */
    int backlog;
};

/* listen_open - up to `most` sockets; url says where they are. */
enum rc listen_open(int *fds, uint32_t *count, uint32_t most, const struct listen_config *config,
                    char *url, size_t url_bytes, struct fault *fault) ATTR_MUST_USE;

/* listen_is_loopback - no other machine can reach any of the host's addresses. */
bool listen_is_loopback(const char *host);

/* listen_accept - a connection that does not block, or -1 with errno; peer gets its address. */
int listen_accept(int listener, char peer[48]);

#endif
