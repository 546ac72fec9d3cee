/* SPDX-License-Identifier: MIT */
/* log - one line for each event, as text or JSON, built on the caller's stack and written at once.
 *   owner    struct log is filled once at start and constant from then on
 *   thread   any: a line is one write, so lines of several threads do not mix
 *   memory   none; a line has LOG_LINE_BYTES. A text that does not fit is
 *            shortened, any other field left out, and "cut" says so
 *   errors   none: a line that cannot be written is lost
 *   safety   control bytes, quotes and broken UTF-8 in values are escaped: text from outside cannot
 *            forge a line or reach a terminal. What a person wrote is logged only when the user
 *            asked for it
 *
 * text   2026-03-01T12:00:00.250Z info request_done id=7 tokens=120 model="a b"
 * json   {"time":"2026-03-01T12:00:00.250Z","level":"info","event":"request_done","id":7,...} */
#ifndef QUIRE_CORE_LOG_H
#define QUIRE_CORE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/str.h"

#define LOG_LINE_BYTES 1024u /* below PIPE_BUF: one write to a pipe is never split */

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };
enum log_format { LOG_TEXT, LOG_JSON };

struct log {
    int fd;
    enum log_level level; /* the last one that is written */
    enum log_format format;
    struct clock wall; /* microseconds since 1970: clock_wall() */
};

/* A line in the making; on the caller's stack. */
struct log_line {
    const struct log *log; /* NULL: this level is not written, and the calls below do nothing */
    size_t len;
    bool cut;
    char text[LOG_LINE_BYTES];
};

bool log_level_parse(enum log_level *out, const char *name); /* "error", "warn", "info", "debug" */

/* log_begin - opens a line for an event; event and keys are words of our own: [a-z0-9_]. */
void log_begin(struct log_line *line, const struct log *log, enum log_level level,
               const char *event);

void log_u64(struct log_line *line, const char *key, uint64_t value);
void log_f64(struct log_line *line, const char *key,
             double value); /* three decimals; null unless finite */
void log_str(struct log_line *line, const char *key, struct str value);

/* log_end - writes the line. */
void log_end(struct log_line *line);

/* log_message - a whole line with one field, "text". */
void log_message(const struct log *log, enum log_level level, const char *event, const char *text);

#endif
