/* SPDX-License-Identifier: MIT */
/* session - a file of [head][count, tokens, sum][count, tokens, sum] ...; each part is one write at
 * the end. Reading stops at the first part that does not have its sum. */
#include "frontend/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/limits.h"
#include "core/mem.h"

#define HEAD_MAGIC "quireSN1"
#define NAME_BYTES_MAX 64u
#define PART_TOKENS_MAX 4096u

struct head {
    char magic[8];
    struct hash model;
};

/* A part as it is in the file: count, ids, sum. */
struct part {
    uint32_t words[PART_TOKENS_MAX + 3];
};

static enum rc check_name(const char *name, struct fault *fault)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    if (len > 0 && len <= NAME_BYTES_MAX && name[0] != '.' && strspn(name, letters) == len)
        return RC_OK;
    return fault_set(fault, RC_USAGE,
                     "--session takes a name of 1 to %u letters, digits, '.', '_', '-'",
                     NAME_BYTES_MAX);
}

/* Makes every directory on the way; those that are there are fine. */
static enum rc make_directories(char *path, struct fault *fault)
{
    for (char *at = path + 1;; at++) {
        char was = *at;
        if (was != '/' && was != '\0')
            continue;
        *at = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return fault_set_errno(fault, RC_IO, "--session: %s", path);
        *at = was;
        if (was == '\0')
            return RC_OK;
    }
}

enum rc session_paths(char *session, char *blocks, const char *name, const char *model,
                      struct fault *fault)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char directory[SESSION_PATH_BYTES];
    bool own = state != NULL && state[0] == '/';
    enum rc rc = check_name(name, fault);
    if (rc != RC_OK)
        return rc;
    if (!own && (home == NULL || home[0] != '/'))
        return fault_set(fault, RC_USAGE, "--session: neither XDG_STATE_HOME nor HOME is a path");
    const char *slash = strrchr(model, '/'), *base = slash != NULL ? slash + 1 : model;
    int len = snprintf(directory, sizeof directory, "%s%s/quire", own ? state : home,
                       own ? "" : "/.local/state");
    int longer = (int)(strlen(base) > strlen(name) ? strlen(base) : strlen(name)) + 16;
    if (len < 0 || len + longer >= (int)sizeof directory)
        return fault_set(fault, RC_USAGE, "--session: the path is too long");
    snprintf(session, SESSION_PATH_BYTES, "%.*s/%s.session", len, directory, name);
    snprintf(blocks, SESSION_PATH_BYTES, "%.*s/%s.blocks", len, directory, base);
    return make_directories(directory, fault);
}

static uint64_t part_sum(const struct part *p)
{
    return hash_bytes((struct hash){ 1, 2 }, p->words, (p->words[0] + 1) * sizeof p->words[0]).a;
}

/* The next part at an offset; 0 when there is none that is whole, else its bytes. */
static size_t read_part(int fd, off_t at, struct part *p)
{
    ssize_t n = pread(fd, p, sizeof *p, at);
    if (n < (ssize_t)sizeof p->words[0] || p->words[0] == 0 || p->words[0] > PART_TOKENS_MAX)
        return 0;
    size_t bytes = (p->words[0] + 3) * sizeof p->words[0];
    uint64_t sum;
    if ((size_t)n < bytes)
        return 0;
    memcpy(&sum, &p->words[p->words[0] + 1], sizeof sum);
    return sum == part_sum(p) ? bytes : 0;
}

static enum rc read_parts(struct session *s, struct part *p, uint32_t vocab_count, off_t bytes,
                          struct fault *fault)
{
    off_t at = sizeof(struct head);
    for (size_t n; (n = read_part(s->fd, at, p)) > 0; at += (off_t)n) {
        for (uint32_t i = 1; i <= p->words[0]; i++) {
            if (p->words[i] >= vocab_count)
                return fault_set(fault, RC_USAGE, "session %s: token %u is not in the vocabulary",
                                 s->path, p->words[i]);
            if (token_list_push(&s->tokens, (int32_t)p->words[i]) != RC_OK)
                return fault_set(fault, RC_NO_MEMORY, "out of memory");
        }
    }
    if (at < bytes) {
        fprintf(stderr, "warning: session %s: the last %lld bytes are damaged and ignored\n",
                s->path, (long long)(bytes - at));
        if (ftruncate(s->fd, at) != 0)
            return fault_set_errno(fault, RC_IO, "session %s", s->path);
    }
    return lseek(s->fd, 0, SEEK_END) >= 0 ? RC_OK
                                          : fault_set_errno(fault, RC_IO, "session %s", s->path);
}

static enum rc use_file(struct session *s, struct part *p, struct hash model, uint32_t vocab_count,
                        struct fault *fault)
{
    struct stat st;
    struct head h = { .magic = HEAD_MAGIC }, found;
    h.model = model;
    if (fstat(s->fd, &st) != 0)
        return fault_set_errno(fault, RC_IO, "session %s", s->path);
    if (flock(s->fd, LOCK_EX | LOCK_NB) != 0)
        return fault_set(fault, RC_USAGE, "session %s: another process is in it", s->path);
    if (st.st_size == 0)
        return write(s->fd, &h, sizeof h) == (ssize_t)sizeof h
                   ? RC_OK
                   : fault_set_errno(fault, RC_IO, "session %s", s->path);
    if (pread(s->fd, &found, sizeof found, 0) != (ssize_t)sizeof found ||
        memcmp(found.magic, h.magic, sizeof h.magic) != 0)
        return fault_set(fault, RC_USAGE, "%s is not a session: remove it, or choose another name",
                         s->path);
    if (memcmp(&found.model, &h.model, sizeof h.model) != 0)
        return fault_set(fault, RC_USAGE, "session %s was begun with another model", s->path);
    return read_parts(s, p, vocab_count, st.st_size, fault);
}

enum rc session_open(struct session *s, const char *path, struct hash model, uint32_t vocab_count,
                     struct fault *fault)
{
    *s = (struct session){ .fd = -1 };
    snprintf(s->path, sizeof s->path, "%s", path);
    struct part *p = mem_alloc(sizeof *p);
    if (p == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum rc rc = s->fd < 0 ? fault_set_errno(fault, RC_IO, "session %s", path)
                           : use_file(s, p, model, vocab_count, fault);
    mem_free(p);
    if (rc != RC_OK)
        session_close(s);
    return rc;
}

void session_close(struct session *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    token_list_close(&s->tokens);
}

enum rc session_append(struct session *s, const int32_t *ids, uint32_t count, struct fault *fault)
{
    struct part *p = count > 0 ? mem_alloc(sizeof *p) : NULL;
    if (count > 0 && p == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    enum rc rc = RC_OK;
    for (uint32_t at = 0; at < count && rc == RC_OK; at += p->words[0]) {
        p->words[0] = count - at < PART_TOKENS_MAX ? count - at : PART_TOKENS_MAX;
        memcpy(&p->words[1], ids + at, p->words[0] * sizeof *ids);
        uint64_t sum = part_sum(p);
        memcpy(&p->words[p->words[0] + 1], &sum, sizeof sum);
        size_t bytes = (p->words[0] + 3) * sizeof p->words[0];
        if (write(s->fd, p, bytes) != (ssize_t)bytes)
            rc = fault_set_errno(fault, RC_IO, "session %s cannot be written", s->path);
    }
    mem_free(p);
    return rc;
}
