/* SPDX-License-Identifier: MIT */
/* sse - see sse.h. Numbers are written as in bodies and files: with all their digits. */
#include "frontend/api/sse.h"

#include <string.h>

#include "core/mem.h"

static int append(const char *bytes, size_t len, void *ctx)
{
    return text_append(ctx, bytes, len) == RC_OK ? 0 : -1;
}

enum rc json_append(struct text *out, json_t *json)
{
    uint64_t before = mem_failures(); /* the library does not ask after the name of a member */
    bool failed = json == NULL || json_dump_callback(json, append, out, JSON_COMPACT) != 0;
    json_decref(json);
    return failed || mem_failures() != before ? RC_NO_MEMORY : RC_OK;
}

enum rc sse_append(struct text *out, const char *name, json_t *json)
{
    enum rc rc = RC_OK;
    if (name != NULL) {
        rc = text_append(out, "event: ", 7);
        if (rc == RC_OK)
            rc = text_append(out, name, strlen(name));
        if (rc == RC_OK)
            rc = text_append(out, "\n", 1);
    }
    if (rc == RC_OK)
        rc = text_append(out, "data: ", 6);
    if (rc == RC_OK)
        rc = json_append(out, json);
    else
        json_decref(json);
    return rc == RC_OK ? text_append(out, "\n\n", 2) : rc;
}
