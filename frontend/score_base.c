/* SPDX-License-Identifier: MIT */
/* score_base - see score_base.h. 16 bits a log-probability: over a range of 30 nats a step is
 * 0.0005, far below what formats differ by. */
#include "frontend/score_base.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/must.h"
#include "kernels/mathd.h"

#define MAGIC "QUIREKL1"
#define HEAD_BYTES 24u
#define STEPS 65535.0

struct score_base {
    char *path;
    int fd;
    struct score_base_subject subject;
    size_t record_bytes;
    uint64_t records_at, bytes;
    uint8_t *record; /* scratch for writing */
    uint8_t *map;    /* the file, when it is read */
    int os_errno;    /* of the first write that failed */
};

static enum rc alloc_base(struct score_base **out, const char *path,
                          const struct score_base_subject *s, struct fault *fault)
{
    struct score_base *b = mem_alloc(sizeof *b);
    if (b == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    b->fd = -1;
    b->subject = *s;
    b->record_bytes = (2 * sizeof(float) + s->vocab_count * sizeof(uint16_t) + 3) / 4 * 4;
    b->records_at = HEAD_BYTES + s->tokens->count * sizeof(int32_t);
    b->bytes = b->records_at + (uint64_t)s->position_count * b->record_bytes;
    b->path = mem_copy_text(path, strlen(path));
    b->record = mem_alloc(b->record_bytes);
    *out = b;
    if (b->path != NULL && b->record != NULL)
        return RC_OK;
    score_base_close(b);
    return fault_set(fault, RC_NO_MEMORY, "out of memory");
}

void score_base_close(struct score_base *b)
{
    if (b == NULL)
        return;
    if (b->map != NULL)
        munmap(b->map, (size_t)b->bytes);
    if (b->fd >= 0)
        close(b->fd);
    mem_free(b->record);
    mem_free(b->path);
    mem_free(b);
}

static void write_at(struct score_base *b, const void *data, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes && b->os_errno == 0) {
        ssize_t n = pwrite(b->fd, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno != EINTR)
            b->os_errno = errno;
        done += n > 0 ? (size_t)n : 0;
    }
}

static void fill_head(const struct score_base *b, uint8_t head[HEAD_BYTES])
{
    uint32_t words[4] = { b->subject.vocab_count, (uint32_t)b->subject.tokens->count,
                          b->subject.position_count, 0 };
    memcpy(head, MAGIC, 8);
    memcpy(head + 8, words, sizeof words);
}

enum rc score_base_create(struct score_base **out, const char *path,
                          const struct score_base_subject *s, struct fault *fault)
{
    struct score_base *b;
    enum rc rc = alloc_base(&b, path, s, fault);
    if (rc != RC_OK)
        return rc;
    b->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (b->fd < 0) {
        rc = fault_set_errno(fault, RC_USAGE, "--save-base %s cannot be created", path);
        score_base_close(b);
        return rc;
    }
    *out = b;
    return RC_OK;
}

/* ln of the sum of exp(logits), and the index of the largest. */
static double log_sum(const float *logits, uint32_t count, uint32_t *top)
{
    *top = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[*top])
            *top = i;
    double max = (double)logits[*top], sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)expf(logits[i] - (float)max);
    return max + mathd_log(sum);
}

void score_base_put(struct score_base *b, uint32_t index, const float *logits)
{
    must(index < b->subject.position_count);
    uint32_t top, count = b->subject.vocab_count;
    double norm = log_sum(logits, count, &top);
    float low = logits[0];
    for (uint32_t i = 1; i < count; i++)
        low = logits[i] < low ? logits[i] : low;
    double step = ((double)logits[top] - (double)low) / STEPS;
    float head[2] = { (float)((double)low - norm), (float)step };
    memcpy(b->record, head, sizeof head);
    for (uint32_t i = 0; i < count; i++) {
        double q = step > 0 ? ((double)logits[i] - (double)low) / step : 0;
        uint16_t word = (uint16_t)(q < STEPS ? q + 0.5 : STEPS);
        memcpy(b->record + sizeof head + i * sizeof word, &word, sizeof word);
    }
    write_at(b, b->record, b->record_bytes, b->records_at + index * (uint64_t)b->record_bytes);
}

enum rc score_base_finish(struct score_base *b, struct fault *fault)
{
    uint8_t head[HEAD_BYTES];
    fill_head(b, head);
    write_at(b, b->subject.tokens->ids, b->subject.tokens->count * sizeof(int32_t), HEAD_BYTES);
    write_at(b, head, sizeof head, 0); /* last of all: without it the file is none */
    if (b->os_errno == 0 && fsync(b->fd) != 0 && errno != EINVAL)
        b->os_errno = errno;
    if (b->os_errno == 0)
        return RC_OK;
    errno = b->os_errno;
    return fault_set_errno(fault, RC_IO, "--save-base %s cannot be written", b->path);
}

static enum rc check_file(struct score_base *b, struct fault *fault)
{
    uint8_t wanted[HEAD_BYTES];
    uint32_t words[4];
    struct stat st;
    if (fstat(b->fd, &st) != 0)
        return fault_set_errno(fault, RC_IO, "--base %s", b->path);
    if ((uint64_t)st.st_size < HEAD_BYTES)
        return fault_set(fault, RC_CORRUPT, "--base %s: %lld bytes are no file of --save-base",
                         b->path, (long long)st.st_size);
    uint64_t bytes = b->bytes;
    b->bytes = (uint64_t)st.st_size;
    b->map = mmap(NULL, (size_t)b->bytes, PROT_READ, MAP_SHARED, b->fd, 0);
    if (b->map == MAP_FAILED) {
        b->map = NULL;
        return fault_set_errno(fault, RC_IO, "--base %s cannot be mapped", b->path);
    }
    if (memcmp(b->map, MAGIC, 8) != 0)
        return fault_set(fault, RC_CORRUPT, "--base %s: not a file of --save-base, or one that "
                         "was not finished", b->path);
    fill_head(b, wanted);
    memcpy(words, b->map + 8, sizeof words);
    if (memcmp(wanted, b->map, HEAD_BYTES) != 0)
        return fault_set(fault, RC_USAGE,
                         "--base %s is about %u positions of %u tokens, vocabulary %u; here are %u "
                         "of %zu, %u: text, -c and --stride must be the same",
                         b->path, words[2], words[1], words[0], b->subject.position_count,
                         b->subject.tokens->count, b->subject.vocab_count);
    if (b->bytes != bytes)
        return fault_set(fault, RC_CORRUPT, "--base %s: %llu bytes, must be %llu", b->path,
                         (unsigned long long)b->bytes, (unsigned long long)bytes);
    if (memcmp(b->map + HEAD_BYTES, b->subject.tokens->ids,
               b->subject.tokens->count * sizeof(int32_t)) != 0)
        return fault_set(fault, RC_USAGE, "--base %s is about another text", b->path);
    return RC_OK;
}

enum rc score_base_open(struct score_base **out, const char *path,
                        const struct score_base_subject *s, struct fault *fault)
{
    struct score_base *b;
    enum rc rc = alloc_base(&b, path, s, fault);
    if (rc != RC_OK)
        return rc;
    b->fd = open(path, O_RDONLY | O_CLOEXEC);
    rc = b->fd < 0 ? fault_set_errno(fault, RC_USAGE, "--base %s cannot be opened", path)
                   : check_file(b, fault);
    if (rc != RC_OK) {
        score_base_close(b);
        return rc;
    }
    *out = b;
    return RC_OK;
}

struct divergence score_base_compare(const struct score_base *b, uint32_t index,
                                     const float *logits, int32_t target)
{
    must(index < b->subject.position_count);
    uint32_t top, base_top = 0, count = b->subject.vocab_count;
    must(target >= 0 && (uint32_t)target < count);
    const uint8_t *record = b->map + b->records_at + index * (uint64_t)b->record_bytes;
    double norm = log_sum(logits, count, &top), kl = 0, p_target = 0;
    float head[2];
    uint16_t best = 0;
    memcpy(head, record, sizeof head);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t word;
        memcpy(&word, record + sizeof head + i * sizeof word, sizeof word);
        float log_p = head[0] + head[1] * (float)word, log_q = logits[i] - (float)norm;
        float p = expf(log_p);
        kl += (double)(p * (log_p - log_q));
        if (word > best) {
            best = word;
            base_top = i;
        }
        if (i == (uint32_t)target)
            p_target = (double)log_p;
    }
    double q_target = (double)logits[target] - norm;
    return (struct divergence){ .kl = kl > 0 ? kl : 0,
                                .base_nll = -p_target,
                                .shift = mathd_exp(q_target) - mathd_exp(p_target),
                                .same_top = top == base_top };
}
