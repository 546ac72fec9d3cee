/* SPDX-License-Identifier: MIT */
/* jinja_lexer - see jinja_lexer.h.
 *   L1  text up to the next {{ {% {#; a "-" behind that mark eats all blanks before it; without a
 *       sign {% and {# eat the blanks between the line's begin and themselves
 *   L2  "-" before an end mark eats all blanks behind it; without a sign %} and #} eat one newline
 *   L3  an end mark inside brackets is no end mark: {{ {'a': {}} }}
 * Nothing is copied; tokens point into the source. */
#include "frontend/jinja/jinja_lexer.h"

#include <stdbool.h>
#include <string.h>

#include "frontend/jinja/jinja_text.h"

#define BRACKETS_MAX 250u /* open at once: the parser's own limit is lower */

struct lexer {
    struct jinja_heap *heap;
    struct fault *fault;
    const char *s; /* the source */
    size_t len, at;
    uint32_t line;
    struct jinja_token *tokens;
    size_t count, capacity;
    char brackets[BRACKETS_MAX];
    size_t bracket_count;
};

static enum rc fail(struct lexer *l, const char *what, struct str which)
{
    return fault_set(l->fault, RC_INVALID, "template line %u: TemplateSyntaxError: %s%.*s", l->line,
                     what, (int)which.len, which.text == NULL ? "" : which.text);
}

static const struct str nothing = { NULL, 0 };

static enum rc add(struct lexer *l, enum jinja_token_kind kind, size_t begin, size_t end)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity == 0 ? 256 : 2 * l->capacity;
        struct jinja_token *t =
            jinja_heap_grow(l->heap, l->tokens, l->count * sizeof *t, capacity * sizeof *t);
        if (t == NULL)
            return fault_set(l->fault, l->heap->starved ? RC_NO_MEMORY : RC_LIMIT,
                             "the template needs too much memory");
        l->tokens = t;
        l->capacity = capacity;
    }
    l->tokens[l->count++] = (struct jinja_token){ kind, l->line, { l->s + begin, end - begin } };
    return RC_OK;
}

static bool is_at(const struct lexer *l, size_t at, const char *mark)
{
    size_t n = strlen(mark);
    return n <= l->len - at && memcmp(l->s + at, mark, n) == 0;
}

static size_t blank_len(const struct lexer *l, size_t at)
{
    if (at >= l->len)
        return 0;
    struct utf8_step step = utf8_decode(l->s + at, l->len - at);
    return jinja_is_blank(step.code) ? step.len : 0;
}

static size_t skip_blanks(const struct lexer *l, size_t at)
{
    for (size_t n; (n = blank_len(l, at)) > 0;)
        at += n;
    return at;
}

/* End of text begin .. end without the blanks behind it. */
static size_t cut_blanks(const struct lexer *l, size_t begin, size_t end)
{
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)l->s[at] & 0xc0) == 0x80)
            at--;
        if (blank_len(l, at) == 0)
            break;
        end = at;
    }
    return end;
}

/* Moves to `at` and counts the lines passed. */
static void go_to(struct lexer *l, size_t at)
{
    for (; l->at < at; l->at++)
        l->line += l->s[l->at] == '\n';
}

/* The text before a mark at `end`, whose sign is '-', '+' or 0. */
static enum rc add_data(struct lexer *l, size_t end, char sign, bool strips_line)
{
    size_t begin = l->at, stop = end;
    if (sign == '-') {
        stop = cut_blanks(l, begin, end);
    } else if (sign != '+' && strips_line) {
        const char *newline = memrchr(l->s + begin, '\n', end - begin);
        size_t line = newline == NULL ? begin : (size_t)(newline - l->s) + 1;
        bool at_line = newline != NULL || begin == 0 || l->s[begin - 1] == '\n';
        if (at_line && cut_blanks(l, line, end) == line)
            stop = line;
    }
    enum rc rc = stop > begin ? add(l, JINJA_TOKEN_DATA, begin, stop) : RC_OK;
    go_to(l, end);
    return rc;
}

static char sign_at(const struct lexer *l, size_t at)
{
    return at < l->len && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : '\0';
}

/* Behind an end mark of 2 bytes at `at`, whose sign stands before it. */
static size_t behind_end(const struct lexer *l, size_t at, char sign, bool trims)
{
    at += 2;
    if (sign == '-')
        return skip_blanks(l, at);
    return at + (trims && sign != '+' && at < l->len && l->s[at] == '\n');
}

static enum rc lex_comment(struct lexer *l)
{
    size_t begin = l->at + 2 + (sign_at(l, l->at + 2) != '\0');
    const char *end = begin < l->len ? memmem(l->s + begin, l->len - begin, "#}", 2) : NULL;
    if (end == NULL)
        return fail(l, "Missing end of comment tag", nothing);
    size_t at = (size_t)(end - l->s);
    char sign = at > begin ? sign_at(l, at - 1) : '\0';
    go_to(l, behind_end(l, at, sign, true));
    return RC_OK;
}

/* Whether `word` and an end mark follow {% at `at`; *behind is then behind that end mark. */
static bool is_tag(const struct lexer *l, size_t at, const char *word, bool trims, size_t *behind)
{
    at += 2;
    at = skip_blanks(l, at + (sign_at(l, at) != '\0'));
    if (!is_at(l, at, word))
        return false;
    at = skip_blanks(l, at + strlen(word));
    char sign = sign_at(l, at);
    if (sign == '+' && !trims) /* {% raw +%} is none */
        return false;
    at += sign != '\0';
    if (!is_at(l, at, "%}"))
        return false;
    *behind = behind_end(l, at, sign, trims);
    return true;
}

static enum rc lex_raw(struct lexer *l, size_t begin)
{
    go_to(l, begin);
    size_t at = begin, behind;
    for (;; at += 2) {
        const char *mark = at < l->len ? memmem(l->s + at, l->len - at, "{%", 2) : NULL;
        if (mark == NULL)
            return fail(l, "Missing end of raw directive", nothing);
        at = (size_t)(mark - l->s);
        if (is_tag(l, at, "endraw", true, &behind))
            break;
    }
    enum rc rc = add_data(l, at, sign_at(l, at + 2), true);
    go_to(l, behind);
    return rc;
}

/* --- inside {{ }} and {% %} --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them. */
static size_t skip_digits(const struct lexer *l, size_t at)
{
    while (at < l->len &&
           (is_digit(l->s[at]) || (l->s[at] == '_' && at + 1 < l->len && is_digit(l->s[at + 1]) &&
                                   is_digit(l->s[at - 1]))))
        at++;
    return at;
}

static size_t skip_based(const struct lexer *l, size_t at, const char *digits)
{
    size_t end = at;
    while (at < l->len && l->s[at] != '\0') {
        if (strchr(digits, l->s[at]) != NULL)
            end = ++at;
        else if (l->s[at] == '_' && at + 1 < l->len && l->s[at + 1] != '\0' &&
                 strchr(digits, l->s[at + 1]) != NULL)
            at++;
        else
            break;
    }
    return end;
}

static enum rc lex_number(struct lexer *l)
{
    size_t begin = l->at, end;
    char base = begin + 1 < l->len && l->s[begin] == '0' ? (char)(l->s[begin + 1] | 0x20) : '\0';
    const char *digits = base == 'b'   ? "01"
                         : base == 'o' ? "01234567"
                         : base == 'x' ? "0123456789abcdefABCDEF"
                                       : NULL;
    if (digits != NULL && (end = skip_based(l, begin + 2, digits)) > begin + 2) {
        l->at = end;
        return add(l, JINJA_TOKEN_INTEGER, begin, end);
    }
    end = skip_digits(l, begin);
    bool real = false, after_dot = begin > 0 && l->s[begin - 1] == '.';
    if (!after_dot && end + 1 < l->len && l->s[end] == '.' && is_digit(l->s[end + 1])) {
        end = skip_digits(l, end + 1);
        real = true;
    }
    if (!after_dot && end < l->len && (l->s[end] | 0x20) == 'e') {
        size_t exponent = end + 1 + (sign_at(l, end + 1) != '\0');
        if (exponent < l->len && is_digit(l->s[exponent])) {
            end = skip_digits(l, exponent);
            real = true;
        }
    }
    if (!real && l->s[begin] == '0') { /* 012 is 0 and then 12 */
        for (end = begin + 1; end < l->len && l->s[end] == '0';)
            end++;
    }
    l->at = end;
    return add(l, real ? JINJA_TOKEN_FLOAT : JINJA_TOKEN_INTEGER, begin, end);
}

static enum rc lex_string(struct lexer *l)
{
    size_t begin = l->at, at = begin + 1;
    for (; at < l->len && l->s[at] != l->s[begin]; at++)
        at += l->s[at] == '\\';
    if (at >= l->len)
        return fail(l, "a string without an end", nothing);
    enum rc rc = add(l, JINJA_TOKEN_STRING, begin, at + 1);
    go_to(l, at + 1);
    return rc;
}

static enum rc lex_name(struct lexer *l)
{
    size_t begin = l->at, end = begin;
    while (end < l->len) {
        struct utf8_step step = utf8_decode(l->s + end, l->len - end);
        if (!jinja_is_word(step.code))
            break;
        end += step.len;
    }
    if (end == begin)
        return fail(l, "unexpected character ",
                    (struct str){ l->s + begin, utf8_decode(l->s + begin, l->len - begin).len });
    l->at = end;
    return add(l, JINJA_TOKEN_NAME, begin, end);
}

static enum rc balance(struct lexer *l, char c)
{
    static const char opens[] = "{[(", closes[] = "}])";
    const char *open = strchr(opens, c), *close = strchr(closes, c);
    struct str text = { l->s + l->at, 1 };
    if (open != NULL) {
        if (l->bracket_count == BRACKETS_MAX)
            return fail(l, "brackets nested too deeply", nothing);
        l->brackets[l->bracket_count++] = closes[open - opens];
    } else if (close != NULL) {
        if (l->bracket_count == 0 || l->brackets[--l->bracket_count] != c)
            return fail(l, "unexpected ", text);
    }
    return RC_OK;
}

static enum rc lex_operator(struct lexer *l, bool *found)
{
    static const struct {
        const char *text;
        enum jinja_token_kind kind;
    } operators[] = {
        { "//", JINJA_TOKEN_FLOORDIV }, { "**", JINJA_TOKEN_POW },      { "==", JINJA_TOKEN_EQ },
        { "!=", JINJA_TOKEN_NE },       { ">=", JINJA_TOKEN_GE },       { "<=", JINJA_TOKEN_LE },
        { "+", JINJA_TOKEN_ADD },       { "-", JINJA_TOKEN_SUB },       { "/", JINJA_TOKEN_DIV },
        { "*", JINJA_TOKEN_MUL },       { "%", JINJA_TOKEN_MOD },       { "~", JINJA_TOKEN_TILDE },
        { "[", JINJA_TOKEN_LBRACKET },  { "]", JINJA_TOKEN_RBRACKET },  { "(", JINJA_TOKEN_LPAREN },
        { ")", JINJA_TOKEN_RPAREN },    { "{", JINJA_TOKEN_LBRACE },    { "}", JINJA_TOKEN_RBRACE },
        { ">", JINJA_TOKEN_GT },        { "<", JINJA_TOKEN_LT },        { "=", JINJA_TOKEN_ASSIGN },
        { ".", JINJA_TOKEN_DOT },       { ":", JINJA_TOKEN_COLON },     { "|", JINJA_TOKEN_PIPE },
        { ",", JINJA_TOKEN_COMMA },     { ";", JINJA_TOKEN_SEMICOLON },
    };
    *found = false;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!is_at(l, l->at, operators[i].text))
            continue;
        *found = true;
        enum rc rc = balance(l, l->s[l->at]);
        size_t end = l->at + strlen(operators[i].text);
        if (rc == RC_OK)
            rc = add(l, operators[i].kind, l->at, end);
        l->at = end;
        return rc;
    }
    return RC_OK;
}

/* One token of an expression; *ended when it is the end mark. */
static enum rc lex_inside(struct lexer *l, bool block, bool *ended)
{
    size_t at = skip_blanks(l, l->at);
    go_to(l, at);
    if (at == l->len)
        return fail(l, "Unexpected end of template", nothing);
    char sign = sign_at(l, at);
    bool signed_mark = block ? sign != '\0' : sign == '-';
    size_t mark = at + signed_mark;
    if (l->bracket_count == 0 && is_at(l, mark, block ? "%}" : "}}")) {
        *ended = true;
        enum rc rc = add(l, block ? JINJA_TOKEN_BLOCK_END : JINJA_TOKEN_PRINT_END, at, mark + 2);
        go_to(l, behind_end(l, mark, signed_mark ? sign : '\0', block));
        return rc;
    }
    char c = l->s[at];
    if (is_digit(c))
        return lex_number(l);
    if (c == '\'' || c == '"')
        return lex_string(l);
    bool found;
    enum rc rc = lex_operator(l, &found);
    return rc != RC_OK || found ? rc : lex_name(l);
}

/* A mark at l->at, which is {{ or {%. */
static enum rc lex_mark(struct lexer *l, bool block)
{
    enum rc rc = add(l, block ? JINJA_TOKEN_BLOCK : JINJA_TOKEN_PRINT, l->at, l->at + 2);
    l->at += 2;
    l->at += sign_at(l, l->at) != '\0';
    l->bracket_count = 0;
    for (bool ended = false; rc == RC_OK && !ended;)
        rc = lex_inside(l, block, &ended);
    return rc;
}

static size_t find_mark(const struct lexer *l)
{
    for (size_t at = l->at; at + 1 < l->len; at++) {
        const char *brace = memchr(l->s + at, '{', l->len - at - 1);
        if (brace == NULL)
            break;
        at = (size_t)(brace - l->s);
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
            return at;
    }
    return SIZE_MAX;
}

enum rc jinja_lex(struct jinja_token **out, size_t *count, struct jinja_heap *heap,
                  struct str source, struct fault *fault)
{
    struct lexer l = {
        .heap = heap, .fault = fault, .s = source.text, .len = source.len, .line = 1
    };
    enum rc rc = RC_OK;
    while (rc == RC_OK && l.at < l.len) {
        size_t mark = find_mark(&l), behind;
        if (mark == SIZE_MAX) {
            rc = add_data(&l, l.len, '+', false);
            break;
        }
        char kind = l.s[mark + 1];
        rc = add_data(&l, mark, sign_at(&l, mark + 2), kind != '{');
        if (rc != RC_OK)
            break;
        if (kind == '#')
            rc = lex_comment(&l);
        else if (kind == '%' && is_tag(&l, mark, "raw", false, &behind))
            rc = lex_raw(&l, behind);
        else
            rc = lex_mark(&l, kind == '%');
    }
    if (rc == RC_OK)
        rc = add(&l, JINJA_TOKEN_END, l.len, l.len);
    *out = l.tokens;
    *count = l.count;
    return rc;
}
