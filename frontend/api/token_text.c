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

/* All bytes of a token. */
struct piece {
    char *bytes; /* small, or memory of its own */
    size_t len;
    char small[256];
};

static bool piece_open(struct piece *p, const struct tokenizer *t, int32_t id)
{
    p->bytes = p->small;
    p->len = tokenizer_piece(t, id, true, p->small, sizeof p->small);
    if (p->len <= sizeof p->small)
        return true;
    p->bytes = mem_alloc_raw(p->len);
    return p->bytes != NULL && tokenizer_piece(t, id, true, p->bytes, p->len) == p->len;
}

static void piece_close(struct piece *p)
{
    if (p->bytes != p->small)
        mem_free(p->bytes);
}

bool token_text(const struct tokenizer *t, int32_t id, struct text *out)
{
    struct piece p;
    if (!piece_open(&p, t, id))
        return false;
    out->len = 0;
    enum rc rc = text_append(out, "", 0);
    for (size_t at = 0; at < p.len && rc == RC_OK;) {
        size_t plain = strnlen(p.bytes + at, p.len - at);
        rc = text_append_valid(out, p.bytes + at, plain);
        if (rc == RC_OK && at + plain < p.len)
            rc = text_append(out, REPLACEMENT, strlen(REPLACEMENT));
        at += plain + 1;
    }
    piece_close(&p);
    return rc == RC_OK;
}

static json_t *bytes_json(const struct piece *p)
{
    json_t *list = json_array();
    bool failed = list == NULL;
    for (size_t i = 0; i < p->len && !failed; i++)
        failed = json_array_append_new(list, json_integer((unsigned char)p->bytes[i])) != 0;
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

json_t *token_piece_json(const struct tokenizer *t, int32_t id)
{
    struct piece p;
    json_t *out = NULL;
    if (piece_open(&p, t, id))
        out = utf8_valid(p.bytes, p.len) ? json_stringn(p.bytes, p.len) : bytes_json(&p);
    piece_close(&p);
    return out;
}

json_t *token_json(const struct tokenizer *t, int32_t id, float logprob, bool with_id,
                   struct text *key)
{
    struct piece p;
    json_t *out = NULL;
    if (piece_open(&p, t, id) && token_text(t, id, key))
        out = json_pack("{s:s%, s:o, s:o}", "token", key->data, key->len, "logprob",
                        logprob_json(logprob), "bytes", bytes_json(&p));
    piece_close(&p);
    if (!with_id || out == NULL || json_object_set_new(out, "id", json_integer(id)) == 0)
        return out;
    json_decref(out);
    return NULL;
}
