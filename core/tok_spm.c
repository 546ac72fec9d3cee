/* SPDX-License-Identifier: MIT */
/* tok_spm - SentencePiece BPE: blanks become U+2581, characters are joined while the joint text is
 * a token, best score first. What is left over and no token is written as byte tokens, or as the
 * unknown token.
 *
 * Only normal, user-defined and unused tokens come out of joining. Control, unknown and byte
 * tokens never do, whatever the text: "<0x0A>" or "</s>" in a text are characters. */
#include "core/tok_impl.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"

/* Scores as integers that fall when the score rises, equal where scores are equal. */
static uint32_t rank_of_score(float score)
{
    score += 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int tok_spm_byte(const struct tok_text *s)
{
    if (s->len != 6 || memcmp(s->text, "<0x", 3) != 0 || s->text[5] != '>')
        return -1;
    int high = hex_digit(s->text[3]), low = hex_digit(s->text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static enum rc read_scores(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    const struct gguf_key *key;
    const char *name = "tokenizer.ggml.scores";
    enum rc rc = gguf_get_array(g, name, GGUF_F32, &key, fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(fault, RC_CORRUPT, "%s is missing", name);
    if (rc != RC_OK)
        return rc;
    if (key->count != t->count)
        return fault_set(fault, RC_CORRUPT, "%s has %llu elements, tokenizer.ggml.tokens %u", name,
                         (unsigned long long)key->count, t->count);
    t->ranks = mem_alloc_array(t->count, sizeof *t->ranks);
    if (t->ranks == NULL)
        return RC_NO_MEMORY;
    for (uint32_t i = 0; i < t->count; i++) {
        float score = (float)gguf_key_f64(key, i);
        if (isnan(score))
            return fault_set(fault, RC_CORRUPT, "%s[%u] is not a number", name, i);
        t->ranks[i] = rank_of_score(score);
    }
    return RC_OK;
}

static bool is_blank(const char *text, size_t len)
{
    return len >= TOK_BLANK_BYTES && memcmp(text, TOK_BLANK, TOK_BLANK_BYTES) == 0;
}

/* Notes the bytes after which some token goes on with a blank: there the text cannot be parted. */
static void note_inner_blanks(struct tokenizer *t, const struct tok_text *s)
{
    for (uint32_t i = 1; i < s->len; i++)
        if (is_blank(s->text + i, s->len - i))
            t->joins_blank[(unsigned char)s->text[i - 1]] = true;
}

enum rc tok_spm_open(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    enum rc rc = read_scores(t, g, fault);
    if (rc == RC_OK)
        rc = tok_table_open(&t->table, t->count);
    if (rc != RC_OK)
        return rc;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct tok_text *s = &t->texts[i];
        if (t->types[i] == TOK_BYTE) {
            int byte = tok_spm_byte(s);
            if (byte < 0)
                return fault_set(fault, RC_CORRUPT,
                                 "tokenizer.ggml.tokens[%u] is a byte token, but not <0xNN>", i);
            t->byte_ids[byte] = (int32_t)i;
        } else if (t->types[i] != TOK_CONTROL && t->types[i] != TOK_UNKNOWN && s->len > 0) {
            if (!tok_table_put(&t->table, t->texts, (int32_t)i))
                return fault_set(fault, RC_UNSUPPORTED,
                                 "tokenizer.ggml.tokens has colliding texts");
            note_inner_blanks(t, s);
        }
    }
    return RC_OK;
}

/* A text with escaped blanks, and the part [begin, end) of it that is being joined. */
struct spm_text {
    const struct tokenizer *t;
    const char *text;
    uint32_t len;
    uint32_t begin, end;
    bool after_unknown; /* the last id written is the unknown token */
};

/* End of the part that begins at pos: the next blank after something that no token has before one.
 * Nothing is ever joined across it, so the parts may be joined one by one, in the cache. */
static uint32_t part_end(const struct spm_text *x, uint32_t pos)
{
    bool after_blank = false;
    for (uint32_t i = pos; i < x->len;) {
        bool blank = is_blank(x->text + i, x->len - i);
        if (blank && i > pos && !after_blank && !x->t->joins_blank[(unsigned char)x->text[i - 1]])
            return i;
        after_blank = blank;
        i += blank ? TOK_BLANK_BYTES : 1;
    }
    return x->len;
}

static bool spm_pair(const void *ctx, const struct merge_symbol *left,
                     const struct merge_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct spm_text *x = ctx;
    struct tok_text a = { x->text + left->begin, left->end - left->begin };
    struct tok_text b = { x->text + right->begin, right->end - right->begin };
    uint64_t hash = left->hash * right->power + right->hash;
    int32_t found = tok_table_find(&x->t->table, x->t->texts, hash, a, b);
    if (found < 0)
        return false;
    *rank = x->t->ranks[found];
    *id = found;
    return true;
}

/* Copies text with blanks written as U+2581, one before it if wanted. */
static char *escape_blanks(const char *text, size_t len, bool blank_before, size_t *out_len)
{
    size_t blanks = blank_before;
    for (size_t i = 0; i < len; i++)
        blanks += text[i] == ' ';
    char *out = mem_alloc_raw(len + TOK_BLANK_BYTES * blanks);
    if (out == NULL)
        return NULL;
    size_t n = 0;
    if (blank_before) {
        memcpy(out, TOK_BLANK, TOK_BLANK_BYTES);
        n = TOK_BLANK_BYTES;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ') {
            memcpy(out + n, TOK_BLANK, TOK_BLANK_BYTES);
            n += TOK_BLANK_BYTES;
        } else {
            out[n++] = text[i];
        }
    }
    *out_len = n;
    return out;
}

int32_t tok_spm_find(const struct tokenizer *t, const char *text, size_t len)
{
    size_t escaped_len;
    char *escaped = escape_blanks(text, len, false, &escaped_len);
    if (escaped == NULL)
        return -1;
    uint64_t hash, power;
    tok_hash(escaped, escaped_len, &hash, &power);
    struct tok_text s = { escaped, (uint32_t)escaped_len };
    int32_t id = tok_table_find(&t->table, t->texts, hash, s, (struct tok_text){ "", 0 });
    mem_free(escaped);
    return id < 0 && len == 1 ? t->byte_ids[(unsigned char)text[0]] : id;
}

/* A symbol is a character; a byte that is no UTF-8 is one of its own. */
static size_t symbol_bytes(const struct spm_text *x, size_t pos)
{
    struct utf8_step step = utf8_decode(x->text + pos, x->end - pos);
    return step.state == UTF8_OK ? step.len : 1;
}

static enum rc split_symbols(const struct spm_text *x, struct merge *m, uint32_t *count)
{
    uint32_t n = 0;
    for (size_t pos = x->begin; pos < x->end; n++)
        pos += symbol_bytes(x, pos);
    *count = n;
    enum rc rc = merge_reserve(m, n);
    if (rc != RC_OK)
        return rc;
    size_t pos = x->begin;
    for (uint32_t i = 0; i < n; i++) {
        struct merge_symbol *s = &m->symbols[i];
        s->begin = (uint32_t)pos;
        pos += symbol_bytes(x, pos);
        s->end = (uint32_t)pos;
        struct tok_text text = { x->text + s->begin, s->end - s->begin };
        tok_hash(text.text, text.len, &s->hash, &s->power);
        s->id =
            tok_table_find(&x->t->table, x->t->texts, s->hash, text, (struct tok_text){ "", 0 });
    }
    m->work += n;
    return RC_OK;
}

/* A character that is no token: its bytes if the vocabulary has all of them, else the unknown
 * token, once for neighbours. */
static enum rc write_unknown(struct spm_text *x, const struct merge_symbol *s,
                             struct token_list *out)
{
    bool has_bytes = true, repeated = x->after_unknown;
    for (uint32_t i = s->begin; i < s->end; i++)
        has_bytes = has_bytes && x->t->byte_ids[(unsigned char)x->text[i]] >= 0;
    x->after_unknown = !has_bytes;
    if (!has_bytes && x->t->unknown < 0)
        return RC_INVALID;
    if (!has_bytes)
        return repeated ? RC_OK : token_list_push(out, x->t->unknown);
    enum rc rc = RC_OK;
    for (uint32_t i = s->begin; i < s->end && rc == RC_OK; i++)
        rc = token_list_push(out, x->t->byte_ids[(unsigned char)x->text[i]]);
    return rc;
}

static enum rc write_symbols(struct spm_text *x, const struct merge *m, struct token_list *out)
{
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i != MERGE_END && rc == RC_OK; i = m->symbols[i].next) {
        const struct merge_symbol *s = &m->symbols[i];
        if (s->id < 0) {
            rc = write_unknown(x, s, out);
        } else {
            x->after_unknown = false;
            rc = token_list_push(out, s->id);
        }
    }
    return rc;
}

enum rc tok_spm_encode(const struct tokenizer *t, struct merge *m, const char *text, size_t len,
                       bool blank_before, struct token_list *out)
{
    size_t escaped_len;
    char *escaped = escape_blanks(text, len, blank_before, &escaped_len);
    if (escaped == NULL)
        return RC_NO_MEMORY;
    must(escaped_len < MERGE_END);
    struct spm_text x = { .t = t, .text = escaped, .len = (uint32_t)escaped_len };
    enum rc rc = RC_OK;
    for (; x.begin < x.len && rc == RC_OK; x.begin = x.end) {
        uint32_t count;
        x.end = part_end(&x, x.begin);
        rc = split_symbols(&x, m, &count);
        if (rc == RC_OK) {
            merge_run(m, count, spm_pair, &x);
            rc = write_symbols(&x, m, out);
        }
    }
    mem_free(escaped);
    return rc;
}
