/* SPDX-License-Identifier: MIT */
/* input - read until the end or the limit; a signal while waiting for stdin ends the wait. */
#include "frontend/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/limits.h"
#include "core/mem.h"
#include "core/str.h"
#include "frontend/interrupt.h"

static enum rc read_all(struct text *out, int fd, const char *path, const char *flag,
                        struct fault *fault)
{
    char buffer[65536];
    enum rc rc = text_append(out, "", 0);
    while (rc == RC_OK) {
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR && interrupt_signal() == 0)
            continue;
        if (got < 0 && errno == EINTR)
            return fault_set(fault, RC_CANCELLED, "interrupted");
        if (got < 0)
            return fault_set_errno(fault, RC_IO, "%s %.100s cannot be read", flag, path);
        if (got == 0)
            return RC_OK;
        if (out->len + (size_t)got > BODY_BYTES_MAX)
            return fault_set(fault, RC_USAGE, "%s %.100s is longer than %u bytes", flag, path,
                             BODY_BYTES_MAX);
        rc = text_append(out, buffer, (size_t)got);
    }
    return fault_set(fault, rc, "out of memory");
}

enum rc input_read(struct text *out, const char *path, const char *flag, struct fault *fault)
{
    if (strcmp(path, "-") == 0 && isatty(STDIN_FILENO) == 1)
        fprintf(stderr, "%s is read from the terminal: Ctrl-D ends it\n", flag);
    if (strcmp(path, "-") == 0)
        return read_all(out, STDIN_FILENO, "stdin", flag, fault);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set_errno(fault, RC_USAGE, "%s %.100s cannot be opened", flag, path);
    enum rc rc = read_all(out, fd, path, flag, fault);
    close(fd);
    return rc;
}

enum rc input_parse_ids(int32_t **out, uint32_t *count, const struct text *text,
                        uint32_t vocab_count, const char *flag, struct fault *fault)
{
    static const char separators[] = " \t\r\n,[]";
    uint32_t room = 0;
    int32_t *ids = NULL;
    *out = NULL;
    *count = 0;
    for (const char *p = text->data + strspn(text->data, separators); *p != '\0';) {
        size_t len = strcspn(p, separators);
        uint32_t id;
        if (!str_parse_u32((struct str){ p, len }, 0, vocab_count - 1, &id)) {
            mem_free(ids);
            return fault_set(fault, RC_USAGE, "%s: '%.*s' at byte %td is no token id below %u",
                             flag, (int)(len < 40 ? len : 40), p, p - text->data, vocab_count);
        }
        if (*count == room) {
            uint32_t grown = room == 0 ? 1024 : room * 2;
            int32_t *bigger = mem_grow(ids, room * sizeof *ids, grown * sizeof *ids);
            if (bigger == NULL) {
                mem_free(ids);
                return fault_set(fault, RC_NO_MEMORY, "out of memory");
            }
            ids = bigger;
            room = grown;
        }
        ids[(*count)++] = (int32_t)id;
        p += len;
        p += strspn(p, separators);
    }
    if (*count == 0)
        return fault_set(fault, RC_USAGE, "%s has no token ids", flag);
    *out = ids;
    return RC_OK;
}
