/* SPDX-License-Identifier: MIT */
/* hash - 128 bits over any bytes: what a file is and whether bytes came back as they went. It finds
 * accidents; it does not stop an adversary.
 *   thread   any; pure. The same on every machine with the byte order of the files (little) */
#ifndef QUIRE_CORE_HASH_H
#define QUIRE_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t a, b;
};

/* hash_bytes - depends on every bit of before, of the bytes, and on len: hashes of several pieces
 * are made by handing the one on to the next. */
struct hash hash_bytes(struct hash before, const void *bytes, size_t len);

#endif
