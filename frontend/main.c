/* SPDX-License-Identifier: MIT */
/* main - names the command and hands over to it. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

#ifndef QUIRE_VERSION
#define QUIRE_VERSION "0.1.0"
#endif

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("quire %s (%s)\n", QUIRE_VERSION, mem_allocator_name());
        return 0;
    }
    fprintf(stderr, "usage: quire COMMAND [FLAGS]\n");
    return 2;
}
