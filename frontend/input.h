/* SPDX-License-Identifier: MIT */
/* input - a whole file, or stdin, as one text.
 *   owner    the caller closes the text
 *   thread   any
 *   errors   RC_USAGE (cannot be opened, too long), RC_IO, RC_NO_MEMORY, RC_CANCELLED (a signal) */
#ifndef QUIRE_FRONTEND_INPUT_H
#define QUIRE_FRONTEND_INPUT_H

#include "core/detok.h"
#include "core/err.h"

/* input_read - path "-" is stdin; flag is how messages call it. At most BODY_BYTES_MAX. */
enum rc input_read(struct text *out, const char *path, const char *flag,
                   struct fault *fault) ATTR_MUST_USE;

/* input_parse_ids - whole numbers separated by blanks, commas, line ends or brackets: a list of
 * token ids, each below vocab_count, from a text. */
enum rc input_parse_ids(int32_t **out, uint32_t *count, const struct text *text,
                        uint32_t vocab_count, const char *flag, struct fault *fault) ATTR_MUST_USE;

#endif
