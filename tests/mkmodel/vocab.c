/* SPDX-License-Identifier: MIT */
/* vocab - a complete made-up vocabulary of any size, in the two styles that GGUF files have.
 * Longer pieces come from joining two known ones, the frequent letters of English first:
 *
 *     pool   blank e t a o i n ...   grows at its end by every new piece
 *     pairs  (0,1) (1,0) (0,2) (1,1) (2,0) ...   by rising sum of the two places in the pool
 *
 * A pair is taken when it makes a new text of at most 12 characters whose blank, if any, is in
 * front. Every piece can therefore be reached by merging, which is what both kinds of tokenizer
 * need. The order is fixed: the vocabulary depends on its size alone. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/name_table.h"
#include "tests/mkmodel/mkmodel.h"

#define PIECE_CAP 40 /* 12 characters of at most 3 bytes, with room */
#define PIECE_CHARS_MAX 12

enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_BYTE = 6,
};

struct piece {
    char text[PIECE_CAP];
    uint32_t chars;
    uint32_t left, right; /* numbers of the pieces it was joined from */
};

struct pieces {
    struct piece *items;
    uint32_t count;
    struct name_table known;
};

static const char letters[] = "etaoinshrdlucmfwygpbvkxqjz0123456789ETAOINSHRDLUCMFWYGPBVKXQJZ"
                              ".,'\"-!?:;()[]{}<>/\\|@#$%^&*+=_~`";

static bool starts_blank(const struct piece *p, const char *blank)
{
    return strncmp(p->text, blank, strlen(blank)) == 0;
}

static bool add_piece(struct pieces *all, const char *text, uint32_t chars, uint32_t left,
                      uint32_t right)
{
    struct piece *p = &all->items[all->count];
    *p = (struct piece){ .chars = chars, .left = left, .right = right };
    snprintf(p->text, sizeof p->text, "%s", text);
    if (name_table_add(&all->known, p->text, strlen(p->text), all->count) != NAME_NONE)
        return false;
    all->count++;
    return true;
}

/* At most count pieces, single characters first. */
static void make_pieces(struct pieces *all, const char *blank, uint32_t count)
{
    *all = (struct pieces){ .items = mem_alloc_array(count + 1u, sizeof *all->items) };
    must(all->items != NULL);
    must(name_table_open(&all->known, count + 1) == RC_OK);
    if (count > 0)
        (void)add_piece(all, blank, 1, 0, 0);
    for (size_t i = 0; letters[i] != '\0' && all->count < count; i++)
        (void)add_piece(all, (char[]){ letters[i], '\0' }, 1, 0, 0);
    for (uint32_t sum = 1; all->count < count; sum++) {
        for (uint32_t left = 0; left <= sum && all->count < count; left++) {
            uint32_t right = sum - left;
            if (left >= all->count || right >= all->count)
                continue;
            const struct piece *a = &all->items[left], *b = &all->items[right];
            if (a->chars + b->chars > PIECE_CHARS_MAX || starts_blank(b, blank))
                continue;
            char text[2 * PIECE_CAP];
            snprintf(text, sizeof text, "%s%s", a->text, b->text);
            (void)add_piece(all, text, a->chars + b->chars, left, right);
        }
    }
}

static void close_pieces(struct pieces *all)
{
    name_table_close(&all->known);
    mem_free(all->items);
}

static void put_token(struct bytes *tokens, struct bytes *types, const char *text,
                      enum token_type type)
{
    bytes_put_text(tokens, text, strlen(text));
    bytes_put_u32(types, (uint32_t)type);
}

/* The character that stands for a byte in GPT-2's alphabet: visible Latin-1 stands for itself, the
 * others follow from U+0100 on, in order. */
static void byte_letter(char out[3], uint32_t byte)
{
    uint32_t code = byte, hidden = 0;
    for (uint32_t b = 0; b <= byte; b++) {
        bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && !visible)
            code = 256 + hidden;
        hidden += !visible;
    }
    memset(out, 0, 3);
    if (code < 0x80) {
        out[0] = (char)code;
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
    }
}

static const char chat_template[] = "{% for message in messages %}{{ '<|im_start|>' + "
                                    "message['role'] + '\n' + message['content'] + "
                                    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt "
                                    "%}{{ '<|im_start|>assistant\n' }}{% endif %}";

static void put_arrays(struct bytes *b, uint32_t count, struct bytes *tokens, struct bytes *types)
{
    gguf_put_array(b, "tokenizer.ggml.tokens", GGUF_STRING, count);
    bytes_put(b, tokens->data, tokens->len);
    gguf_put_array(b, "tokenizer.ggml.token_type", GGUF_I32, count);
    bytes_put(b, types->data, types->len);
    bytes_close(tokens);
    bytes_close(types);
}

/* The script, cut into tokens whatever its characters. */
static void put_script(struct bytes *tokens, struct bytes *types, const char *script)
{
    size_t len = strlen(script);
    for (size_t at = 0; at < len; at += MKMODEL_SCRIPT_BYTES) {
        char text[2 * MKMODEL_SCRIPT_BYTES + 1];
        size_t n = 0;
        for (size_t i = at; i < len && i < at + MKMODEL_SCRIPT_BYTES; i++) {
            char letter[3];
            byte_letter(letter, (unsigned char)script[i]);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", letter);
        }
        put_token(tokens, types, text, TOKEN_NORMAL);
    }
}

static uint32_t put_gpt2(struct bytes *b, const struct mkmodel_spec *spec)
{
    struct bytes tokens = { 0 }, types = { 0 }, merges = { 0 };
    struct pieces all;
    uint32_t single =
        (uint32_t)sizeof letters; /* the blank and the letters: they are bytes already */
    uint32_t merged =
        spec->script != NULL ? 0 : spec->vocab - mkmodel_vocab_min(MKMODEL_VOCAB_GPT2);
    make_pieces(&all, "\xc4\xa0", single + merged);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[3];
        byte_letter(text, byte);
        put_token(&tokens, &types, text, TOKEN_NORMAL);
    }
    for (uint32_t i = single; i < all.count; i++) {
        char text[2 * PIECE_CAP + 2];
        const struct piece *p = &all.items[i];
        put_token(&tokens, &types, p->text, TOKEN_NORMAL);
        snprintf(text, sizeof text, "%s %s", all.items[p->left].text, all.items[p->right].text);
        bytes_put_text(&merges, text, strlen(text));
    }
    if (spec->script != NULL)
        put_script(&tokens, &types, spec->script);
    put_token(&tokens, &types, "<|endoftext|>", TOKEN_CONTROL);
    put_token(&tokens, &types, "<|im_start|>", TOKEN_CONTROL);
    put_token(&tokens, &types, "<|im_end|>", TOKEN_CONTROL);

    gguf_put_string(b, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(b, "tokenizer.ggml.pre", "gpt-2");
    put_arrays(b, spec->vocab, &tokens, &types);
    gguf_put_array(b, "tokenizer.ggml.merges", GGUF_STRING, merged);
    bytes_put(b, merges.data, merges.len);
    gguf_put_u32(b, "tokenizer.ggml.bos_token_id", spec->vocab - 3);
    gguf_put_u32(b, "tokenizer.ggml.eos_token_id", spec->vocab - 3);
    gguf_put_bool(b, "tokenizer.ggml.add_bos_token", false);
    gguf_put_string(b, "tokenizer.chat_template", chat_template);
    bytes_close(&merges);
    close_pieces(&all);
    return 9;
}

static uint32_t put_spm(struct bytes *b, const struct mkmodel_spec *spec)
{
    struct bytes tokens = { 0 }, types = { 0 }, scores = { 0 };
    struct pieces all;
    make_pieces(&all, "\xe2\x96\x81", spec->vocab - mkmodel_vocab_min(MKMODEL_VOCAB_SPM));
    put_token(&tokens, &types, "<unk>", TOKEN_UNKNOWN);
    put_token(&tokens, &types, "<s>", TOKEN_CONTROL);
    put_token(&tokens, &types, "</s>", TOKEN_CONTROL);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        put_token(&tokens, &types, text, TOKEN_BYTE);
    }
    for (uint32_t i = 0; i < all.count; i++)
        put_token(&tokens, &types, all.items[i].text, TOKEN_NORMAL);
    put_token(&tokens, &types, "<|im_start|>", TOKEN_CONTROL);
    put_token(&tokens, &types, "<|im_end|>", TOKEN_CONTROL);
    for (uint32_t id = 0; id < spec->vocab; id++) {
        bool normal = id >= 259 && id < spec->vocab - 2;
        bytes_put(&scores, &(float){ normal ? -(float)(id - 259) : 0.0f }, sizeof(float));
    }

    gguf_put_string(b, "tokenizer.ggml.model", "llama");
    gguf_put_string(b, "tokenizer.ggml.pre", "default");
    put_arrays(b, spec->vocab, &tokens, &types);
    gguf_put_array(b, "tokenizer.ggml.scores", GGUF_F32, spec->vocab);
    bytes_put(b, scores.data, scores.len);
    gguf_put_u32(b, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(b, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(b, "tokenizer.ggml.unknown_token_id", 0);
    gguf_put_bool(b, "tokenizer.ggml.add_bos_token", true);
    gguf_put_string(b, "tokenizer.chat_template", chat_template);
    bytes_close(&scores);
    close_pieces(&all);
    return 10;
}

uint32_t mkmodel_vocab_min(enum mkmodel_vocab kind)
{
    return kind == MKMODEL_VOCAB_GPT2 ? 256 + 3 : 3 + 256 + 2;
}

uint32_t mkmodel_put_vocab(struct bytes *b, const struct mkmodel_spec *spec)
{
    must(spec->vocab >= mkmodel_vocab_min(spec->vocab_kind));
    return spec->vocab_kind == MKMODEL_VOCAB_GPT2 ? put_gpt2(b, spec) : put_spm(b, spec);
}
