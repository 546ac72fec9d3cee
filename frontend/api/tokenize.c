/* SPDX-License-Identifier: MIT */
/* tokenize - text to ids and back over HTTP, in the two shapes that clients send: llama.cpp's
 * (content, tokens) and vLLM's (prompt, tokens). Answers carry the keys of both. */
#include <string.h>

#include "core/mem.h"
#include "frontend/api/dialect.h"
#include "frontend/api/token_text.h"

/* A switch that may be absent. */
static bool take_flag(bool *out, json_t *body, const char *name, struct api_error *error)
{
    const json_t *v = json_object_get(body, name);
    if (v == NULL || json_is_null(v))
        return true;
    *out = json_is_true(v);
    if (json_is_boolean(v))
        return true;
    api_error_set(error, 400, "invalid_type", name, "%s must be true or false", name);
    return false;
}

static json_t *out_of_memory(struct api_error *error)
{
    api_error_set(error, 500, "out_of_memory", NULL, "out of memory");
    return NULL;
}

/* The text in `content` or `prompt`. */
static const json_t *take_text(json_t *body, const char **name, struct api_error *error)
{
    const json_t *v = json_object_get(body, "content");
    *name = "content";
    if (v == NULL || json_is_null(v)) {
        v = json_object_get(body, "prompt");
        *name = "prompt";
    }
    if (json_is_string(v))
        return v;
    bool missing = v == NULL || json_is_null(v);
    api_error_set(error, 400, missing ? "missing_field" : "invalid_type",
                  missing ? "content" : *name,
                  missing ? "content (or prompt) is missing" : "%s must be a string", *name);
    return NULL;
}

static json_t *piece_json(const struct tokenizer *t, int32_t id, struct text *scratch)
{
    if (!token_text(t, id, scratch))
        return NULL;
    return json_pack("{s:i, s:s%}", "id", (int)id, "piece", scratch->data, scratch->len);
}

static json_t *ids_json(const struct tokenizer *t, const struct token_list *ids, bool pieces)
{
    json_t *list = json_array();
    struct text scratch = { 0 };
    bool failed = list == NULL;
    for (size_t i = 0; i < ids->count && !failed; i++)
        failed = json_array_append_new(list, pieces ? piece_json(t, ids->ids[i], &scratch)
                                                    : json_integer(ids->ids[i])) != 0;
    text_close(&scratch);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

json_t *query_tokenize(const struct api_context *x, json_t *body, struct api_error *error)
{
    const char *name;
    const json_t *text = take_text(body, &name, error);
    if (text == NULL)
        return NULL;
    const struct tokenizer *t = x->engine->tokenizer;
    bool bos = strcmp(name, "prompt") == 0, special = true, pieces = false;
    if (!take_flag(&bos, body, "add_special", error) ||
        !take_flag(&bos, body, "add_special_tokens", error) ||
        !take_flag(&special, body, "parse_special", error) ||
        !take_flag(&pieces, body, "with_pieces", error) ||
        !take_flag(&pieces, body, "return_token_strs", error))
        return NULL;
    struct token_list ids = { 0 };
    unsigned flags = (bos ? TOKENIZE_BOS : 0u) | (special ? TOKENIZE_SPECIAL : 0u);
    enum rc rc =
        tokenizer_encode(t, json_string_value(text), json_string_length(text), flags, &ids);
    json_t *list = rc == RC_OK ? ids_json(t, &ids, pieces) : NULL;
    size_t count = ids.count;
    token_list_close(&ids);
    if (list == NULL && rc != RC_NO_MEMORY && rc != RC_OK) {
        api_error_set(error, 400, "invalid_value", name, "%s: %s", name, rc_text(rc));
        return NULL;
    }
    json_t *out = json_pack("{s:o, s:I, s:I}", "tokens", list, "count", (json_int_t)count,
                            "max_model_len", (json_int_t)sched_ctx_tokens(x->engine->sched));
    return out != NULL ? out : out_of_memory(error);
}

static enum rc append_ids(const struct api_context *x, const json_t *list, struct text *out,
                          struct api_error *error)
{
    struct detok d;
    uint32_t vocab = x->engine->model->vocab_count;
    detok_open(&d, x->engine->tokenizer, false, true);
    enum rc rc = text_append(out, "", 0);
    for (size_t i = 0; i < json_array_size(list) && rc == RC_OK; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= (json_int_t)vocab)
            return api_error_set(error, 400, "invalid_value", "tokens",
                                 "tokens must be ids below %u (entry %zu is not)", vocab, i);
        rc = detok_push(&d, (int32_t)id, out);
    }
    return rc == RC_OK ? detok_flush(&d, out) : rc;
}

json_t *query_detokenize(const struct api_context *x, json_t *body, struct api_error *error)
{
    const json_t *list = json_object_get(body, "tokens");
    if (!json_is_array(list)) {
        bool missing = list == NULL || json_is_null(list);
        api_error_set(error, 400, missing ? "missing_field" : "invalid_type", "tokens",
                      missing ? "tokens is missing" : "tokens must be a list of token ids");
        return NULL;
    }
    struct text text = { 0 };
    enum rc rc = append_ids(x, list, &text, error);
    json_t *out = NULL;
    if (rc == RC_OK)
        out = json_pack("{s:s%, s:s%}", "content", text.data, text.len, "prompt", text.data,
                        text.len);
    text_close(&text);
    return out != NULL || rc == RC_INVALID ? out : out_of_memory(error);
}
