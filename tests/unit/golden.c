/* SPDX-License-Identifier: MIT */
/* golden - see golden.h. */
#include "tests/unit/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/must.h"

const char *golden_path(const char *name)
{
    static char path[512];
    const char *folder = getenv("QUIRE_GOLDEN");
    snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : "../shared/golden", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

uint8_t *golden_read(const char *name, size_t *bytes)
{
    const char *path = golden_path(name);
    if (path == NULL)
        return NULL;
    FILE *f = fopen(path, "rb");
    must(f != NULL);
    must(fseek(f, 0, SEEK_END) == 0);
    long size = ftell(f);
    must(size > 0);
    rewind(f);
    uint8_t *data = malloc((size_t)size);
    must(data != NULL);
    must(fread(data, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    *bytes = (size_t)size;
    return data;
}
