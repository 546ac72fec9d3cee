/* SPDX-License-Identifier: MIT */
/* err - texts of result codes and the filling of faults.
 * Control bytes in a fault's text are escaped here, once, so that names taken from files or
 * requests cannot forge log lines or terminal sequences anywhere else. */
#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *rc_text(enum rc code)
{
    static const char *const texts[RC_COUNT] = {
#define RC_TEXT(name, text) [name] = text,
        RC_LIST(RC_TEXT)
#undef RC_TEXT
    };
    return (unsigned)code < RC_COUNT ? texts[code] : "unknown code";
}

int rc_exit_status(enum rc code)
{
    switch ((int)code) {
    case RC_OK:
        return 0;
    case RC_USAGE:
    case RC_INVALID:
        return 2;
    case RC_CORRUPT:
    case RC_UNSUPPORTED:
        return 3;
    case RC_NO_FIT:
    case RC_NO_MEMORY:
        return 4;
    case RC_PARTIAL:
        return 5;
    case RC_STOPPED:
        return 75;
    default:
        return 1;
    }
}

/* Copies src into dst, writing control bytes as \xNN; cuts at cap. */
static void escape_text(char *dst, size_t cap, const char *src)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (; *src != '\0'; src++) {
        unsigned char c = (unsigned char)*src;
        bool plain = c >= 0x20 && c != 0x7f;
        if (n + (plain ? 1 : 4) >= cap)
            break;
        if (plain) {
            dst[n++] = (char)c;
        } else {
            dst[n++] = '\\';
            dst[n++] = 'x';
            dst[n++] = hex[c >> 4];
            dst[n++] = hex[c & 15];
        }
    }
    dst[n] = '\0';
}

ATTR_PRINTF(4, 0)
static enum rc set_text(struct fault *f, enum rc code, int os_errno, const char *fmt, va_list args)
{
    if (f == NULL)
        return code;
    char raw[sizeof f->text];
    vsnprintf(raw, sizeof raw, fmt, args);
    if (os_errno != 0) {
        size_t n = strlen(raw);
        snprintf(raw + n, sizeof raw - n, ": %s", strerror(os_errno));
    }
    f->code = code;
    f->os_errno = os_errno;
    escape_text(f->text, sizeof f->text, raw);
    return code;
}

enum rc fault_set(struct fault *f, enum rc code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_text(f, code, 0, fmt, args);
    va_end(args);
    return code;
}

enum rc fault_set_errno(struct fault *f, enum rc code, const char *fmt, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, fmt);
    set_text(f, code, saved, fmt, args);
    va_end(args);
    return code;
}
