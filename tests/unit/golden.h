/* SPDX-License-Identifier: MIT */
/* golden - files of right answers from outside, found beside the checkout (../shared/golden) or
 * where QUIRE_GOLDEN says. Tests that need one skip, by name, when it is not there. */
#ifndef QUIRE_TESTS_UNIT_GOLDEN_H
#define QUIRE_TESTS_UNIT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* golden_path - path of a file of the folder, in a static buffer; NULL when it is not there. */
const char *golden_path(const char *name);

/* golden_read - the whole file in memory of malloc; NULL when it is not there. */
uint8_t *golden_read(const char *name, size_t *bytes);

#endif
