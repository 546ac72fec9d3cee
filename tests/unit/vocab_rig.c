/* SPDX-License-Identifier: MIT */
/* vocab_rig - see vocab_rig.h. */
#include "tests/unit/vocab_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/detok.h"
#include "core/must.h"
#include "core/str.h"

#define RIG_TEXT_BYTES 65536u

/* What byte-level BPE writes for a byte. */
static size_t byte_text(const struct vocab_spec *s, unsigned byte, char out[8])
{
    if (s->model == NULL || strcmp(s->model, "gpt2") != 0)
        return (size_t)snprintf(out, 8, "<0x%02X>", byte);
    unsigned code = 0x100;
    for (unsigned b = 0; b < byte; b++)
        code += b < 0x21 || (b > 0x7e && b < 0xa1) || b == 0xad;
    bool plain = !(byte < 0x21 || (byte > 0x7e && byte < 0xa1) || byte == 0xad);
    return utf8_encode(out, plain ? byte : code);
}

static uint64_t key_count(const struct vocab_spec *s)
{
    return 1u + (s->model != NULL) + (s->pre != NULL) + (s->architecture != NULL) + !s->no_types +
           !s->no_scores + !s->no_merges + s->id_count + s->flag_count;
}

static void put_arrays(struct bytes *b, const struct vocab_spec *s)
{
    uint32_t first = s->bytes ? 256 : 0, count = first + s->token_count;
    gguf_put_array(b, "tokenizer.ggml.tokens", GGUF_STRING, count);
    for (unsigned byte = 0; byte < first; byte++) {
        char text[8];
        size_t len = byte_text(s, byte, text);
        bytes_put_text(b, text, len);
    }
    for (uint32_t i = 0; i < s->token_count; i++)
        bytes_put_text(b, s->tokens[i].text, strlen(s->tokens[i].text));
    if (!s->no_types) {
        uint32_t n = count - (uint32_t)s->types_less;
        bool bpe = s->model != NULL && strcmp(s->model, "gpt2") == 0;
        gguf_put_array(b, "tokenizer.ggml.token_type", GGUF_I32, n);
        for (uint32_t i = 0; i < n; i++) {
            bool own = i >= first && i < count;
            bytes_put_u32(b, own   ? (uint32_t)s->tokens[i - first].type
                             : bpe ? RIG_NORMAL
                                   : RIG_BYTE);
        }
    }
    if (!s->no_scores) {
        uint32_t n = count - (uint32_t)s->scores_less;
        gguf_put_array(b, "tokenizer.ggml.scores", GGUF_F32, n);
        for (uint32_t i = 0; i < n; i++) {
            float score = i >= first && i < count ? s->tokens[i - first].score : 0;
            bytes_put(b, &score, sizeof score);
        }
    }
    if (!s->no_merges) {
        gguf_put_array(b, "tokenizer.ggml.merges", GGUF_STRING, s->merge_count);
        for (uint32_t i = 0; i < s->merge_count; i++)
            bytes_put_text(b, s->merges[i], strlen(s->merges[i]));
    }
}

void vocab_rig_open(struct vocab_rig *r, const struct vocab_spec *s)
{
    struct bytes b = { 0 };
    gguf_put_head(&b, 3, 0, key_count(s));
    if (s->architecture != NULL)
        gguf_put_string(&b, "general.architecture", s->architecture);
    if (s->model != NULL)
        gguf_put_string(&b, "tokenizer.ggml.model", s->model);
    if (s->pre != NULL)
        gguf_put_string(&b, "tokenizer.ggml.pre", s->pre);
    put_arrays(&b, s);
    for (uint32_t i = 0; i < s->id_count; i++)
        gguf_put_u32(&b, s->ids[i].key, s->ids[i].value);
    for (uint32_t i = 0; i < s->flag_count; i++)
        gguf_put_bool(&b, s->flags[i].key, s->flags[i].value);
    char path[] = "/tmp/quire-vocab-XXXXXX";
    int fd = mkstemp(path);
    must(fd >= 0);
    close(fd);
    bytes_save(&b, path);
    bytes_close(&b);
    vocab_rig_open_file(r, path);
    unlink(path);
}

void vocab_rig_open_file(struct vocab_rig *r, const char *path)
{
    *r = (struct vocab_rig){ 0 };
    if (gguf_open(&r->gguf, path, &r->fault) != RC_OK) {
        fprintf(stderr, "%s\n", r->fault.text);
        must(r->gguf != NULL);
    }
    r->rc = tokenizer_open(&r->tokenizer, r->gguf, &r->fault);
}

void vocab_rig_close(struct vocab_rig *r)
{
    tokenizer_close(r->tokenizer);
    gguf_close(r->gguf);
    *r = (struct vocab_rig){ 0 };
}

const char *rig_ids(const struct tokenizer *t, const char *text, size_t len, unsigned flags)
{
    static char out[RIG_TEXT_BYTES];
    struct token_list list = { 0 };
    enum rc rc = tokenizer_encode(t, text, len, flags, &list);
    size_t n = 0;
    out[0] = '\0';
    if (rc != RC_OK)
        snprintf(out, sizeof out, "%s", rc_text(rc));
    for (size_t i = 0; i < list.count && n + 16 < sizeof out; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, i == 0 ? "%d" : " %d", list.ids[i]);
    token_list_close(&list);
    return out;
}

const char *rig_text(const struct tokenizer *t, const int32_t *ids, size_t count, size_t *len)
{
    static char out[RIG_TEXT_BYTES];
    struct detok d;
    struct text text = { 0 };
    detok_open(&d, t, false, true);
    for (size_t i = 0; i < count; i++)
        must(detok_push(&d, ids[i], &text) == RC_OK);
    must(detok_flush(&d, &text) == RC_OK);
    must(text.len < sizeof out);
    if (text.len > 0)
        memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    *len = text.len;
    text_close(&text);
    return out;
}
