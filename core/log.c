/* SPDX-License-Identifier: MIT */
/* log - lines are put together in a fixed buffer. A field is added whole or not at all: it is
 * written at the end of the line, and taken back when it ran over. Room for the closing part is
 * kept free:
 *
 *   [time level event | fields ... | TAIL_BYTES: cut mark, brace, newline]
 *
 * Only a text is shortened instead: half a message says more than none. The calendar is computed
 * here: gmtime_r may take a lock in the C library, and a line may be written while another thread
 * is stopped inside it. */
#include "core/log.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/must.h"

#define TAIL_BYTES 16u
#define PIECE_MAX 12u /* the longest escape of one step of a text */

static const char *const level_names[LOG_LEVEL_COUNT] = { "error", "warn", "info", "debug" };

bool log_level_parse(enum log_level *out, const char *name)
{
    for (unsigned i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (strcmp(level_names[i], name) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static size_t room(const struct log_line *l)
{
    return sizeof l->text - TAIL_BYTES - l->len;
}

/* Appends bytes while they fit; remembers when they did not. */
static void add(struct log_line *l, const char *bytes, size_t len)
{
    if (l->cut || len > room(l)) {
        l->cut = true;
        return;
    }
    memcpy(l->text + l->len, bytes, len);
    l->len += len;
}

ATTR_PRINTF(2, 3) static void add_format(struct log_line *l, const char *fmt, ...)
{
    char piece[96];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    must(n >= 0 && (size_t)n < sizeof piece);
    add(l, piece, (size_t)n);
}

/* Microseconds since 1970 as 2026-03-01T12:00:00.250Z. Years of 366 days begin in March here, so
 * that the odd day is the last one (days_from_civil turned round). */
static void add_time(struct log_line *l, uint64_t us)
{
    uint64_t ms = us / 1000 % 1000, seconds = us / 1000000;
    uint64_t days = seconds / 86400 + 719468; /* since 0000-03-01 */
    uint64_t era = days / 146097, day = days % 146097;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    uint64_t of_year = day - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153;
    unsigned date = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    unsigned calendar_month = (unsigned)(month < 10 ? month + 3 : month - 9);
    unsigned calendar_year = (unsigned)(year + era * 400 + (calendar_month <= 2));
    unsigned of_day = (unsigned)(seconds % 86400);
    add_format(l, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", calendar_year, calendar_month, date,
               of_day / 3600, of_day / 60 % 60, of_day % 60, (unsigned)ms);
}

static void add_escaped(struct log_line *l, uint32_t code, const char *bytes, size_t len)
{
    bool json = l->log->format == LOG_JSON;
    if (code == '"' || code == '\\')
        add_format(l, "\\%c", (char)code);
    else if (code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0) && code != 0x2028 &&
             code != 0x2029)
        add(l, bytes, len);
    else
        add_format(l, json || code > 0xff ? "\\u%04x" : "\\x%02x", code);
}

/* A quoted value; false when it had to be shortened. Broken UTF-8 is U+FFFD in JSON, which has no
 * way to carry it, and \xNN in text. */
static bool add_quoted(struct log_line *l, struct str value)
{
    size_t at = 0;
    add(l, "\"", 1);
    while (at < value.len && room(l) > PIECE_MAX) {
        const char *bytes = value.text + at;
        struct utf8_step step = utf8_decode(bytes, value.len - at);
        at += step.len;
        if (step.state == UTF8_OK)
            add_escaped(l, step.code, bytes, step.len);
        else if (l->log->format == LOG_JSON)
            add(l, "\\ufffd", 6);
        else
            for (unsigned i = 0; i < step.len; i++)
                add_format(l, "\\x%02x", (unsigned)(uint8_t)bytes[i]);
    }
    add(l, "\"", 1);
    return at == value.len;
}

static bool is_plain_word(struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c != '\0' && strchr("-_./:+,", c) != NULL);
        if (!plain)
            return false;
    }
    return value.len > 0;
}

static void add_key(struct log_line *l, const char *key)
{
    if (l->log->format == LOG_JSON)
        add_format(l, ",\"%s\":", key);
    else
        add_format(l, " %s=", key);
}

void log_begin(struct log_line *line, const struct log *log, enum log_level level,
               const char *event)
{
    line->log = level <= log->level ? log : NULL;
    line->len = 0;
    line->cut = false;
    if (line->log == NULL)
        return;
    bool json = log->format == LOG_JSON;
    add(line, "{\"time\":\"", json ? 9 : 0);
    add_time(line, clock_now_us(&log->wall));
    add_format(line, json ? "\",\"level\":\"%s\",\"event\":\"" : " %s ", level_names[level]);
    add(line, event, strlen(event));
    add(line, "\"", json ? 1 : 0);
    must(!line->cut);
}

/* Takes a field back that did not fit; later and shorter ones may still. */
static void settle(struct log_line *l, size_t before, bool cut_before)
{
    if (l->cut)
        l->len = before;
    else
        l->cut = cut_before;
}

void log_u64(struct log_line *line, const char *key, uint64_t value)
{
    if (line->log == NULL)
        return;
    size_t before = line->len;
    bool cut_before = line->cut;
    line->cut = false;
    add_key(line, key);
    add_format(line, "%llu", (unsigned long long)value);
    settle(line, before, cut_before);
}

void log_f64(struct log_line *line, const char *key, double value)
{
    if (line->log == NULL)
        return;
    size_t before = line->len;
    bool cut_before = line->cut;
    line->cut = false;
    add_key(line, key);
    if (!isfinite(value))
        add(line, "null", 4);
    else if (fabs(value) < 1e15)
        add_format(line, "%.3f", value);
    else
        add_format(line, "%.6e", value);
    settle(line, before, cut_before);
}

void log_str(struct log_line *line, const char *key, struct str value)
{
    if (line->log == NULL)
        return;
    size_t before = line->len;
    bool cut_before = line->cut;
    line->cut = false;
    add_key(line, key);
    bool whole = true;
    if (line->log->format == LOG_TEXT && value.len <= room(line) && is_plain_word(value))
        add(line, value.text, value.len);
    else
        whole = add_quoted(line, value);
    settle(line, before, cut_before || !whole);
}

void log_end(struct log_line *line)
{
    if (line->log == NULL)
        return;
    bool json = line->log->format == LOG_JSON;
    const char *tail =
        json ? (line->cut ? ",\"cut\":true}\n" : "}\n") : (line->cut ? " cut\n" : "\n");
    size_t tail_len = strlen(tail);
    must(tail_len <= TAIL_BYTES);
    memcpy(line->text + line->len, tail, tail_len);
    line->len += tail_len;
    ssize_t written;
    do
        written = write(line->log->fd, line->text, line->len);
    while (written < 0 && errno == EINTR);
    line->log = NULL;
}

void log_message(const struct log *log, enum log_level level, const char *event, const char *text)
{
    struct log_line line;
    log_begin(&line, log, level, event);
    log_str(&line, "text", str_of(text));
    log_end(&line);
}
