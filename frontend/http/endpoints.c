/* SPDX-License-Identifier: MIT */
/* endpoints - answers that need no model run and no body. Shapes as OpenAI, vLLM and llama.cpp have
 * them. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "frontend/api/chat.h"
#include "frontend/http/server_impl.h"
#include "frontend/version.h"

void endpoint_health(struct conn *c)
{
    const struct server *s = c->server;
    struct api_error error;
    bool loading = !s->ready, lost = server_model_lost(s);
    if (!loading && !s->draining && !lost) {
        reply_json(c, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    if (lost)
        completion_say_lost(&error);
    else
        api_error_set(&error, 503, loading ? "loading" : "draining", NULL, "%s",
                      loading ? "the model is being loaded" : "the server is shutting down");
    reply_error(c, NULL, &error);
}

static json_t *model_json(const struct server *s)
{
    const struct engine *e = s->context.engine;
    uint64_t bytes = 0, params = 0;
    for (uint32_t i = 0; i < gguf_file_count(e->gguf); i++)
        bytes += gguf_file_bytes(e->gguf, i);
    for (size_t i = 0; i < gguf_tensor_count(e->gguf); i++)
        params += gguf_tensor_at(e->gguf, i)->elems;
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:{s:I, s:I, s:I, s:I}}", "id",
                     server_model_name(s), "object", "model", "created", (json_int_t)s->created,
                     "owned_by", "quire", "max_model_len", (json_int_t)sched_ctx_tokens(e->sched),
                     "meta", "n_ctx_train", (json_int_t)e->model->ctx_train, "n_params",
                     (json_int_t)params, "size", (json_int_t)bytes, "n_vocab",
                     (json_int_t)e->model->vocab_count);
}

void endpoint_models(struct conn *c)
{
    reply_json(c, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(c->server)));
}

void endpoint_model(struct conn *c)
{
    struct api_error error;
    const char *served = server_model_name(c->server);
    if (strcmp(c->request.argument, served) == 0) {
        reply_json(c, 200, model_json(c->server));
        return;
    }
    api_error_set(&error, 404, "model_not_found", "model", "this model is not served; '%s' is",
                  served);
    reply_error(c, NULL, &error);
}

void endpoint_version(struct conn *c)
{
    reply_json(c, 200, json_pack("{s:s}", "version", QUIRE_VERSION));
}

void endpoint_load(struct conn *c)
{
    reply_json(c, 200, json_pack("{s:I}", "server_load", (json_int_t)c->server->live));
}

void endpoint_metrics(struct conn *c)
{
    struct server *s = c->server;
    struct text page = { 0 };
    struct metrics_view view = { .model = server_model_name(s),
                                 .connections = s->conn_count,
                                 .calls = s->call_count,
                                 .uptime_us = server_now_us(s) - s->started_us };
    if (s->ready) {
        view.sched = sched_stats_get(s->context.engine->sched);
        view.weights = residency_stats(&s->context.engine->weights);
        view.model_lost = server_model_lost(s);
        view.memory = pressure_stats(s->context.engine->pressure);
    }
    struct reply r = { .status = 200, .type = "text/plain; version=0.0.4; charset=utf-8" };
    if (metrics_write(&s->metrics, &view, &page) != RC_OK)
        r.status = 500;
    r.body = page.data;
    r.len = page.len;
    http_conn_reply(c, &r);
    text_close(&page);
}

/* The text of a token, or null when the vocabulary has none such. */
static json_t *token_json(const struct tokenizer *t, int32_t id)
{
    char piece[256];
    size_t len = id >= 0 ? tokenizer_piece(t, id, true, piece, sizeof piece) : 0;
    return len > 0 && len <= sizeof piece ? json_stringn(piece, len) : json_null();
}

void endpoint_props(struct conn *c)
{
    const struct server *s = c->server;
    const struct engine *e = s->context.engine;
    json_t *settings =
        json_pack("{s:I, s:{s:I}}", "n_ctx", (json_int_t)sched_ctx_tokens(e->sched), "params",
                  "n_predict", (json_int_t)s->context.defaults->max_tokens);
    const struct tokenizer *t = e->tokenizer;
    reply_json(c, 200,
               json_pack("{s:o, s:I, s:s, s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b}, s:b}",
                         "default_generation_settings", settings, "total_slots",
                         (json_int_t)e->options.rows_max, "model_alias", server_model_name(s),
                         "model_path", e->name, "build_info", "quire " QUIRE_VERSION,
                         "chat_template", chat_template_source(s->context.chat->template),
                         "bos_token", token_json(t, tokenizer_bos(t)), "eos_token",
                         token_json(t, tokenizer_eos(t)), "modalities", "vision", 0, "audio", 0,
                         "is_sleeping", 0));
}

/* A slot is a place among the requests that may run at once: who is in which one is nobody's
 * business, so busy ones come first and nothing of them is shown. */
void endpoint_slots(struct conn *c)
{
    const struct server *s = c->server;
    struct sched_stats stats = sched_stats_get(s->context.engine->sched);
    uint32_t count = s->context.engine->options.rows_max;
    struct str value;
    if (http_query_get(str_of(c->request.argument), "fail_on_no_slot", &value) &&
        stats.running >= count) {
        struct api_error error;
        api_error_set(&error, 503, "no_slot", NULL, "all %u places are taken", count);
        reply_error(c, NULL, &error);
        return;
    }
    json_t *slots = json_array();
    bool failed = slots == NULL;
    for (uint32_t i = 0; i < count && !failed; i++)
        failed = json_array_append_new(
                     slots,
                     json_pack("{s:I, s:i, s:I, s:b, s:{}, s:[]}", "id", (json_int_t)i, "id_task",
                               -1, "n_ctx", (json_int_t)sched_ctx_tokens(s->context.engine->sched),
                               "is_processing", i < stats.running, "params", "next_token")) != 0;
    if (failed) {
        json_decref(slots);
        slots = NULL;
    }
    reply_json(c, 200, slots);
}

void endpoint_tokenizer_info(struct conn *c)
{
    const struct tokenizer *t = c->server->context.engine->tokenizer;
    reply_json(
        c, 200,
        json_pack("{s:o, s:o, s:o, s:I, s:b, s:s}", "bos_token", token_json(t, tokenizer_bos(t)),
                  "eos_token", token_json(t, tokenizer_eos(t)), "pad_token",
                  token_json(t, tokenizer_eos(t)), "vocab_size",
                  (json_int_t)tokenizer_vocab_count(t), "add_bos_token", (int)tokenizer_adds_bos(t),
                  "chat_template", chat_template_source(c->server->context.chat->template)));
}

/* page.html as it is, put here by the assembler; the Makefile knows that we depend on it. */
__asm__(".pushsection .rodata\n"
        "http_page:\n"
        ".incbin \"frontend/http/page.html\"\n"
        "http_page_end:\n"
        ".popsection\n");
extern const char http_page[], http_page_end[];

void endpoint_page(struct conn *c)
{
    struct reply r = { .status = 200,
                       .type = "text/html; charset=utf-8",
                       .body = http_page,
                       .len = (size_t)(http_page_end - http_page) };
    http_conn_reply(c, &r);
}
