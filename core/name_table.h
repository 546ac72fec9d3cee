/* SPDX-License-Identifier: MIT */
/* name_table - counted texts to their index, built once: constant-time look-up, duplicate
 * detection.
 *   owner    the opener; the texts stay the caller's and must outlive the table
 *   thread   any after building: read-only
 *   errors   RC_NO_MEMORY from open; name_table_add tells a duplicate by its earlier index
 *   limits   count below 2^31; the hash is keyed at random: a file cannot choose collisions */
#ifndef QUIRE_CORE_NAME_TABLE_H
#define QUIRE_CORE_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/err.h"

#define NAME_NONE UINT32_MAX

struct name_slot {
    const char *text;
    size_t len;
    uint32_t index; /* NAME_NONE = free */
    uint32_t tag;   /* upper half of the hash: most misses cost no compare */
};

struct name_table {
    struct name_slot *slots;
    uint32_t slot_count; /* power of two, at least twice the names */
    uint32_t used;
    uint64_t key[2];
};

/* name_table_open - room for count names. name_table_close - a zeroed table is allowed. */
enum rc name_table_open(struct name_table *t, uint32_t count) ATTR_MUST_USE;
void name_table_close(struct name_table *t);

/* name_table_add - NAME_NONE when added, else the index under which the same text is already known.
 */
uint32_t name_table_add(struct name_table *t, const char *text, size_t len,
                        uint32_t index) ATTR_MUST_USE;

/* name_table_find - index of a text, NAME_NONE when unknown; a zeroed table knows none. */
uint32_t name_table_find(const struct name_table *t, const char *text, size_t len);

#endif
