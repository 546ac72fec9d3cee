/* SPDX-License-Identifier: MIT */
/* http_head - first the end of the head is found, line by line, then the whole of it is read in one
 * go: a head is small, and a reader without states in between has nothing that could be confused.
 * Limits hold during the scan, so that nothing beyond them is ever kept. */
#include "frontend/http/http_head.h"

#include <string.h>

int http_head_scan(struct http_scan *scan, const char *bytes, size_t len, size_t *end)
{
    for (; scan->at < len; scan->at++) {
        bool first = scan->line_begin == scan->head_begin;
        if (scan->at - scan->line_begin >= HTTP_LINE_BYTES_MAX)
            return first ? 414 : 431;
        if (scan->at >= HTTP_HEAD_BYTES_MAX)
            return 431;
        if (bytes[scan->at] != '\n')
            continue;
        if (scan->at == scan->line_begin || bytes[scan->at - 1] != '\r')
            return 400; /* a bare line feed */
        bool empty = scan->at - scan->line_begin == 1;
        scan->line_begin = scan->at + 1;
        if (empty && first) {
            scan->head_begin = scan->line_begin;
        } else if (empty) {
            *end = ++scan->at;
            return 200;
        }
    }
    return 0;
}

static bool is_token_char(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_token_char((unsigned char)s.text[i]))
            return false;
    return s.len > 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool http_text_equal(struct str a, const char *b)
{
    size_t i = 0;
    for (; i < a.len && b[i] != '\0'; i++)
        if (lower(a.text[i]) != lower(b[i]))
            return false;
    return i == a.len && b[i] == '\0';
}

struct str http_field_get(const struct http_head *head, const char *name)
{
    for (uint32_t i = 0; i < head->field_count; i++)
        if (http_text_equal(head->fields[i].name, name))
            return head->fields[i].value;
    return (struct str){ 0 };
}

bool http_query_get(struct str query, const char *name, struct str *out)
{
    size_t len = strlen(name);
    struct str part;
    while (str_cut(&query, '&', &part))
        if (part.len > len && part.text[len] == '=' && memcmp(part.text, name, len) == 0) {
            *out = (struct str){ part.text + len + 1, part.len - len - 1 };
            return true;
        }
    return false;
}

int http_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool http_unescape(char *out, size_t cap, struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        int byte = (unsigned char)s.text[i];
        if (s.text[i] == '%') {
            int high = s.len - i > 2 ? http_hex_digit(s.text[i + 1]) : -1;
            int low = high >= 0 ? http_hex_digit(s.text[i + 2]) : -1;
            if (low < 0)
                return false;
            byte = high * 16 + low;
            i += 2;
        }
        if (byte == 0 || n + 1 >= cap)
            return false;
        out[n++] = (char)byte;
    }
    out[n] = '\0';
    return true;
}

static int refuse(int status, const char *text, const char **why)
{
    *why = text;
    return status;
}

static enum http_method method_of(struct str s)
{
    static const char *const names[] = { "GET", "HEAD", "POST", "OPTIONS" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (str_equal(s, str_of(names[i])))
            return (enum http_method)i;
    return HTTP_OTHER;
}

/* "/path?query", "http://host/path?query", or "*". */
static int take_target(struct http_head *h, struct str s, const char **why)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.text[i] <= ' ' || (unsigned char)s.text[i] >= 0x7f)
            return refuse(400, "the target of the request line has bytes that must be escaped",
                          why);
    static const char scheme[] = "http://";
    size_t skip = sizeof scheme - 1;
    if (s.len > skip && http_text_equal((struct str){ s.text, skip }, scheme)) {
        const char *slash = memchr(s.text + skip, '/', s.len - skip);
        size_t host_end = slash != NULL ? (size_t)(slash - s.text) : s.len;
        h->host = (struct str){ s.text + skip, host_end - skip };
        s = (struct str){ s.text + host_end, s.len - host_end };
        if (h->host.len == 0 || s.len == 0)
            return refuse(400, "the target of the request line has no host or no path", why);
    }
    bool star = s.len == 1 && s.text[0] == '*' && h->method == HTTP_OPTIONS;
    if (!star && (s.len == 0 || s.text[0] != '/'))
        return refuse(400, "the target of the request line must begin with a slash", why);
    h->query = s;
    str_cut(&h->query, '?', &h->path);
    return 200;
}

static int take_request_line(struct http_head *h, struct str line, const char **why)
{
    struct str method = { 0 }, target = { 0 };
    str_cut(&line, ' ', &method);
    str_cut(&line, ' ', &target);
    if (!is_token(method) || target.len == 0)
        return refuse(400, "the request line is not METHOD TARGET HTTP/1.1", why);
    h->method = method_of(method);
    if (str_equal(line, str_of("HTTP/1.0")))
        h->http_1_0 = true;
    else if (str_starts(line, str_of("HTTP/")) && line.len == 8 && line.text[6] == '.' &&
             !str_equal(line, str_of("HTTP/1.1")))
        return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here", why);
    else if (!str_equal(line, str_of("HTTP/1.1")))
        return refuse(400, "the request line is not METHOD TARGET HTTP/1.1", why);
    h->keep_alive = !h->http_1_0;
    return take_target(h, target, why);
}

static int take_field(struct http_head *h, struct str line, const char **why)
{
    if (line.text[0] == ' ' || line.text[0] == '\t')
        return refuse(400, "a field is folded over several lines", why);
    if (h->field_count == HTTP_FIELDS_MAX)
        return refuse(431, "too many fields", why);
    struct str value = line, name;
    bool colon = memchr(line.text, ':', line.len) != NULL;
    str_cut(&value, ':', &name);
    if (!colon || !is_token(name))
        return refuse(400, "a field is not 'name: value'", why);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.text[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return refuse(400, "a field has control bytes", why);
    }
    h->fields[h->field_count++] = (struct http_field){ name, str_trim(value) };
    return 200;
}

/* The fields that say where the request ends. */
static int take_framing(struct http_head *h, const char **why)
{
    uint32_t lengths = 0, codings = 0, hosts = 0;
    for (uint32_t i = 0; i < h->field_count; i++) {
        struct str name = h->fields[i].name, value = h->fields[i].value;
        if (http_text_equal(name, "content-length")) {
            lengths++;
            h->has_length = true;
            if (!str_parse_u64(value, 0, UINT64_MAX, &h->length))
                return refuse(400, "content-length is not a number", why);
        } else if (http_text_equal(name, "transfer-encoding")) {
            codings++;
            h->chunked = true;
            if (!http_text_equal(value, "chunked"))
                return refuse(501, "transfer-encoding: only chunked is understood", why);
        } else if (http_text_equal(name, "host")) {
            hosts++;
            if (h->host.len == 0)
                h->host = value;
        }
    }
    if (lengths > 1 || codings > 1)
        return refuse(400, "the length of the body is given twice", why);
    if (lengths == 1 && codings == 1)
        return refuse(400, "content-length and transfer-encoding exclude each other", why);
    if (codings == 1 && h->http_1_0)
        return refuse(400, "transfer-encoding is not for HTTP/1.0", why);
    if (hosts > 1 || (hosts == 0 && !h->http_1_0))
        return refuse(400, "there must be one host field", why);
    return 200;
}

static int take_connection(struct http_head *h, const char **why)
{
    for (uint32_t i = 0; i < h->field_count; i++) {
        struct str value = h->fields[i].value, part;
        if (http_text_equal(h->fields[i].name, "connection")) {
            while (str_cut(&value, ',', &part)) {
                part = str_trim(part);
                if (http_text_equal(part, "close"))
                    h->keep_alive = false;
                else if (http_text_equal(part, "keep-alive") && h->http_1_0)
                    h->keep_alive = true;
            }
        } else if (http_text_equal(h->fields[i].name, "expect") && !h->http_1_0) {
            if (!http_text_equal(value, "100-continue"))
                return refuse(417, "expect: only 100-continue is understood", why);
            h->expect_continue = true;
        }
    }
    return 200;
}

int http_head_parse(struct http_head *out, const char *bytes, size_t len, const char **why)
{
    memset(out, 0, offsetof(struct http_head, fields));
    out->field_count = 0;
    struct str rest = { bytes, len }, line;
    int status = 200;
    for (bool first = true; status == 200 && str_cut(&rest, '\n', &line); first = false) {
        if (line.len == 0 || line.text[line.len - 1] != '\r')
            return refuse(400, "a line does not end with a carriage return and a line feed", why);
        line.len--;
        if (line.len == 0)
            break;
        status = first ? take_request_line(out, line, why) : take_field(out, line, why);
    }
    if (status == 200)
        status = take_framing(out, why);
    if (status == 200)
        status = take_connection(out, why);
    return status;
}
