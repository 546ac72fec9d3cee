/* SPDX-License-Identifier: MIT */
/* answer_parameter - calls written as <function=f><parameter=p>value</parameter></function>, into
 * JSON arguments. The line ends next to the marks are not the value's. A value is a text, escaped
 * and sent as it comes, unless the function's schema says something else: then it is JSON if it can
 * be read as such, and a text if not. */
#include <string.h>

#include "frontend/api/answer_impl.h"

#define NAME_BYTES_MAX 256u
#define PARAMETER "<parameter="
#define PARAMETER_END "</parameter>"
#define FUNCTION_END "</function>"

static struct text *arguments(struct answer *a)
{
    return &a->calls[a->call_count - 1].arguments;
}

static enum rc put(struct answer *a, const char *text)
{
    return text_append(arguments(a), text, strlen(text));
}

/* Bytes as the inside of a JSON string. */
static enum rc put_escaped(struct answer *a, const char *text, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    enum rc rc = RC_OK;
    for (size_t i = 0; i < len && rc == RC_OK; i++) {
        unsigned char c = (unsigned char)text[i];
        char code[7] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0' };
        if (c == '"' || c == '\\')
            rc = text_append(arguments(a), (char[]){ '\\', (char)c }, 2);
        else if (c == '\n')
            rc = put(a, "\\n");
        else if (c < 0x20)
            rc = put(a, code);
        else
            rc = text_append(arguments(a), &text[i], 1);
    }
    return rc;
}

/* Whether the schema of the function says that a parameter is something else than a text. */
static bool is_no_text(const struct answer *a)
{
    const struct text *name = &a->calls[a->call_count - 1].name;
    size_t i;
    json_t *tool;
    json_array_foreach(a->config.tools, i, tool)
    {
        json_t *f = json_object_get(tool, "function");
        f = f != NULL ? f : tool;
        json_t *known = json_object_get(f, "name");
        if (!json_is_string(known) || strcmp(json_string_value(known), name->data) != 0)
            continue;
        json_t *schema = json_object_get(f, "parameters");
        json_t *p =
            json_object_getn(json_object_get(schema, "properties"), a->key.data, a->key.len);
        json_t *type = json_object_get(p, "type");
        return p != NULL &&
               !(json_is_string(type) && strcmp(json_string_value(type), "string") == 0);
    }
    return false;
}

static const char *lower_word(const struct text *t)
{
    static const char *const words[][2] = { { "True", "true" },
                                            { "False", "false" },
                                            { "None", "null" } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (t->len == strlen(words[i][0]) && memcmp(t->data, words[i][0], t->len) == 0)
            return words[i][1];
    return NULL;
}

/* A whole value that is no text by its schema. */
static enum rc put_value(struct answer *a)
{
    const char *word = lower_word(&a->value);
    if (word != NULL)
        return put(a, word);
    json_t *v = json_loadb(a->value.data, a->value.len, JSON_DECODE_ANY, NULL);
    if (v != NULL) {
        json_decref(v);
        return text_append(arguments(a), a->value.data, a->value.len);
    }
    enum rc rc = put(a, "\"");
    if (rc == RC_OK)
        rc = put_escaped(a, a->value.data, a->value.len);
    return rc == RC_OK ? put(a, "\"") : rc;
}

/* Reads up to and behind '>' into name; RC_AGAIN until it is there, RC_INVALID for what is none. */
static enum rc read_name(struct answer *a, struct text *name)
{
    while (answer_left(a) > 0) {
        char c = *answer_pending(a);
        if (c == '\n' || c == '<' || name->len == NAME_BYTES_MAX || (c == '>' && name->len == 0))
            return RC_INVALID;
        enum rc rc = answer_take(a, 1);
        if (rc != RC_OK || c == '>')
            return rc;
        rc = text_append(name, &c, 1);
        if (rc != RC_OK)
            return rc;
    }
    return RC_AGAIN;
}

static enum rc step_function(struct answer *a)
{
    enum rc rc = read_name(a, &a->function);
    if (rc == RC_INVALID)
        return answer_bad(a);
    if (rc == RC_OK)
        rc = answer_commit(a);
    if (rc == RC_OK)
        rc = put(a, "{");
    if (rc == RC_OK) {
        a->first_member = true;
        a->state = ANSWER_BODY;
    }
    return rc;
}

static enum rc step_body(struct answer *a)
{
    a->at += answer_blanks(a);
    if (answer_left(a) == 0)
        return RC_AGAIN;
    enum answer_match parameter = answer_begins(a, 0, PARAMETER);
    enum answer_match end = answer_begins(a, 0, FUNCTION_END);
    enum answer_match tag_end = answer_begins(a, 0, MARK_TAG_END);
    if (parameter == MATCH_WHOLE) {
        a->at += strlen(PARAMETER);
        a->key.len = 0;
        a->state = ANSWER_PARAMETER;
        return RC_OK;
    }
    if (parameter == MATCH_PART || end == MATCH_PART || tag_end == MATCH_PART)
        return RC_AGAIN;
    enum rc rc = put(a, "}");
    if (rc != RC_OK)
        return rc;
    if (end == MATCH_NONE && tag_end == MATCH_NONE)
        return answer_bad(a);
    a->at += end == MATCH_WHOLE ? strlen(FUNCTION_END) : 0;
    return answer_complete(a);
}

static enum rc step_parameter(struct answer *a)
{
    enum rc rc = read_name(a, &a->key);
    if (rc == RC_INVALID) {
        rc = put(a, "}");
        return rc == RC_OK ? answer_bad(a) : rc;
    }
    if (rc != RC_OK)
        return rc;
    rc = put(a, a->first_member ? "\"" : ", \"");
    if (rc == RC_OK)
        rc = put_escaped(a, a->key.data, a->key.len);
    if (rc == RC_OK)
        rc = put(a, is_no_text(a) ? "\": " : "\": \"");
    a->first_member = false;
    a->value.len = 0;
    a->scan = (struct answer_scan){ .depth = 0 };
    a->state = ANSWER_CONTENT;
    return rc;
}

/* Passes on the first `len` pending bytes of a value. */
static enum rc pass(struct answer *a, size_t len, bool no_text)
{
    enum rc rc = no_text ? text_append(&a->value, answer_pending(a), len)
                         : put_escaped(a, answer_pending(a), len);
    a->at += len;
    return rc;
}

static enum rc step_content(struct answer *a)
{
    bool no_text = is_no_text(a);
    if (!a->scan.begun && answer_left(a) > 0) { /* the line end behind the mark */
        a->at += *answer_pending(a) == '\n';
        a->scan.begun = true;
    }
    size_t at = answer_find(a, PARAMETER_END);
    size_t len = at != SIZE_MAX ? at : answer_left(a) - answer_tail(a, PARAMETER_END);
    if (len > 0 && answer_pending(a)[len - 1] == '\n')
        len--; /* the line end before the mark */
    size_t end = at + strlen(PARAMETER_END) - len;
    enum rc rc = pass(a, len, no_text);
    if (rc != RC_OK || at == SIZE_MAX)
        return rc == RC_OK ? RC_AGAIN : rc;
    a->at += end;
    a->state = ANSWER_BODY;
    return no_text ? put_value(a) : put(a, "\"");
}

enum rc answer_parameter_step(struct answer *a)
{
    switch (a->state) {
    case ANSWER_FUNCTION:
        return step_function(a);
    case ANSWER_BODY:
        return step_body(a);
    case ANSWER_PARAMETER:
        return step_parameter(a);
    default:
        return step_content(a);
    }
}
