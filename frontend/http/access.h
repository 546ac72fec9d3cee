/* SPDX-License-Identifier: MIT */
/* access - who may use the server: keys, and the names and origins that requests may carry.
 *   owner    the server; constant once it runs
 *   thread   any after opening
 *   errors   RC_USAGE with the flag, for keys and names that make no sense
 *   safety   keys are compared in a time that depends on the one that was shown alone. On a
 *            loopback address the Host field must name it, so that a page cannot reach the server
 *            through a name of its own (DNS rebinding); a browser's Origin must be the server's
 *            own, or one that was allowed */
#ifndef QUIRE_FRONTEND_HTTP_ACCESS_H
#define QUIRE_FRONTEND_HTTP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "frontend/options.h"
#include "sched/request.h"

#define ACCESS_KEYS_MAX 1024u /* keys of a server: each is compared with at every request */
#define ACCESS_KEY_BYTES_MAX 256u

struct access_key {
    char *text;
    size_t len;
    uint64_t tenant;        /* who shares the machine with whom, by a digest of a name */
    enum priority priority; /* the best class that its requests may have */
};

struct access {
    struct access_key keys[ACCESS_KEYS_MAX];
    uint32_t key_count;
    const struct option_texts *hosts; /* names that are allowed beside the usual ones; "*" = all */
    const struct option_texts *origins; /* alike, of pages elsewhere */
    bool loopback;                      /* every address that is listened on is one */
};

/* access_add_key - of --api-key. */
enum rc access_add_key(struct access *a, const char *key, struct fault *fault) ATTR_MUST_USE;

/* access_read_keys - a file of lines "KEY [TENANT [CLASS]]"; # begins a comment. */
enum rc access_read_keys(struct access *a, const char *path, struct fault *fault) ATTR_MUST_USE;

void access_close(struct access *a);

/* access_find_key - index + 1 of the key; 0 when it is none of them. */
uint32_t access_find_key(const struct access *a, struct str shown);

/* access_host_allowed - the Host field, port included. */
bool access_host_allowed(const struct access *a, struct str host);

enum access_origin {
    ORIGIN_REFUSED,
    ORIGIN_OWN,    /* of a page that came from here: nothing needs to be said */
    ORIGIN_ALLOWED /* of a page elsewhere: the answer must say so */
};
enum access_origin access_origin_check(const struct access *a, struct str origin, struct str host);

#endif
