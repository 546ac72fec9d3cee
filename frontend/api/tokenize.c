/* SPDX-License-Identifier: MIT */
/* tokenize - text to ids and back over HTTP, in the shapes that clients send: llama.cpp's (content,
 * tokens) and vLLM's (prompt or messages, tokens). Answers carry the keys of both. A conversation
 * has the ids that a chat would run. */
#include <string.h>

#include "core/mem.h"
#include "frontend/api/chat.h"
#include "frontend/api/dialect.h"
#include "frontend/api/token_text.h"

static bool has(const json_t *body, const char *name)
{
    const json_t *v = json_object_get(body, name);
    return v != NULL && !json_is_null(v);
}

/* A switch that may be absent. */
static bool take_flag(bool *out, json_t *body, const char *name, struct api_error *error)
{
    const json_t *v = json_object_get(body, name);
    if (!has(body, name))
        return true;
    *out = json_is_true(v);
    if (json_is_boolean(v))
        return true;
    (void)api_error_kind(error, name, "true or false", v);
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
    *name = has(body, "content") || !has(body, "prompt") ? "content" : "prompt";
    const json_t *v = json_object_get(body, *name);
    if (json_is_string(v))
        return v;
    if (has(body, *name))
        (void)api_error_kind(error, *name, "a string", v);
    else
        api_error_set(error, 400, "missing_field", "content",
                      "content (or prompt, or messages) is missing");
    return NULL;
}

enum shown { SHOWN_IDS, SHOWN_PIECES, SHOWN_TEXTS };

static json_t *shown_json(const struct tokenizer *t, int32_t id, enum shown how, struct text *key)
{
    if (how == SHOWN_IDS)
        return json_integer(id);
    if (how == SHOWN_PIECES)
        return json_pack("{s:i, s:o}", "id", (int)id, "piece", token_piece_json(t, id));
    return token_text(t, id, key) ? json_stringn(key->data, key->len) : NULL;
}

static json_t *tokens_json(const struct tokenizer *t, const struct token_list *ids, enum shown how)
{
    json_t *list = json_array();
    struct text key = { 0 };
    bool failed = list == NULL;
    for (size_t i = 0; i < ids->count && !failed; i++)
        failed = json_array_append_new(list, shown_json(t, ids->ids[i], how, &key)) != 0;
    text_close(&key);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* What is to be shown, and how a text is read. */
struct tokenize_wishes {
    bool bos, special, pieces, texts;
};

static bool take_wishes(struct tokenize_wishes *w, json_t *body, struct api_error *error)
{
    return take_flag(&w->bos, body, "add_special", error) &&
           take_flag(&w->bos, body, "add_special_tokens", error) &&
           take_flag(&w->special, body, "parse_special", error) &&
           take_flag(&w->pieces, body, "with_pieces", error) &&
           take_flag(&w->texts, body, "return_token_strs", error);
}

static bool encode_text(struct token_list *ids, const struct api_context *x, json_t *body,
                        struct tokenize_wishes *w, struct api_error *error)
{
    const char *name;
    const json_t *text = take_text(body, &name, error);
    if (text == NULL)
        return false;
    w->bos = strcmp(name, "prompt") == 0;
    w->special = true;
    if (!take_wishes(w, body, error))
        return false;
    unsigned flags = (w->bos ? TOKENIZE_BOS : 0u) | (w->special ? TOKENIZE_SPECIAL : 0u);
    enum rc rc = tokenizer_encode(x->engine->tokenizer, json_string_value(text),
                                  json_string_length(text), flags, ids);
    if (rc == RC_NO_MEMORY)
        (void)out_of_memory(error);
    else if (rc != RC_OK)
        api_error_set(error, 400, "invalid_value", name, "%s: %s", name, rc_text(rc));
    return rc == RC_OK;
}

/* There is one BOS where the vocabulary or the template wants one, whatever add_special says. */
static bool encode_messages(struct token_list *ids, const struct api_context *x, json_t *body,
                            struct tokenize_wishes *w, struct api_error *error)
{
    struct chat_prompt prompt = { 0 };
    if (!take_wishes(w, body, error))
        return false;
    if (has(body, "content") || has(body, "prompt")) {
        api_error_set(error, 400, "invalid_value", "messages", "messages and %s exclude each other",
                      has(body, "content") ? "content" : "prompt");
        return false;
    }
    enum rc rc = chat_prompt_of(&prompt, ids, x->chat, body, error);
    chat_prompt_close(&prompt);
    return rc == RC_OK;
}

json_t *query_tokenize(const struct api_context *x, json_t *body, struct api_error *error)
{
    const struct tokenizer *t = x->engine->tokenizer;
    struct tokenize_wishes w = { 0 };
    struct token_list ids = { 0 };
    json_t *out = NULL;
    if (has(body, "messages") ? encode_messages(&ids, x, body, &w, error)
                              : encode_text(&ids, x, body, &w, error)) {
        out = json_pack("{s:o, s:I, s:I, s:o*}", "tokens",
                        tokens_json(t, &ids, w.pieces ? SHOWN_PIECES : SHOWN_IDS), "count",
                        (json_int_t)ids.count, "max_model_len",
                        (json_int_t)sched_ctx_tokens(x->engine->sched), "token_strs",
                        w.texts ? tokens_json(t, &ids, SHOWN_TEXTS) : NULL);
        if (out == NULL)
            (void)out_of_memory(error);
    }
    token_list_close(&ids);
    return out;
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
