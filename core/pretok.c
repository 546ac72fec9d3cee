/* SPDX-License-Identifier: MIT */
/* pretok - a rule set is a row of stages. The first stage cuts the text; each further stage cuts
 * the pieces of the one before, never seeing past their ends. A stage is a function that is given
 * the rest of such a piece, [pos, end), and returns where the first cut is: after a match that
 * begins at pos, or before the next place where one begins. So no list of pieces is kept, and a
 * scan is a few numbers.
 *
 * The patterns (S = \s, L = \p{L}, N = \p{N}, P = \p{P}):
 *   gpt2     's|'t|'re|'ve|'m|'ll|'d | ?L+| ?N+| ?[^SLN]+|S+(?!\S)|S+
 *   llama3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nLN]?L+|N{1,3}|
 *            ?[^SLN]+[\r\n]*|S*[\r\n]+|S+(?!\S)|S+
 *   qwen2    the same with N for N{1,3}
 *   digits   N, then gpt2
 *   falcon   [P$+<=>^~|`]+, gpt2, [0-9][0-9][0-9]
 *   default  [P$+<=>^~|]+, gpt2, N+, [0-9][0-9][0-9]
 *   deepseek-coder  [\r\n], S?L+, S?P+, CJK+, N
 *   deepseek-llm    [\r\n], S?cased+, S?[punct]+, S+$, CJK+, N+ */
#include "core/pretok.h"

#include <string.h>

#include "core/must.h"
#include "core/str.h"
#include "core/unicode.h"

static const struct pretok_rules rules[] = {
    { "default", PRETOK_DEFAULT, false, false, false },
    { "gpt-2", PRETOK_GPT2, false, false, false },
    { "phi-2", PRETOK_GPT2, false, false, false },
    { "mpt", PRETOK_GPT2, false, false, false },
    { "smollm", PRETOK_DIGITS, false, false, false },
    { "starcoder", PRETOK_DIGITS, false, false, false },
    { "refact", PRETOK_DIGITS, false, false, false },
    { "llama-bpe", PRETOK_LLAMA3, false, true, true },
    { "llama3", PRETOK_LLAMA3, false, true, true },
    { "llama-v3", PRETOK_LLAMA3, false, true, true },
    { "dbrx", PRETOK_LLAMA3, false, false, false },
    { "smaug-bpe", PRETOK_LLAMA3, false, false, false },
    { "qwen2", PRETOK_QWEN2, true, false, false },
    { "falcon", PRETOK_FALCON, false, false, false },
    { "deepseek-llm", PRETOK_DEEPSEEK_LLM, false, false, false },
    { "deepseek-coder", PRETOK_DEEPSEEK_CODER, false, false, false },
};

const struct pretok_rules *pretok_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strlen(rules[i].name) == len && memcmp(rules[i].name, name, len) == 0)
            return &rules[i];
    return NULL;
}

/* A character and where the next one begins; cls has CLASS_END beyond the end. */
struct look {
    uint32_t cp;
    unsigned cls;
    size_t next;
};
#define CLASS_END 0x100u
#define CLASS_SLN (UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER)

static struct look look_at(struct pretok_scan *s, size_t pos, size_t end)
{
    struct look k = { 0, CLASS_END, pos };
    s->work++;
    if (pos < end) {
        struct utf8_step step = utf8_decode(s->text + pos, end - pos);
        k.cp = step.code;
        k.cls = unicode_class(k.cp);
        k.next = pos + step.len;
    }
    return k;
}

/* A set of characters, as a function, so that runs and searches of every set share their loops. */
typedef bool set_fn(const struct look *k);

static bool is_letter(const struct look *k)
{
    return k->cls == UNICODE_LETTER;
}

static bool is_number(const struct look *k)
{
    return k->cls == UNICODE_NUMBER;
}

static bool is_punct(const struct look *k)
{
    return k->cls == UNICODE_PUNCT;
}

static bool is_other(const struct look *k)
{
    return (k->cls & (CLASS_SLN | CLASS_END)) == 0;
}

static bool is_newline(const struct look *k)
{
    return k->cp == '\r' || k->cp == '\n';
}

static bool is_space(const struct look *k)
{
    return k->cls == UNICODE_SPACE;
}

static bool is_default_punct(const struct look *k)
{
    return k->cls == UNICODE_PUNCT ||
           (k->cp < 0x80 && k->cp != 0 && strchr("$+<=>^~|", (int)k->cp));
}

static bool is_falcon_punct(const struct look *k)
{
    return k->cp == '`' || is_default_punct(k);
}

static bool is_cjk(const struct look *k)
{
    return (k->cp >= 0x800 && k->cp <= 0x9fa5) || (k->cp >= 0xac00 && k->cp <= 0xd7ff);
}

static bool is_deepseek_punct(const struct look *k)
{
    uint32_t c = k->cp;
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '~') || (c >= 0xff01 && c <= 0xff0f) ||
           (c >= 0xff1a && c <= 0xff5e) || (c >= 0x2018 && c <= 0x201f) || c == 0x3001 ||
           c == 0x3002;
}

/* Cased letters as DeepSeek LLM lists them, ascending. */
static const uint32_t cased[][2] = {
    { 0x41, 0x5a },       { 0x61, 0x7a },       { 0xb5, 0xb5 },       { 0xc0, 0xd6 },
    { 0xd8, 0xf6 },       { 0xf8, 0x1ba },      { 0x1bc, 0x1bf },     { 0x1c4, 0x293 },
    { 0x295, 0x2af },     { 0x370, 0x373 },     { 0x376, 0x377 },     { 0x37b, 0x37d },
    { 0x37f, 0x37f },     { 0x386, 0x386 },     { 0x388, 0x38a },     { 0x38c, 0x38c },
    { 0x38e, 0x3a1 },     { 0x3a3, 0x3f5 },     { 0x3f7, 0x481 },     { 0x48a, 0x52f },
    { 0x531, 0x556 },     { 0x10a0, 0x10c5 },   { 0x13a0, 0x13f5 },   { 0x13f8, 0x13fd },
    { 0x1c90, 0x1cba },   { 0x1cbd, 0x1cbf },   { 0x1d00, 0x1d2b },   { 0x1d6b, 0x1d77 },
    { 0x1d79, 0x1d9a },   { 0x1e00, 0x1f15 },   { 0x1f18, 0x1f1d },   { 0x1f20, 0x1f45 },
    { 0x1f48, 0x1f4d },   { 0x1f50, 0x1f57 },   { 0x1f59, 0x1f59 },   { 0x1f5b, 0x1f5b },
    { 0x1f5d, 0x1f5d },   { 0x1f5f, 0x1f7d },   { 0x1f80, 0x1fb4 },   { 0x1fb6, 0x1fbc },
    { 0x1fbe, 0x1fbe },   { 0x1fc2, 0x1fc4 },   { 0x1fc6, 0x1fcc },   { 0x1fd0, 0x1fd3 },
    { 0x1fd6, 0x1fdb },   { 0x1fe0, 0x1fec },   { 0x1ff2, 0x1ff4 },   { 0x1ff6, 0x1ffc },
    { 0x2102, 0x2102 },   { 0x2107, 0x2107 },   { 0x210a, 0x2113 },   { 0x2115, 0x2115 },
    { 0x2119, 0x211d },   { 0x2124, 0x2124 },   { 0x2126, 0x2126 },   { 0x2128, 0x2128 },
    { 0x212a, 0x212d },   { 0x212f, 0x2134 },   { 0x2139, 0x2139 },   { 0x213c, 0x213f },
    { 0x2145, 0x2149 },   { 0x214e, 0x214e },   { 0x2183, 0x2184 },   { 0x2c00, 0x2c7b },
    { 0x2c7e, 0x2ce4 },   { 0x2ceb, 0x2cee },   { 0x2cf2, 0x2cf3 },   { 0xa640, 0xa66d },
    { 0xa680, 0xa69b },   { 0xa722, 0xa76f },   { 0xa771, 0xa787 },   { 0xa78b, 0xa78e },
    { 0xab70, 0xabbf },   { 0xfb00, 0xfb06 },   { 0xfb13, 0xfb17 },   { 0xff21, 0xff3a },
    { 0xff41, 0xff5a },   { 0x10400, 0x1044f }, { 0x104b0, 0x104d3 }, { 0x104d8, 0x104fb },
    { 0x10c80, 0x10cb2 }, { 0x10cc0, 0x10cf2 }, { 0x118a0, 0x118df }, { 0x1e900, 0x1e943 },
};

static bool is_cased(const struct look *k)
{
    return unicode_in_ranges(k->cp, cased, sizeof cased / sizeof cased[0]);
}

static bool in_set(const struct look *k, set_fn *set)
{
    return k->cls != CLASS_END && set(k);
}

/* End of the run of characters of the set that begins at pos; pos when there is none. */
static size_t run_of(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    for (;;) {
        struct look k = look_at(s, pos, end);
        if (!in_set(&k, set))
            return pos;
        pos = k.next;
    }
}

static size_t cut_run(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    size_t e = run_of(set, s, pos, end);
    if (e > pos)
        return e;
    struct look k;
    do {
        k = look_at(s, e, end);
        if (in_set(&k, set))
            return e;
        e = k.next;
    } while (e < end);
    return end;
}

static size_t cut_one(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    struct look k = look_at(s, pos, end);
    return in_set(&k, set) ? k.next : cut_run(set, s, pos, end);
}

/* S?set+ */
static size_t cut_spaced(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    struct look k = look_at(s, pos, end);
    struct look n = look_at(s, k.next, end);
    if (in_set(&k, set) || (k.cls == UNICODE_SPACE && in_set(&n, set)))
        return run_of(set, s, k.next, end);
    for (;;) {
        pos = k.next;
        k = n;
        if (k.cls == CLASS_END)
            return end;
        n = look_at(s, k.next, end);
        if (in_set(&k, set) || (k.cls == UNICODE_SPACE && in_set(&n, set)))
            return pos;
    }
}

/* S+$ : the blanks that the piece ends with. Walked from the end, so that a long piece costs
 * nothing. */
static size_t cut_tail(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    size_t tail = end;
    while (tail > pos) {
        size_t begin = tail - 1;
        while (begin > pos && tail - begin < 4 && ((unsigned char)s->text[begin] & 0xc0) == 0x80)
            begin--;
        struct look k = look_at(s, begin, tail);
        if (!set(&k) || k.next != tail)
            break;
        tail = begin;
    }
    return tail > pos ? tail : end;
}

/* [0-9][0-9][0-9] */
static size_t cut_triple(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    (void)set;
    size_t run = 0;
    for (size_t i = pos; i < end; i++) {
        s->work++;
        run = s->text[i] >= '0' && s->text[i] <= '9' ? run + 1 : 0;
        if (run == 3)
            return i - 2 == pos ? i + 1 : i - 2;
    }
    return end;
}

/* Bytes of a contraction ('s 't 'm 'd 're 've 'll) at pos, 0 when there is none. Without regard to
 * case, U+017F is an s. */
static size_t contraction(struct pretok_scan *s, size_t pos, size_t end, bool any_case)
{
    if (end - pos < 2 || s->text[pos] != '\'')
        return 0;
    char fold = any_case ? 0x20 : 0;
    char a = (char)(s->text[pos + 1] | fold);
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (end - pos < 3)
        return 0;
    if (any_case && memcmp(s->text + pos + 1, "\xc5\xbf", 2) == 0)
        return 3;
    char b = (char)(s->text[pos + 2] | fold);
    bool found = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return found ? 3 : 0;
}

/* S+(?!\S)|S+ : all blanks at the end, else all but the last of several. */
static size_t cut_blanks(struct pretok_scan *s, size_t pos, size_t end)
{
    size_t last = pos, e = pos;
    for (;;) {
        struct look k = look_at(s, e, end);
        if (k.cls != UNICODE_SPACE)
            return k.cls == CLASS_END || last == pos ? e : last;
        last = e;
        e = k.next;
    }
}

static size_t cut_gpt2(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    (void)set;
    size_t short_form = contraction(s, pos, end, false);
    if (short_form != 0)
        return pos + short_form;
    struct look k = look_at(s, pos, end);
    struct look n = k.cp == ' ' ? look_at(s, k.next, end) : k;
    if (is_letter(&n))
        return run_of(is_letter, s, n.next, end);
    if (is_number(&n))
        return run_of(is_number, s, n.next, end);
    if (is_other(&n))
        return run_of(is_other, s, n.next, end);
    return cut_blanks(s, pos, end);
}

/* S*[\r\n]+ : through the last newline of a run of blanks; pos when it has none. */
static size_t past_last_newline(struct pretok_scan *s, size_t pos, size_t end)
{
    size_t e = pos;
    for (;;) {
        struct look k = look_at(s, pos, end);
        if (k.cls != UNICODE_SPACE)
            return e;
        pos = k.next;
        if (is_newline(&k))
            e = pos;
    }
}

static size_t cut_words(unsigned digits_max, struct pretok_scan *s, size_t pos, size_t end)
{
    size_t short_form = contraction(s, pos, end, true);
    if (short_form != 0)
        return pos + short_form;
    struct look k = look_at(s, pos, end), n = look_at(s, k.next, end);
    if (is_letter(&k))
        return run_of(is_letter, s, k.next, end);
    if (is_number(&k)) {
        for (unsigned i = 1; i < digits_max && is_number(&n); i++) {
            k = n;
            n = look_at(s, k.next, end);
        }
        return k.next;
    }
    if (!is_newline(&k) && is_letter(&n))
        return run_of(is_letter, s, n.next, end);
    if (is_other(&k) || (k.cp == ' ' && is_other(&n)))
        return run_of(is_newline, s, run_of(is_other, s, k.next, end), end);
    size_t e = past_last_newline(s, pos, end);
    return e > pos ? e : cut_blanks(s, pos, end);
}

static size_t cut_llama3(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    (void)set;
    return cut_words(3, s, pos, end);
}

static size_t cut_qwen2(set_fn *set, struct pretok_scan *s, size_t pos, size_t end)
{
    (void)set;
    return cut_words(1, s, pos, end);
}

struct stage {
    size_t (*cut)(set_fn *set, struct pretok_scan *s, size_t pos, size_t end);
    set_fn *set;
};

static const struct stage stages[PRETOK_COUNT][PRETOK_STAGES_MAX] = {
    [PRETOK_DEFAULT] = { { cut_run, is_default_punct },
                         { cut_gpt2, NULL },
                         { cut_run, is_number },
                         { cut_triple, NULL } },
    [PRETOK_GPT2] = { { cut_gpt2, NULL } },
    [PRETOK_DIGITS] = { { cut_one, is_number }, { cut_gpt2, NULL } },
    [PRETOK_LLAMA3] = { { cut_llama3, NULL } },
    [PRETOK_QWEN2] = { { cut_qwen2, NULL } },
    [PRETOK_FALCON] = { { cut_run, is_falcon_punct }, { cut_gpt2, NULL }, { cut_triple, NULL } },
    [PRETOK_DEEPSEEK_LLM] = { { cut_one, is_newline },
                              { cut_spaced, is_cased },
                              { cut_spaced, is_deepseek_punct },
                              { cut_tail, is_space },
                              { cut_run, is_cjk },
                              { cut_run, is_number } },
    [PRETOK_DEEPSEEK_CODER] = { { cut_one, is_newline },
                                { cut_spaced, is_letter },
                                { cut_spaced, is_punct },
                                { cut_run, is_cjk },
                                { cut_one, is_number } },
};

void pretok_open(struct pretok_scan *s, enum pretok kind, const char *text, size_t len)
{
    must(kind < PRETOK_COUNT);
    *s = (struct pretok_scan){ .kind = kind, .text = text, .len = len };
}

bool pretok_next(struct pretok_scan *s, size_t *begin, size_t *end)
{
    if (s->pos == s->len)
        return false;
    size_t outer = s->len;
    for (unsigned i = 0; i < PRETOK_STAGES_MAX && stages[s->kind][i].cut != NULL; i++) {
        const struct stage *stage = &stages[s->kind][i];
        if (s->ends[i] <= s->pos)
            s->ends[i] = stage->cut(stage->set, s, s->pos, outer);
        must(s->ends[i] > s->pos);
        must(s->ends[i] <= outer);
        outer = s->ends[i];
    }
    *begin = s->pos;
    *end = outer;
    s->pos = outer;
    return true;
}
