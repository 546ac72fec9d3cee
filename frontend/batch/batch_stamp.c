/* SPDX-License-Identifier: MIT */
/* batch_stamp - see batch_stamp.h. A job may go on in a server that has the same model: the stamp
 * is the same. */
#include "frontend/batch/batch_stamp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "frontend/api/basis.h"

json_t *batch_stamp_make(json_t *model, const struct completion_params *bare,
                         const struct sampling_options *s, uint32_t format)
{
    json_t *defaults = basis_defaults(bare);
    bool bad = json_object_update(model, defaults) != 0 ||
               json_object_set_new(model, "predict", json_integer(s->predict)) != 0 ||
               json_object_set_new(model, "format", json_integer((json_int_t)format)) != 0;
    json_decref(defaults);
    if (!bad)
        return model;
    json_decref(model);
    return NULL;
}

/* A short value as text. */
static const char *shown(const json_t *value, char *out, size_t cap)
{
    size_t len = value != NULL ? json_dumpb(value, out, cap - 1, JSON_ENCODE_ANY) : 0;
    if (len == 0 || len >= cap)
        return value == NULL ? "nothing" : "something long";
    out[len] = '\0';
    return out;
}

static enum rc compare(struct batch_job *b, const char *path, const json_t *old, json_t *now)
{
    const char *key;
    json_t *value;
    char before[40], after[40];
    json_object_foreach(now, key, value)
    {
        const json_t *was = json_object_get(old, key);
        if (!json_equal(was, value))
            return fault_set(&b->fault, RC_USAGE,
                             "this job was begun with %s %s, now it is %s: give another -o, or "
                             "remove %.80s to mix them",
                             key, shown(was, before, sizeof before),
                             shown(value, after, sizeof after), path);
    }
    return RC_OK;
}

/* There is a whole stamp or none, whenever we are killed. */
static enum rc write_whole(struct batch_job *b, const char *path)
{
    char part[4096 + 8];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *out = fopen(part, "w");
    bool bad = out == NULL || json_dumpf(b->stamp, out, JSON_INDENT(1)) != 0 || fflush(out) != 0 ||
               fsync(fileno(out)) != 0;
    if (out != NULL)
        fclose(out);
    if (!bad && rename(part, path) == 0) {
        batch_file_keep_name(path);
        return RC_OK;
    }
    enum rc rc = fault_set_errno(&b->fault, RC_IO, "%.100s cannot be written", path);
    unlink(part);
    return rc;
}

enum rc batch_stamp_check(struct batch_job *b, const char *output)
{
    char path[4096];
    if (!b->out.regular)
        return RC_OK;
    int n = snprintf(path, sizeof path, "%s.job", output);
    if (n < 0 || (size_t)n >= sizeof path)
        return fault_set(&b->fault, RC_USAGE, "-o: the name is too long");
    if (access(path, F_OK) == 0) {
        json_t *old = json_load_file(path, 0, NULL);
        enum rc rc = old != NULL ? compare(b, path, old, b->stamp)
                                 : fault_set(&b->fault, RC_USAGE,
                                             "%.100s is unreadable: remove it to go on without "
                                             "the check",
                                             path);
        json_decref(old);
        return rc;
    }
    return write_whole(b, path);
}
