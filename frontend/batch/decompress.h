/* SPDX-License-Identifier: MIT */
/* decompress - packed bytes to plain ones, as they come: gzip (zlib) and Zstandard (libzstd), told
 * apart by their first bytes. Several members or frames one after another are one stream.
 *   owner    the opener
 *   thread   one
 *   errors   RC_CORRUPT for bytes that are no such stream; RC_NO_MEMORY */
#ifndef QUIRE_FRONTEND_BATCH_DECOMPRESS_H
#define QUIRE_FRONTEND_BATCH_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define DECOMPRESS_MAGIC_BYTES 4u

struct decompress;

/* decompress_open - NULL in *out when the first bytes, DECOMPRESS_MAGIC_BYTES unless there are
 * fewer, are neither. */
enum rc decompress_open(struct decompress **out, const char *first, size_t len) ATTR_MUST_USE;
void decompress_close(struct decompress *u);

/* decompress_some - goes on: takes up to in_len bytes and gives up to out_cap. */
enum rc decompress_some(struct decompress *u, const char *in, size_t in_len, size_t *in_used,
                        char *out, size_t out_cap, size_t *out_len) ATTR_MUST_USE;

/* decompress_whole - the stream may end here: no member or frame is open. */
bool decompress_whole(const struct decompress *u);

#endif
