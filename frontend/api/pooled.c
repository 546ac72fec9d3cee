/* SPDX-License-Identifier: MIT */
/* pooled - one block of memory: the records, then their sums. The mean's divisor goes away in the
 * scaling to length 1, so it is never applied. */
#include "frontend/api/pooled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

enum rc pooled_open(struct pooled **out, uint32_t count, uint32_t width)
{
    size_t head = ((size_t)count * sizeof(struct pooled) + 63) / 64 * 64;
    size_t sums = (size_t)count * width * sizeof(double); /* below 2^11 * 2^18 * 2^3 */
    struct pooled *p = mem_alloc(head + sums);
    *out = p;
    if (p == NULL)
        return RC_NO_MEMORY;
    double *at = (double *)(void *)((char *)p + head);
    for (uint32_t i = 0; i < count; i++, at += width)
        p[i] = (struct pooled){ at, width };
    return RC_OK;
}

void pooled_close(struct pooled *p)
{
    mem_free(p);
}

void pooled_add(void *ctx, uint32_t position, const float *hidden)
{
    struct pooled *p = ctx;
    (void)position;
    for (uint32_t i = 0; i < p->width; i++)
        p->sums[i] += (double)hidden[i];
}

void pooled_vector(const struct pooled *p, float *out)
{
    double square = 0;
    for (uint32_t i = 0; i < p->width; i++)
        square += p->sums[i] * p->sums[i];
    double length = sqrt(square);
    for (uint32_t i = 0; i < p->width; i++)
        out[i] = length > 0 && isfinite(length) ? (float)(p->sums[i] / length) : 0.0f;
}

enum pooling pooled_default(const struct gguf *g, const struct model *m)
{
    enum { FILE_LAST = 3 };
    struct fault fault;
    uint32_t kind = 0;
    char name[96];
    snprintf(name, sizeof name, "%s.pooling_type", m->arch->name);
    bool last = gguf_find_key(g, name) != NULL &&
                gguf_get_u32(g, name, 0, UINT32_MAX, &kind, &fault) == RC_OK && kind == FILE_LAST;
    return last ? POOLING_LAST : POOLING_MEAN;
}
