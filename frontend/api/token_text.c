/* SPDX-License-Identifier: MIT */
/* token_text - see token_text.h. */
#include "frontend/api/token_text.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

#define REPLACEMENT "\xef\xbf\xbd"

json_t *logprob_json(float value)
{
    return json_real(value < -9999.0f || isnan(value) ? -9999.0 : (double)value);
}

enum rc text_append_valid(struct text *out, const char *bytes, size_t len)
{
    enum rc rc = RC_OK;
    while (len > 0 && rc == RC_OK) {
        struct utf8_step step = utf8_decode(bytes, len);
        rc = step.state == UTF8_OK ? text_append(out, bytes, step.len)
                                   : text_append(out, REPLACEMENT, strlen(REPLACEMENT));
        bytes += step.len;
        len -= step.len;
    }
    return rc;
}

bool token_text(const struct tokenizer *t, int32_t id, struct text *out)
{
    char small[256], *bytes = small;
    size_t len = tokenizer_piece(t, id, true, small, sizeof small);
    if (len > sizeof small) {
        bytes = mem_alloc_raw(len);
        if (bytes == NULL)
            return false;
        len = tokenizer_piece(t, id, true, bytes, len);
    }
    out->len = 0;
    enum rc rc = text_append(out, "", 0);
    for (size_t at = 0; at < len && rc == RC_OK;) {
        size_t plain = strnlen(bytes + at, len - at);
        rc = text_append_valid(out, bytes + at, plain);
        if (rc == RC_OK && at + plain < len)
            rc = text_append(out, REPLACEMENT, strlen(REPLACEMENT));
        at += plain + 1;
    }
    if (bytes != small)
        mem_free(bytes);
    return rc == RC_OK;
}

static json_t *bytes_json(const struct tokenizer *t, int32_t id)
{
    char small[256];
    json_t *list = json_array();
    bool failed = list == NULL;
    size_t len = tokenizer_piece(t, id, true, small, sizeof small);
    for (size_t i = 0; i < len && i < sizeof small && !failed; i++)
        failed = json_array_append_new(list, json_integer((unsigned char)small[i])) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

json_t *token_json(const struct tokenizer *t, int32_t id, float logprob, bool with_id,
                   struct text *key)
{
    if (!token_text(t, id, key))
        return NULL;
    json_t *out = json_pack("{s:s%, s:o, s:o}", "token", key->data, key->len, "logprob",
                            logprob_json(logprob), "bytes", bytes_json(t, id));
    if (!with_id || json_object_set_new(out, "id", json_integer(id)) == 0)
        return out;
    json_decref(out);
    return NULL;
}
