/* SPDX-License-Identifier: MIT */
/* test - what every cmocka program includes, in the order that cmocka needs. */
#ifndef QUIRE_TESTS_UNIT_TEST_H
#define QUIRE_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
