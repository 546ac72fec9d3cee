/* SPDX-License-Identifier: MIT */
/* answer_call - calls written as JSON.
 *
 *   <tool_call> {"name": "f", "arguments": {...}} </tool_call>     TAG ITEM .. CLOSE
 *   {"name": "f", "parameters": {...}} ; {...}                     ITEM .. MORE
 *   [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...]           NAME ITEM .. ITEM .. CLOSE
 *   [TOOL_CALLS]f[ARGS]{...}                                       NAME ARGUMENTS CLOSE
 *
 * Until a call is sure (its name is known and its arguments begin) its bytes are kept in `raw`, and
 * become content when it turns out to be none. From then on arguments go out as they come; only
 * their end is looked for, by counting brackets outside texts. */
#include <string.h>

#include "core/mem.h"
#include "frontend/api/answer_impl.h"

#define NAME_BYTES_MAX 256u
#define CALLS_MAX 128u

enum member { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGUMENTS, MEMBER_ALONE };

/* --- what all kinds of calls share --- */

enum rc answer_call_begin(struct answer *a, size_t len, enum answer_state state, bool bare)
{
    a->raw.len = 0;
    a->function.len = 0;
    a->value.len = 0;
    a->item_count = 0;
    a->committed = false;
    a->in_list = false;
    a->bare = bare;
    a->state = (int)state;
    return answer_take(a, len);
}

enum rc answer_take(struct answer *a, size_t len)
{
    enum rc rc = a->committed ? RC_OK : text_append(&a->raw, answer_pending(a), len);
    a->at += len;
    return rc;
}

enum rc answer_commit(struct answer *a)
{
    size_t bytes = sizeof *a->calls;
    struct answer_call *grown =
        mem_grow(a->calls, a->call_count * bytes, (a->call_count + 1) * bytes);
    if (grown == NULL)
        return RC_NO_MEMORY;
    a->calls = grown;
    struct answer_call *call = &a->calls[a->call_count++];
    *call = (struct answer_call){ .name = a->function };
    a->function = (struct text){ 0 };
    a->committed = true;
    a->raw.len = 0;
    return text_append(&call->arguments, "", 0);
}

static struct answer_call *last(struct answer *a)
{
    return &a->calls[a->call_count - 1];
}

enum rc answer_complete(struct answer *a)
{
    struct answer_call *call = last(a);
    call->complete = true;
    a->item_count++;
    a->done = a->config.one_call || a->call_count == CALLS_MAX;
    if (a->bare || a->config.style.calls == ANSWER_LLAMA)
        a->state = ANSWER_MORE;
    else
        a->state = a->in_list ? ANSWER_ITEM : ANSWER_CLOSE;
    return call->arguments.len == 0 ? text_append(&call->arguments, "{}", 2) : RC_OK;
}

/* The call is none: its bytes are content. */
static enum rc give_up(struct answer *a)
{
    a->state = ANSWER_TEXT;
    enum rc rc = text_append(&a->content, a->raw.data, a->raw.len);
    a->raw.len = 0;
    return rc;
}

enum rc answer_bad(struct answer *a)
{
    a->broken_count++;
    if (!a->committed && a->item_count == 0)
        return give_up(a);
    a->state = ANSWER_SKIP;
    a->done = a->config.one_call;
    return RC_OK;
}

enum rc answer_call_end(struct answer *a)
{
    if (a->state == ANSWER_CLOSE || a->state == ANSWER_MORE || a->state == ANSWER_SKIP) {
        a->state = ANSWER_TEXT;
        return RC_OK;
    }
    a->broken_count++;
    if (!a->committed && a->item_count == 0)
        return give_up(a);
    a->at = a->in.len;
    return RC_OK;
}

/* --- JSON --- */

enum scanned { SCAN_MORE, SCAN_LAST, SCAN_BEHIND, SCAN_BAD };

static enum scanned scan_string(struct answer_scan *s, char c)
{
    if (s->escaped) {
        s->escaped = false;
    } else if (c == '\\') {
        s->escaped = true;
    } else if (c == '"') {
        s->in_string = false;
        return s->depth == 0 ? SCAN_LAST : SCAN_MORE;
    }
    return SCAN_MORE;
}

static enum scanned scan_close(struct answer_scan *s, char c)
{
    if (s->depth == 0)
        return s->begun ? SCAN_BEHIND : SCAN_BAD;
    s->depth--;
    bool list = (s->lists[s->depth / 8] >> s->depth % 8 & 1) != 0;
    if (list != (c == ']'))
        return SCAN_BAD;
    return s->depth == 0 ? SCAN_LAST : SCAN_MORE;
}

/* One byte of a value: whether it is its last, or the value ended before it. */
static enum scanned scan(struct answer_scan *s, char c)
{
    if (s->in_string)
        return scan_string(s, c);
    bool literal = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   c == '+' || c == '-' || c == '.';
    if (literal) {
        s->begun = true;
        return SCAN_MORE;
    }
    if (answer_is_blank(c))
        return s->depth == 0 && s->begun ? SCAN_BEHIND : SCAN_MORE;
    if (c == '}' || c == ']')
        return scan_close(s, c);
    if (c == ',' || c == ':')
        return s->depth > 0 ? SCAN_MORE : s->begun ? SCAN_BEHIND : SCAN_BAD;
    if (s->depth == 0 && s->begun)
        return SCAN_BAD;
    s->begun = true;
    if (c == '"') {
        s->in_string = true;
        return SCAN_MORE;
    }
    if ((c != '{' && c != '[') || s->depth == 8 * sizeof s->lists)
        return SCAN_BAD;
    uint8_t bit = (uint8_t)(1u << s->depth % 8), *byte = &s->lists[s->depth / 8];
    *byte = (uint8_t)(c == '[' ? *byte | bit : *byte & ~bit);
    s->depth++;
    return SCAN_MORE;
}

/* The text of a JSON string; NULL when it is none. */
static json_t *string_of(const struct text *t)
{
    json_t *v = json_loadb(t->data, t->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json_is_string(v))
        return v;
    json_decref(v);
    return NULL;
}

static bool is_tool(const struct answer *a, const char *name, size_t len)
{
    size_t i;
    json_t *tool;
    json_array_foreach(a->config.tools, i, tool)
    {
        json_t *f = json_object_get(tool, "function");
        json_t *known = json_object_get(f != NULL ? f : tool, "name");
        if (json_is_string(known) && json_string_length(known) == len &&
            memcmp(json_string_value(known), name, len) == 0)
            return true;
    }
    return false;
}

/* Arguments that were read before the name, or that are no object: a text holds them once more. */
static enum rc use_value(struct answer *a)
{
    struct text *out = &last(a)->arguments;
    json_t *inner = string_of(&a->value);
    bool none = a->value.len == 4 && memcmp(a->value.data, "null", 4) == 0;
    enum rc rc = RC_OK;
    if (inner != NULL && json_string_length(inner) > 0)
        rc = text_append(out, json_string_value(inner), json_string_length(inner));
    else if (inner == NULL && !none)
        rc = text_append(out, a->value.data, a->value.len);
    json_decref(inner);
    a->value.len = 0;
    return rc;
}

static enum rc end_name(struct answer *a)
{
    json_t *name = string_of(&a->function);
    size_t len = json_string_length(name);
    bool good = name != NULL && len > 0 && len <= NAME_BYTES_MAX &&
                (!a->bare || is_tool(a, json_string_value(name), len));
    a->function.len = 0;
    enum rc rc = good ? text_append(&a->function, json_string_value(name), len) : RC_OK;
    json_decref(name);
    if (!good)
        return answer_bad(a);
    a->state = ANSWER_MEMBER;
    if (rc == RC_OK && a->value.len > 0) {
        rc = answer_commit(a);
        return rc == RC_OK ? use_value(a) : rc;
    }
    return rc;
}

static enum rc end_value(struct answer *a)
{
    if (a->member == MEMBER_NAME)
        return end_name(a);
    if (a->member == MEMBER_ALONE)
        return answer_complete(a);
    a->state = ANSWER_MEMBER;
    if (a->member != MEMBER_ARGUMENTS || a->committed || a->function.len == 0)
        return RC_OK;
    enum rc rc = answer_commit(a);
    return rc == RC_OK ? use_value(a) : rc;
}

/* Where a byte of a value goes. */
static enum rc keep_byte(struct answer *a, char c)
{
    if (a->member == MEMBER_NAME)
        return a->function.len <= 6 * NAME_BYTES_MAX ? text_append(&a->function, &c, 1) : RC_OK;
    if (a->member == MEMBER_OTHER)
        return RC_OK;
    bool first = a->value.len == 0 && a->scan.depth == 1 && c == '{';
    if (first && !a->committed && a->function.len > 0) {
        enum rc rc = answer_commit(a);
        if (rc != RC_OK)
            return rc;
    }
    if (!a->scan.begun)
        return RC_OK; /* blanks before it */
    return text_append(a->committed ? &last(a)->arguments : &a->value, &c, 1);
}

static enum rc step_value(struct answer *a)
{
    while (answer_left(a) > 0) {
        char c = *answer_pending(a);
        enum scanned s = scan(&a->scan, c);
        if (s == SCAN_BEHIND)
            return end_value(a);
        if (s == SCAN_BAD)
            return answer_bad(a);
        enum rc rc = answer_take(a, 1);
        if (rc == RC_OK)
            rc = keep_byte(a, c);
        if (rc != RC_OK || s == SCAN_LAST)
            return rc == RC_OK ? end_value(a) : rc;
    }
    return RC_AGAIN;
}

static bool key_is(const struct answer *a, const char *name)
{
    return a->key.len == strlen(name) && memcmp(a->key.data, name, a->key.len) == 0;
}

/* Behind the name of a member. A bare object has none but a call's. */
static enum rc end_key(struct answer *a)
{
    bool name = key_is(a, "name") || key_is(a, "function");
    bool arguments = key_is(a, "arguments") || key_is(a, "parameters");
    a->member = name ? MEMBER_NAME : arguments ? MEMBER_ARGUMENTS : MEMBER_OTHER;
    if (!name && !arguments && a->bare && !key_is(a, "type") && !key_is(a, "id"))
        return answer_bad(a);
    if ((name && (a->committed || a->function.len > 0)) ||
        (arguments && (a->committed || a->value.len > 0)))
        a->member = MEMBER_OTHER; /* the first one counts */
    a->scan = (struct answer_scan){ .depth = 0 };
    a->state = ANSWER_COLON;
    return RC_OK;
}

static enum rc step_key(struct answer *a)
{
    while (answer_left(a) > 0) {
        char c = *answer_pending(a);
        if (a->key.len > NAME_BYTES_MAX || c == '\\')
            return answer_bad(a);
        enum rc rc = answer_take(a, 1);
        if (rc != RC_OK)
            return rc;
        if (c == '"')
            return end_key(a);
        rc = text_append(&a->key, &c, 1);
        if (rc != RC_OK)
            return rc;
    }
    return RC_AGAIN;
}

/* --- between --- */

/* Reads blanks; false when nothing is behind them yet. */
static bool next_byte(struct answer *a, char *c, enum rc *rc)
{
    *rc = answer_take(a, answer_blanks(a));
    if (*rc == RC_OK && answer_left(a) == 0)
        *rc = RC_AGAIN;
    if (*rc == RC_OK)
        *c = *answer_pending(a);
    return *rc == RC_OK;
}

static enum rc take_to(struct answer *a, size_t len, enum answer_state state)
{
    a->state = (int)state;
    return answer_take(a, len);
}

static enum rc begin_object(struct answer *a)
{
    a->first_member = true;
    return take_to(a, 1, ANSWER_MEMBER);
}

/* The end of an object, whose name may be all that it has. */
static enum rc end_object(struct answer *a)
{
    enum rc rc = answer_take(a, 1);
    if (rc == RC_OK && !a->committed) {
        if (a->function.len == 0)
            return answer_bad(a);
        rc = answer_commit(a);
    }
    return rc == RC_OK ? answer_complete(a) : rc;
}

static enum rc step_member(struct answer *a, char c)
{
    if (c == '}')
        return end_object(a);
    if (c == ',' && !a->first_member)
        return answer_take(a, 1);
    if (c != '"')
        return answer_bad(a);
    a->key.len = 0;
    a->first_member = false;
    return take_to(a, 1, ANSWER_KEY);
}

static enum rc step_item(struct answer *a, char c)
{
    if (c == '{') {
        a->committed = false;
        a->raw.len = a->item_count > 0 ? 0 : a->raw.len;
        a->value.len = a->function.len = 0;
        return begin_object(a);
    }
    if (c == '[' && !a->in_list && a->config.style.calls != ANSWER_LLAMA) {
        a->in_list = true;
        return answer_take(a, 1);
    }
    if (a->in_list && a->item_count > 0 && (c == ',' || c == ']'))
        return take_to(a, 1, c == ',' ? ANSWER_ITEM : ANSWER_CLOSE);
    return answer_bad(a);
}

static enum rc step_tag(struct answer *a, char c)
{
    enum answer_match m = answer_begins(a, 0, MARK_FUNCTION);
    if (m == MATCH_PART)
        return RC_AGAIN;
    if (m == MATCH_WHOLE)
        return take_to(a, strlen(MARK_FUNCTION), ANSWER_FUNCTION);
    if (c != '{' && c != '[')
        return answer_bad(a);
    a->state = ANSWER_ITEM;
    return RC_OK;
}

/* Behind [TOOL_CALLS]: a list, or a name. */
static enum rc step_name(struct answer *a, char c)
{
    static const char *const marks[] = { "[ARGS]", "[CALL_ID]" };
    if (a->function.len == 0 && (c == '[' || c == '{')) {
        a->state = ANSWER_ITEM;
        return RC_OK;
    }
    for (int i = 0; i < 2 && c == '['; i++) {
        enum answer_match m = answer_begins(a, 0, marks[i]);
        if (m == MATCH_PART)
            return RC_AGAIN;
        if (m == MATCH_NONE)
            continue;
        enum rc rc = take_to(a, strlen(marks[i]), i == 0 ? ANSWER_ARGUMENTS : ANSWER_ID);
        return rc == RC_OK && i == 0 ? answer_commit(a) : rc;
    }
    if (c == '{') {
        a->state = ANSWER_ARGUMENTS;
        return answer_commit(a);
    }
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-' || c == '.';
    if (!good || a->function.len == NAME_BYTES_MAX)
        return answer_bad(a);
    enum rc rc = text_append(&a->function, &c, 1);
    return rc == RC_OK ? answer_take(a, 1) : rc;
}

static enum rc step_id(struct answer *a, char c)
{
    if (c == '[') {
        a->state = ANSWER_NAME;
        return RC_OK;
    }
    return answer_take(a, 1);
}

/* Arguments that stand alone. */
static enum rc step_arguments(struct answer *a, char c)
{
    if (c != '{')
        return answer_bad(a);
    a->member = MEMBER_ALONE;
    a->scan = (struct answer_scan){ .depth = 0 };
    a->state = ANSWER_VALUE;
    return RC_OK;
}

/* Behind a call in tags: its end, or one more object as some models write it. */
static enum rc step_close(struct answer *a, char c)
{
    bool tags = a->config.style.calls == ANSWER_TAGS;
    enum answer_match m = tags ? answer_begins(a, 0, MARK_TAG_END) : MATCH_NONE;
    if (m == MATCH_PART)
        return RC_AGAIN;
    if (m == MATCH_WHOLE)
        return take_to(a, strlen(MARK_TAG_END), ANSWER_TEXT);
    a->state = tags && c == '{' ? ANSWER_ITEM : ANSWER_TEXT;
    return RC_OK;
}

/* Behind a bare call: another one, after blanks or a semicolon. */
static enum rc step_more(struct answer *a)
{
    size_t n = 0;
    while (n < answer_left(a) && (answer_is_blank(answer_pending(a)[n]) ||
                                  answer_pending(a)[n] == ';' || answer_pending(a)[n] == ','))
        n++;
    if (n == answer_left(a)) {
        a->at += a->ended ? n : 0;
        return RC_AGAIN;
    }
    if (answer_pending(a)[n] == '{')
        return answer_call_begin(a, n, ANSWER_ITEM, true);
    a->state = ANSWER_TEXT;
    return RC_OK;
}

static enum rc step_skip(struct answer *a)
{
    bool tags = a->config.style.calls == ANSWER_TAGS;
    const char *mark = tags                                    ? MARK_TAG_END
                       : a->config.style.calls == ANSWER_LLAMA ? MARK_PYTHON
                                                               : MARK_MISTRAL;
    size_t at = answer_find(a, mark);
    if (at == SIZE_MAX) {
        a->at += answer_left(a) - (a->ended ? 0 : answer_tail(a, mark));
        return RC_AGAIN;
    }
    a->at += at + (tags ? strlen(mark) : 0);
    a->state = ANSWER_TEXT;
    return RC_OK;
}

/* Behind the text of a name: the colon, then the value with its own blanks. */
static enum rc step_colon(struct answer *a, char c)
{
    return c == ':' ? take_to(a, 1, ANSWER_VALUE) : answer_bad(a);
}

enum rc answer_call_step(struct answer *a)
{
    enum rc rc;
    char c;
    switch (a->state) {
    case ANSWER_KEY:
        return step_key(a);
    case ANSWER_VALUE:
        return step_value(a);
    case ANSWER_MORE:
        return step_more(a);
    case ANSWER_SKIP:
        return step_skip(a);
    case ANSWER_FUNCTION:
    case ANSWER_BODY:
    case ANSWER_PARAMETER:
    case ANSWER_CONTENT:
        return answer_parameter_step(a);
    default:
        break;
    }
    if (!next_byte(a, &c, &rc))
        return rc;
    switch (a->state) {
    case ANSWER_TAG:
        return step_tag(a, c);
    case ANSWER_NAME:
        return step_name(a, c);
    case ANSWER_ID:
        return step_id(a, c);
    case ANSWER_ARGUMENTS:
        return step_arguments(a, c);
    case ANSWER_ITEM:
        return step_item(a, c);
    case ANSWER_MEMBER:
        return step_member(a, c);
    case ANSWER_COLON:
        return step_colon(a, c);
    default:
        return step_close(a, c);
    }
}
