/* SPDX-License-Identifier: MIT */
/* tok_bpe - byte-level BPE: each piece of the pre-tokenizer is a row of bytes, and neighbours are
 * joined by the list of merges, the earliest merge first.
 *
 * The file writes tokens and merges in an alphabet of 256 printable characters, one for each byte.
 * Here they are turned back into bytes when the vocabulary is opened, and merges into pairs of
 * ids, so that encoding never sees that alphabet: a look-up is one probe of a hash table with an
 * 8-byte key.
 *
 * Only normal tokens take part. A merge that would give a control token is left out, so that no
 * text can become one; a merge of pieces that the vocabulary lacks means that the two lists do not
 * belong together. */
#include "core/tok_impl.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"
#include "core/str.h"
#include "core/unicode.h"

/* The alphabet: bytes that print as themselves in Latin-1, the others from U+0100 up, in order. */
#define ALPHABET_END 0x144u

static bool prints_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void fill_alphabet(int16_t bytes[ALPHABET_END])
{
    for (unsigned i = 0; i < ALPHABET_END; i++)
        bytes[i] = -1;
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; b++)
        bytes[prints_itself(b) ? b : next++] = (int16_t)b;
    must(next == ALPHABET_END);
}

/* The bytes that text, written in the alphabet, stands for; false when it has other characters.
 * out has room for len. */
static bool unmap(const int16_t bytes[ALPHABET_END], char *out, size_t *out_len, const char *text,
                  size_t len)
{
    size_t n = 0;
    for (size_t pos = 0; pos < len;) {
        struct utf8_step step = { UTF8_OK, 1, (unsigned char)text[pos] };
        if (step.code >= 0x80)
            step = utf8_decode(text + pos, len - pos);
        if (step.state != UTF8_OK || step.code >= ALPHABET_END || bytes[step.code] < 0)
            return false;
        out[n++] = (char)bytes[step.code];
        pos += step.len;
    }
    *out_len = n;
    return true;
}

static bool is_mergeable(uint8_t type)
{
    return type == TOK_NORMAL || type == TOK_UNDEFINED || type == TOK_UNUSED || type == TOK_BYTE;
}

/* Turns normal tokens into bytes and puts them into the table. A normal token with other
 * characters than the alphabet's stands for itself and comes out of no merge. */
static enum rc read_tokens(struct tokenizer *t, const int16_t alphabet[ALPHABET_END],
                           size_t total, struct fault *fault)
{
    t->blob = mem_alloc_raw(total);
    if (t->blob == NULL)
        return RC_NO_MEMORY;
    enum rc rc = tok_table_open(&t->table, t->count);
    if (rc != RC_OK)
        return rc;
    size_t used = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        struct tok_text *s = &t->texts[i];
        size_t len;
        if (!is_mergeable(t->types[i]) || s->len == 0 ||
            !unmap(alphabet, t->blob + used, &len, s->text, s->len))
            continue;
        *s = (struct tok_text){ t->blob + used, (uint32_t)len };
        used += len;
        if (!tok_table_put(&t->table, t->texts, (int32_t)i))
            return fault_set(fault, RC_UNSUPPORTED, "tokenizer.ggml.tokens has colliding texts");
        if (len == 1)
            t->byte_ids[(unsigned char)s->text[0]] = (int32_t)i;
    }
    return RC_OK;
}

static uint32_t pair_home(const struct tokenizer *t, uint64_t key)
{
    uint64_t h = key * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return (uint32_t)(h * 0xff51afd7ed558ccdu >> 32) & t->pair_mask;
}

/* Slot of the pair, or the empty one where it would be. */
static uint32_t pair_slot(const struct tokenizer *t, uint64_t key)
{
    uint32_t i = pair_home(t, key);
    while (t->pairs[i].rank != MERGE_NO_RANK && t->pairs[i].key != key)
        i = (i + 1) & t->pair_mask;
    return i;
}

/* Of equal merges the first one counts. False when too many pairs collide, as in tok_table_put. */
static bool put_pair(struct tokenizer *t, struct tok_pair pair)
{
    uint32_t i = pair_slot(t, pair.key);
    if (((i - pair_home(t, pair.key)) & t->pair_mask) > TOK_PROBES_MAX)
        return false;
    if (t->pairs[i].rank == MERGE_NO_RANK)
        t->pairs[i] = pair;
    return true;
}

static enum rc open_pairs(struct tokenizer *t, size_t count)
{
    size_t slots = 16;
    while (slots < count + count / 2)
        slots *= 2;
    t->pairs = mem_alloc_array(slots, sizeof *t->pairs);
    if (t->pairs == NULL)
        return RC_NO_MEMORY;
    for (size_t i = 0; i < slots; i++)
        t->pairs[i].rank = MERGE_NO_RANK;
    t->pair_mask = (uint32_t)(slots - 1);
    return RC_OK;
}

static int32_t find_token(const struct tokenizer *t, const char *text, size_t len)
{
    uint64_t hash, power;
    tok_hash(text, len, &hash, &power);
    struct tok_text s = { text, (uint32_t)len };
    return tok_table_find(&t->table, t->texts, hash, s, (struct tok_text){ "", 0 });
}

static bool is_added(const struct tokenizer *t, const char *text, size_t len)
{
    uint64_t work = 0;
    int32_t id = tok_added_match(&t->added[1], t->texts, text, len, &work);
    return id >= 0 && t->texts[id].len == len;
}

/* A piece of merge m is no normal token: no sign of a wrong list if it is an added one. */
static bool has_added_piece(const struct tokenizer *t, struct gguf_text m, const char *blank,
                            char *scratch)
{
    size_t left = (size_t)(blank - m.text), right = m.len - left - 1;
    memcpy(scratch, m.text, left);
    memcpy(scratch + left, blank + 1, right);
    return is_added(t, scratch, left) || is_added(t, scratch + left, right) ||
           is_added(t, scratch, left + right);
}

/* One line of the list of merges: two pieces and the blank between them. */
static enum rc read_merge(struct tokenizer *t, const int16_t alphabet[ALPHABET_END],
                          struct gguf_text m, uint32_t index, char *scratch, struct fault *fault)
{
    const char *blank = m.len > 1 ? memchr(m.text + 1, ' ', m.len - 1) : NULL;
    size_t left_len, right_len;
    if (m.len > TOKEN_TEXT_BYTES_MAX || blank == NULL || blank + 1 == m.text + m.len ||
        !unmap(alphabet, scratch, &left_len, m.text, (size_t)(blank - m.text)) ||
        !unmap(alphabet, scratch + left_len, &right_len, blank + 1,
               (size_t)(m.text + m.len - blank - 1)))
        return fault_set(fault, RC_CORRUPT, "tokenizer.ggml.merges[%u] is not two pieces", index);
    struct tok_text none = { "", 0 };
    struct tok_text left = { scratch, (uint32_t)left_len };
    struct tok_text right = { scratch + left_len, (uint32_t)right_len };
    uint64_t left_hash, right_hash, power;
    tok_hash(left.text, left.len, &left_hash, &power);
    tok_hash(right.text, right.len, &right_hash, &power);
    int32_t a = tok_table_find(&t->table, t->texts, left_hash, left, none);
    int32_t b = tok_table_find(&t->table, t->texts, right_hash, right, none);
    uint64_t joint_hash = left_hash * power + right_hash;
    int32_t joint = tok_table_find(&t->table, t->texts, joint_hash, left, right);
    if (a < 0 || b < 0 || joint < 0) {
        if (has_added_piece(t, m, blank, scratch))
            return RC_OK;
        return fault_set(fault, RC_CORRUPT,
                         "tokenizer.ggml.merges[%u] has a piece that tokenizer.ggml.tokens lacks",
                         index);
    }
    uint64_t key = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    if (!put_pair(t, (struct tok_pair){ key, index, joint }))
        return fault_set(fault, RC_UNSUPPORTED, "tokenizer.ggml.merges has colliding pairs");
    return RC_OK;
}

/* The list of merges. Each merge parts some token in two, so there are fewer of them than the
 * tokens have bytes: this bounds the table by what the file holds, before it is allocated. */
static enum rc find_merges(const struct gguf *g, size_t token_bytes, const struct gguf_key **out,
                           struct fault *fault)
{
    const char *name = "tokenizer.ggml.merges";
    enum rc rc = gguf_get_array(g, name, GGUF_STRING, out, fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(fault, RC_CORRUPT, "%s is missing", name);
    if (rc != RC_OK)
        return rc;
    size_t most = token_bytes < TOKEN_MERGES_MAX ? token_bytes : TOKEN_MERGES_MAX;
    if ((*out)->count > most)
        return fault_set(fault, RC_CORRUPT,
                         "%s has %llu elements, the most for these tokens is %zu", name,
                         (unsigned long long)(*out)->count, most);
    return RC_OK;
}

enum rc tok_bpe_open(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    int16_t alphabet[ALPHABET_END];
    fill_alphabet(alphabet);
    size_t token_bytes = 0;
    for (uint32_t i = 0; i < t->count; i++)
        token_bytes += t->texts[i].len;
    const struct gguf_key *key;
    enum rc rc = find_merges(g, token_bytes, &key, fault);
    if (rc == RC_OK)
        rc = read_tokens(t, alphabet, token_bytes, fault);
    if (rc != RC_OK)
        return rc;
    rc = open_pairs(t, key->count);
    char *scratch = mem_alloc_raw(TOKEN_TEXT_BYTES_MAX);
    if (rc != RC_OK || scratch == NULL) {
        mem_free(scratch);
        return RC_NO_MEMORY;
    }
    const uint8_t *cursor = key->value;
    for (uint32_t i = 0; i < key->count && rc == RC_OK; i++)
        rc = read_merge(t, alphabet, gguf_next_text(key, &cursor), i, scratch, fault);
    mem_free(scratch);
    return rc;
}

static bool bpe_pair(const void *ctx, const struct merge_symbol *left,
                     const struct merge_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct tokenizer *t = ctx;
    const struct tok_pair *p =
        &t->pairs[pair_slot(t, (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right->id)];
    *rank = p->rank;
    *id = p->id;
    return p->rank != MERGE_NO_RANK;
}

static enum rc encode_piece(const struct tokenizer *t, struct merge *m, const char *text,
                            size_t len, struct token_list *out)
{
    if (t->rules->whole_pieces && len <= t->table.len_max) {
        int32_t id = find_token(t, text, len);
        m->work += len;
        if (id >= 0)
            return token_list_push(out, id);
    }
    enum rc rc = merge_reserve(m, len);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < len; i++)
        m->symbols[i] = (struct merge_symbol){ .id = t->byte_ids[(unsigned char)text[i]] };
    merge_run(m, (uint32_t)len, bpe_pair, t);
    for (uint32_t i = 0; i != MERGE_END && rc == RC_OK; i = m->symbols[i].next)
        if (m->symbols[i].id >=
            0) /* a byte that the vocabulary never met has no token: it is lost */
            rc = token_list_push(out, m->symbols[i].id);
    return rc;
}

enum rc tok_bpe_encode(const struct tokenizer *t, struct merge *m, const char *text, size_t len,
                       struct token_list *out)
{
    char *normal = NULL;
    size_t normal_len = len;
    if (t->rules->nfc) {
        enum rc rc = unicode_nfc(&normal, &normal_len, text, len, &m->work);
        if (rc != RC_OK)
            return rc;
    }
    struct pretok_scan scan;
    pretok_open(&scan, t->rules->kind, normal != NULL ? normal : text, normal_len);
    enum rc rc = RC_OK;
    size_t begin, end;
    while (rc == RC_OK && pretok_next(&scan, &begin, &end))
        rc = encode_piece(t, m, scan.text + begin, end - begin, out);
    m->work += scan.work;
    mem_free(normal);
    return rc;
}
