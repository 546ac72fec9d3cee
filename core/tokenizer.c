/* SPDX-License-Identifier: MIT */
/* tokenizer - what both kinds share: reading and checking the vocabulary, added tokens, and the
 * way back from ids to bytes.
 *
 *   text -> added tokens are cut out (longest first match, left to right)
 *        -> each stretch between them goes to tok_spm or tok_bpe
 *
 * Added tokens are the user-defined ones, found in every text, and, only where the caller allows
 * it, control and unknown ones. Whatever a file holds is checked here before anything is built
 * from it: kinds and lengths of the arrays, text lengths, types, and every id against the
 * vocabulary's size. */
#include "core/tok_impl.h"

#include <string.h>

#include "core/mem.h"
#include "core/must.h"

enum rc token_list_push(struct token_list *list, int32_t id)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 64;
        int32_t *ids = mem_grow(list->ids, list->count * sizeof *ids, capacity * sizeof *ids);
        if (ids == NULL)
            return RC_NO_MEMORY;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return RC_OK;
}

void token_list_close(struct token_list *list)
{
    mem_free(list->ids);
    *list = (struct token_list){ 0 };
}

static enum rc read_texts(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    const struct gguf_key *key;
    const char *name = "tokenizer.ggml.tokens";
    enum rc rc = gguf_get_array(g, name, GGUF_STRING, &key, fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(fault, RC_CORRUPT, "%s is missing", name);
    if (rc != RC_OK)
        return rc;
    if (key->count == 0 || key->count > MODEL_VOCAB_MAX)
        return fault_set(fault, RC_CORRUPT, "%s has %llu elements, expected 1 to %u", name,
                         (unsigned long long)key->count, MODEL_VOCAB_MAX);
    t->count = (uint32_t)key->count;
    t->texts = mem_alloc_array(t->count, sizeof *t->texts);
    if (t->texts == NULL)
        return RC_NO_MEMORY;
    const uint8_t *cursor = key->value;
    for (uint32_t i = 0; i < t->count; i++) {
        struct gguf_text s = gguf_next_text(key, &cursor);
        if (s.len > TOKEN_TEXT_BYTES_MAX)
            return fault_set(fault, RC_CORRUPT, "%s[%u] has %zu bytes, the most is %u", name, i,
                             s.len, TOKEN_TEXT_BYTES_MAX);
        t->texts[i] = (struct tok_text){ s.text, (uint32_t)s.len };
    }
    return RC_OK;
}

static bool text_is(const struct tok_text *s, const char *text)
{
    size_t len = strlen(text);
    return s->len == len && memcmp(s->text, text, len) == 0;
}

static enum rc read_types(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    const char *name = "tokenizer.ggml.token_type";
    t->types = mem_alloc_raw(t->count);
    if (t->types == NULL)
        return RC_NO_MEMORY;
    memset(t->types, TOK_NORMAL, t->count);
    const struct gguf_key *key = gguf_find_key(g, name);
    if (key == NULL && t->model == TOK_BPE)
        return RC_OK;
    if (key == NULL) /* control tokens and bytes could not be told from text */
        return fault_set(fault, RC_CORRUPT, "%s is missing", name);
    if (key->kind != GGUF_ARRAY || (key->elem_kind != GGUF_I32 && key->elem_kind != GGUF_U32))
        return fault_set(fault, RC_CORRUPT, "%s is not an array of 32-bit integers", name);
    if (key->count != t->count)
        return fault_set(fault, RC_CORRUPT, "%s has %llu elements, tokenizer.ggml.tokens %u", name,
                         (unsigned long long)key->count, t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        int64_t type = gguf_key_i64(key, i);
        if (type < TOK_UNDEFINED || type > TOK_BYTE)
            return fault_set(fault, RC_CORRUPT, "%s[%u] is %lld, which is no token type", name, i,
                             (long long)type);
        t->types[i] = (uint8_t)type;
    }
    return RC_OK;
}

/* Some files call SentencePiece's own end mark user-defined, and it would then be found in every
 * text. It is a control token where its partner "<s>" is one; where both are user-defined they are
 * HTML. */
static void correct_end_mark(struct tokenizer *t)
{
    bool begin_is_control = false;
    for (uint32_t i = 0; i < t->count; i++)
        begin_is_control =
            begin_is_control || (t->types[i] == TOK_CONTROL && text_is(&t->texts[i], "<s>"));
    for (uint32_t i = 0; i < t->count && begin_is_control; i++)
        if (t->types[i] == TOK_USER && text_is(&t->texts[i], "</s>"))
            t->types[i] = TOK_CONTROL;
}

static bool is_added_type(uint8_t type, bool special)
{
    return type == TOK_USER || (special && (type == TOK_CONTROL || type == TOK_UNKNOWN));
}

static enum rc collect_added(struct tokenizer *t, bool special, struct fault *fault)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count; i++)
        count += is_added_type(t->types[i], special) && t->texts[i].len > 0;
    int32_t *ids = mem_alloc_array(count, sizeof *ids);
    if (ids == NULL)
        return RC_NO_MEMORY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (!is_added_type(t->types[i], special) || t->texts[i].len == 0)
            continue;
        if (t->texts[i].len > TOKEN_ADDED_BYTES_MAX) {
            mem_free(ids);
            return fault_set(
                fault, RC_UNSUPPORTED,
                "tokenizer.ggml.tokens[%u] is an added token of %u bytes, the most is %u", i,
                t->texts[i].len, TOKEN_ADDED_BYTES_MAX);
        }
        ids[n++] = (int32_t)i;
    }
    tok_added_open(&t->added[special], t->texts, ids, count);
    return RC_OK;
}

/* An id in the metadata: *out is -1 when the key is missing. */
static enum rc read_id(const struct tokenizer *t, const struct gguf *g, const char *name,
                       int32_t *out, struct fault *fault)
{
    uint32_t id = 0;
    enum rc rc = gguf_get_u32(g, name, 0, t->count - 1, &id, fault);
    *out = rc == RC_OK ? (int32_t)id : -1;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static int32_t find_added(const struct tokenizer *t, const char *text, size_t len)
{
    uint64_t work = 0;
    if (len == 0)
        return -1;
    int32_t id = tok_added_match(&t->added[1], t->texts, text, len, &work);
    return id >= 0 && t->texts[id].len == len ? id : -1;
}

static void add_end(struct tokenizer *t, int32_t id)
{
    if (id < 0 || tokenizer_is_end(t, id))
        return;
    must(t->end_count < TOK_ENDS_MAX);
    t->ends[t->end_count++] = id;
}

/* Ends of a turn: what the file names, and the texts by which models are known to end one. */
static enum rc read_ends(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    static const char *const texts[] = {
        "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",         "<|end|>",
        "</s>",       "<end_of_turn>", "<|end_of_text|>",    "<|endoftext|>",
        "<|EOT|>",    "<EOT>",         "<end_of_utterance>",
    };
    int32_t eot, eom;
    enum rc rc = read_id(t, g, "tokenizer.ggml.eot_token_id", &eot, fault);
    if (rc == RC_OK)
        rc = read_id(t, g, "tokenizer.ggml.eom_token_id", &eom, fault);
    if (rc != RC_OK)
        return rc;
    add_end(t, t->eos);
    add_end(t, eot);
    add_end(t, eom);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int32_t id = find_added(t, texts[i], strlen(texts[i]));
        if (id >= 0 && t->types[id] == TOK_CONTROL)
            add_end(t, id);
    }
    return RC_OK;
}

static enum rc read_special(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    enum rc rc = read_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, fault);
    if (rc == RC_OK)
        rc = read_id(t, g, "tokenizer.ggml.eos_token_id", &t->eos, fault);
    if (rc == RC_OK)
        rc = read_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unknown, fault);
    if (rc != RC_OK)
        return rc;
    if (t->model == TOK_SPM) { /* what SentencePiece calls them unless told otherwise */
        t->bos = t->bos < 0 ? find_added(t, "<s>", 3) : t->bos;
        t->eos = t->eos < 0 ? find_added(t, "</s>", 4) : t->eos;
        t->unknown = t->unknown < 0 ? find_added(t, "<unk>", 5) : t->unknown;
    }
    t->adds_bos = t->model == TOK_SPM || t->rules->add_bos;
    t->adds_blank = t->model == TOK_SPM;
    struct {
        const char *name;
        bool *value;
    } flags[] = {
        { "tokenizer.ggml.add_bos_token", &t->adds_bos },
        { "tokenizer.ggml.add_eos_token", &t->adds_eos },
        { "tokenizer.ggml.add_space_prefix", &t->adds_blank },
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        rc = gguf_get_bool(g, flags[i].name, flags[i].value, fault);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
    }
    t->adds_bos = t->adds_bos && t->bos >= 0;
    t->adds_eos = t->adds_eos && t->eos >= 0;
    t->adds_blank = t->adds_blank && t->model == TOK_SPM;
    return read_ends(t, g, fault);
}

/* Phi-3's added tokens swallow the blanks behind them, which the file cannot say. */
static enum rc read_quirks(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    struct gguf_text arch = { "", 0 };
    enum rc rc = gguf_get_text(g, "general.architecture", &arch, fault);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    t->eats_blanks = t->model == TOK_SPM && arch.len == 4 && memcmp(arch.text, "phi3", 4) == 0;
    t->spares_blanks[0] = find_added(t, "<unk>", 5);
    t->spares_blanks[1] = find_added(t, "<s>", 3);
    t->spares_blanks[2] = find_added(t, "<|endoftext|>", 13);
    return RC_OK;
}

static enum rc read_model(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    struct gguf_text model, pre = { "default", 7 };
    const char *name = "tokenizer.ggml.model";
    enum rc rc = gguf_get_text(g, name, &model, fault);
    if (rc == RC_NOT_FOUND)
        return fault_set(fault, RC_CORRUPT, "%s is missing", name);
    if (rc != RC_OK)
        return rc;
    int shown = (int)(model.len < 60 ? model.len : 60);
    if (model.len == 5 && memcmp(model.text, "llama", 5) == 0)
        t->model = TOK_SPM;
    else if (model.len == 4 && memcmp(model.text, "gpt2", 4) == 0)
        t->model = TOK_BPE;
    else
        return fault_set(fault, RC_UNSUPPORTED,
                         "%s '%.*s' is not supported; 'llama' and 'gpt2' are", name, shown,
                         model.text);
    if (t->model == TOK_SPM)
        return RC_OK;
    name = "tokenizer.ggml.pre";
    rc = gguf_get_text(g, name, &pre, fault);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    t->rules = pretok_find(pre.text, pre.len);
    shown = (int)(pre.len < 60 ? pre.len : 60);
    if (t->rules == NULL)
        return fault_set(fault, RC_UNSUPPORTED, "%s '%.*s' is not supported", name, shown,
                         pre.text);
    return RC_OK;
}

static enum rc open_parts(struct tokenizer *t, const struct gguf *g, struct fault *fault)
{
    enum rc rc = read_model(t, g, fault);
    if (rc == RC_OK)
        rc = read_texts(t, g, fault);
    if (rc == RC_OK)
        rc = read_types(t, g, fault);
    if (rc == RC_OK && t->model == TOK_SPM)
        correct_end_mark(t);
    if (rc == RC_OK)
        rc = collect_added(t, false, fault);
    if (rc == RC_OK)
        rc = collect_added(t, true, fault);
    if (rc == RC_OK)
        rc = read_special(t, g, fault);
    if (rc == RC_OK)
        rc = read_quirks(t, g, fault);
    if (rc == RC_OK)
        rc = t->model == TOK_SPM ? tok_spm_open(t, g, fault) : tok_bpe_open(t, g, fault);
    if (rc == RC_NO_MEMORY)
        fault_set(fault, rc, "no memory for a vocabulary of %u tokens", t->count);
    return rc;
}

enum rc tokenizer_open(struct tokenizer **out, const struct gguf *g, struct fault *fault)
{
    *out = NULL;
    struct tokenizer *t = mem_alloc(sizeof *t);
    if (t == NULL)
        return fault_set(fault, RC_NO_MEMORY, "no memory for a tokenizer");
    for (unsigned b = 0; b < 256; b++)
        t->byte_ids[b] = -1;
    enum rc rc = open_parts(t, g, fault);
    if (rc != RC_OK) {
        tokenizer_close(t);
        return rc;
    }
    *out = t;
    return RC_OK;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t == NULL)
        return;
    mem_free(t->texts);
    mem_free(t->types);
    mem_free(t->ranks);
    mem_free(t->blob);
    mem_free(t->pairs);
    tok_table_close(&t->table);
    tok_added_close(&t->added[0]);
    tok_added_close(&t->added[1]);
    mem_free(t);
}

static enum rc encode_stretch(const struct tokenizer *t, struct merge *m, const char *text,
                              size_t len, struct token_list *out)
{
    if (len == 0)
        return RC_OK;
    return t->model == TOK_SPM ? tok_spm_encode(t, m, text, len, t->adds_blank, out)
                               : tok_bpe_encode(t, m, text, len, out);
}

static size_t eaten_blanks(const struct tokenizer *t, int32_t id, const char *text, size_t len)
{
    size_t n = 0;
    if (!t->eats_blanks || id == t->spares_blanks[0] || id == t->spares_blanks[1] ||
        id == t->spares_blanks[2])
        return 0;
    while (n < len && (text[n] == ' ' || (text[n] >= '\t' && text[n] <= '\r')))
        n++;
    return n;
}

/* The added token at the front of text, -1 = none: control tokens within `own` bytes, the others
 * within len; the longer one. */
static int32_t match_added(const struct tokenizer *t, struct merge *m, const char *text, size_t own,
                           size_t len)
{
    int32_t control = -1, plain = -1;
    if (own > 0)
        control = tok_added_match(&t->added[1], t->texts, text, own, &m->work);
    if (own < len)
        plain = tok_added_match(&t->added[0], t->texts, text, len, &m->work);
    if (control < 0 || plain < 0)
        return control < 0 ? plain : control;
    return t->texts[control].len >= t->texts[plain].len ? control : plain;
}

static enum rc encode_text(const struct tokenizer *t, struct merge *m, const char *text,
                           const struct text_span *spans, size_t span_count, struct token_list *out)
{
    enum rc rc = RC_OK;
    size_t begin = 0, len = span_count > 0 ? spans[span_count - 1].end : 0;
    for (size_t pos = 0; pos < len && rc == RC_OK;) {
        while (spans->end <= pos)
            spans++;
        int32_t id = match_added(t, m, text + pos, spans->user ? 0 : spans->end - pos, len - pos);
        if (id < 0) {
            pos++;
            continue;
        }
        rc = encode_stretch(t, m, text + begin, pos - begin, out);
        if (rc == RC_OK)
            rc = token_list_push(out, id);
        pos += t->texts[id].len;
        pos += eaten_blanks(t, id, text + pos, len - pos);
        begin = pos;
    }
    return rc == RC_OK ? encode_stretch(t, m, text + begin, len - begin, out) : rc;
}

enum rc tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags,
                         struct token_list *out)
{
    if (len > TOKENIZE_BYTES_MAX)
        return RC_LIMIT;
    struct merge m;
    merge_open(&m);
    size_t before = out->count;
    const struct text_span whole = { .end = len, .user = (flags & TOKENIZE_SPECIAL) == 0 };
    enum rc rc = RC_OK;
    if ((flags & TOKENIZE_BOS) && t->adds_bos)
        rc = token_list_push(out, t->bos);
    if (rc == RC_OK)
        rc = encode_text(t, &m, text, &whole, 1, out);
    if (rc == RC_OK && (flags & TOKENIZE_BOS) && t->adds_eos)
        rc = token_list_push(out, t->eos);
    out->work += m.work + len;
    merge_close(&m);
    if (rc != RC_OK)
        out->count = before;
    return rc;
}

enum rc tokenizer_encode_spans(const struct tokenizer *t, const char *text,
                               const struct text_span *spans, size_t span_count,
                               struct token_list *out)
{
    size_t len = span_count > 0 ? spans[span_count - 1].end : 0, before = out->count;
    if (len > TOKENIZE_BYTES_MAX)
        return RC_LIMIT;
    struct merge m;
    merge_open(&m);
    enum rc rc = t->adds_bos ? token_list_push(out, t->bos) : RC_OK;
    size_t first = out->count;
    if (rc == RC_OK)
        rc = encode_text(t, &m, text, spans, span_count, out);
    if (first > before && out->count > first && out->ids[first] == t->bos) { /* the template's */
        out->count--;
        memmove(&out->ids[before], &out->ids[first], (out->count - before) * sizeof *out->ids);
    }
    out->work += m.work + len;
    merge_close(&m);
    if (rc != RC_OK)
        out->count = before;
    return rc;
}

uint32_t tokenizer_vocab_count(const struct tokenizer *t)
{
    return t->count;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
    return t->adds_bos;
}

bool tokenizer_adds_blank(const struct tokenizer *t)
{
    return t->adds_blank;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
    for (uint32_t i = 0; i < t->end_count; i++)
        if (t->ends[i] == id)
            return true;
    return false;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->count && is_added_type(t->types[id], true) &&
           t->types[id] != TOK_USER;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len)
{
    int32_t id = find_added(t, text, len);
    if (id >= 0 || len == 0 || len > TOKEN_TEXT_BYTES_MAX)
        return id;
    if (t->model == TOK_SPM)
        return tok_spm_find(t, text, len);
    uint64_t hash, power;
    tok_hash(text, len, &hash, &power);
    struct tok_text s = { text, (uint32_t)len };
    return tok_table_find(&t->table, t->texts, hash, s, (struct tok_text){ "", 0 });
}

/* Length of what an SPM text stands for, its bytes up to cap in out: U+2581 is a blank. */
static size_t write_blanks(const struct tok_text *s, char *out, size_t cap)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->len; n++) {
        bool blank =
            s->len - i >= TOK_BLANK_BYTES && memcmp(s->text + i, TOK_BLANK, TOK_BLANK_BYTES) == 0;
        if (n < cap)
            out[n] = blank ? ' ' : s->text[i];
        i += blank ? TOK_BLANK_BYTES : 1;
    }
    return n;
}

size_t tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, char *out, size_t cap)
{
    must(id >= 0);
    if ((uint32_t)id >= t->count)
        return 0;
    const struct tok_text *s = &t->texts[id];
    bool control = tokenizer_is_control(t, id);
    if (control && !special)
        return 0;
    if (t->model == TOK_SPM && t->types[id] == TOK_BYTE) {
        if (cap > 0)
            out[0] = (char)tok_spm_byte(s);
        return 1;
    }
    if (t->model == TOK_SPM && !control)
        return write_blanks(s, out, cap);
    if (cap > 0)
        memcpy(out, s->text, s->len < cap ? s->len : cap);
    return s->len;
}
