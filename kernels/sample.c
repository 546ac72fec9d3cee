/* SPDX-License-Identifier: MIT */
/* sample - bias and penalties on the logits, filters on the candidates, one draw.
 *
 *   scratch   items [vocab] {d, id} | mass [vocab] | heap [vocab] | seen [vocab]
 *
 * With top-k or min-p few tokens can be drawn at all: what lies clearly below is left out before
 * anything is computed of it, and the exact filters see the rest (gather). The logits pass by three
 * times, cleaned, for the largest, and for the candidates, as plain floats.
 * The candidates stand in `items` in token order from the first step to the draw, and a filter only
 * removes some of them. Each filter is a total order (key, then higher d, then lower id) and a cut
 * in it: the cut is found by partial selection, then one pass keeps what is not beyond it. So ties
 * have one answer, and sums over candidates always run in token order.
 *   1. d = (logit - largest logit) / temperature, never above 0. mass = exp(d): unnormalized
 *      probabilities whose largest is 1. Both orders of docs/SAMPLING.md are the same filters.
 *   2. `seen` is all zero between calls: who counts tokens walks the history again and clears it.
 * Sorting the whole vocabulary for top-p was refused: a histogram of the key finds the few tokens
 * among which the cut falls, and only these are ranked. */
#include "kernels/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/must.h"
#include "core/rng.h"

struct item {
    float d;
    int32_t id;
};

/* One call's view of the scratch. */
struct draw {
    struct item *items;
    float *mass;
    uint32_t *heap;
    uint32_t *seen;
    uint32_t count;
    double total; /* of mass, in token order */
};

size_t sample_scratch_bytes(uint32_t vocab_count)
{
    return (size_t)vocab_count * (sizeof(struct item) + sizeof(float) + 2 * sizeof(uint32_t));
}

static void open_draw(struct draw *w, struct sample_scratch *scratch, uint32_t vocab_count)
{
    w->items = (void *)scratch;
    w->mass = (float *)(w->items + vocab_count);
    w->heap = (uint32_t *)(w->mass + vocab_count);
    w->seen = w->heap + vocab_count;
    w->count = 0;
    w->total = 0.0;
}

/* exp of x <= 0: 2^k times a polynomial of the remainder, relative error below 6e-9. Below -80 it
 * is 0, which moves no probability that a float can hold. */
static double exp_down(double x)
{
    if (!(x > -80.0))
        return 0.0;
    int k = (int)(x * 1.4426950408889634 - 0.5);
    double r = x - k * 0.6931471805599453;
    double r2 = r * r, low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0));
    double high = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
    uint64_t bits = (uint64_t)(1023 + k) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (low + r2 * r2 * high) * scale;
}

/* Natural logarithm of a normal x > 0: the series of artanh((m-1)/(m+1)), m in [0.7, 1.42). */
static double log_own(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1022;
    bits = (bits & 0x000fffffffffffffu) | (UINT64_C(1022) << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.7071067811865476) {
        m *= 2.0;
        e--;
    }
    double s = (m - 1.0) / (m + 1.0), q = s * s, sum = 0.0;
    for (int i = 21; i >= 1; i -= 2)
        sum = sum * q + 1.0 / i;
    return e * 0.6931471805599453 + 2.0 * s * sum;
}

static bool is_allowed(const uint64_t *mask, uint32_t id)
{
    return mask == NULL || (mask[id / 64] >> (id % 64) & 1) != 0;
}

static int32_t lowest_allowed(const uint64_t *mask, uint32_t vocab_count)
{
    for (uint32_t id = 0; id < vocab_count; id++)
        if (is_allowed(mask, id))
            return (int32_t)id;
    return 0;
}

/* Forbidden tokens get -inf, everything else becomes finite. */
static float clean_logit(float x)
{
    float y = x > -INFINITY ? x : -INFINITY; /* two selections: no branch */
    return y < FLT_MAX ? y : FLT_MAX;
}

/* Cleaned logits into mass, which has no other use yet. */
static void load_logits(struct draw *w, const struct batch_output *out, const float *logits,
                        uint32_t vocab_count)
{
    for (uint32_t id = 0; id < vocab_count; id++)
        w->mass[id] = clean_logit(logits[id]);
    if (out->mask != NULL)
        for (uint32_t id = 0; id < vocab_count; id++)
            if (!is_allowed(out->mask, id))
                w->mass[id] = -INFINITY;
    for (uint32_t i = 0; i < out->sampling->bias_count; i++) {
        const struct logit_bias *b = &out->sampling->bias[i];
        w->mass[b->token] = clean_logit(w->mass[b->token] + b->bias);
    }
}

/* Repetition counts a token once however often it stands in the window; frequency and presence look
 * at the output only. */
static void apply_penalties(struct draw *w, const struct batch_output *out)
{
    const struct sampling *s = out->sampling;
    uint32_t window = s->repeat_last_n < 0 || (uint32_t)s->repeat_last_n > out->history_count
                          ? out->history_count
                          : (uint32_t)s->repeat_last_n;
    const int32_t *end = out->history + out->history_count;
    if (s->repeat_penalty != 1.0f) {
        for (const int32_t *t = end - window; t < end; t++) {
            if (w->seen[*t]++ != 0)
                continue;
            float *d = &w->mass[*t];
            *d = clean_logit(*d > 0.0f ? *d / s->repeat_penalty : *d * s->repeat_penalty);
        }
        for (const int32_t *t = end - window; t < end; t++)
            w->seen[*t] = 0;
    }
    if (s->frequency_penalty == 0.0f && s->presence_penalty == 0.0f)
        return;
    const int32_t *output = out->history + out->prompt_count;
    for (const int32_t *t = output; t < end; t++)
        w->seen[*t]++;
    for (const int32_t *t = output; t < end; t++) {
        float count = (float)w->seen[*t];
        w->seen[*t] = 0;
        if (count == 0.0f)
            continue;
        float *d = &w->mass[*t];
        *d = clean_logit(*d - count * s->frequency_penalty - s->presence_penalty);
    }
}

/* The largest logit, in chains that do not wait for each other. */
static float find_largest(const float *x, uint32_t count)
{
    enum { CHAINS = 8 };
    float largest[CHAINS];
    for (uint32_t c = 0; c < CHAINS; c++)
        largest[c] = -INFINITY;
    uint32_t i = 0;
    for (; i + CHAINS <= count; i += CHAINS)
        for (uint32_t c = 0; c < CHAINS; c++)
            largest[c] = x[i + c] > largest[c] ? x[i + c] : largest[c];
    for (; i < count; i++)
        largest[0] = x[i] > largest[0] ? x[i] : largest[0];
    for (uint32_t c = 1; c < CHAINS; c++)
        largest[0] = largest[c] > largest[0] ? largest[c] : largest[0];
    return largest[0];
}

static int32_t lowest_with(const float *x, float value)
{
    int32_t id = 0;
    while (x[id] != value)
        id++;
    return id;
}

/* d of the candidates, relative to the largest and at a temperature; never -inf: finite keys. */
static void scale_candidates(struct draw *w, float largest, double scale)
{
    for (uint32_t i = 0; i < w->count; i++) {
        double d = ((double)w->items[i].d - (double)largest) * scale;
        w->items[i].d = d < -1e30 ? -1e30f : (float)d;
    }
}

static void weigh(struct draw *w)
{
    double total = 0.0;
    for (uint32_t i = 0; i < w->count; i++) {
        w->mass[i] = (float)exp_down((double)w->items[i].d);
        total += (double)w->mass[i];
    }
    w->total = total;
}

/* The order of every filter: smaller key, then larger d, then lower id. Keys are -d (top-k, top-p)
 * or the distance from the mean surprise (typical). */
struct rank {
    float key;
    float d;
    int32_t id;
};

static bool rank_before(const struct rank *a, const struct rank *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->d != b->d)
        return a->d > b->d;
    return a->id < b->id;
}

static struct rank rank_of(const struct draw *w, uint32_t index, float centre, bool typical)
{
    float d = w->items[index].d;
    float key = typical ? fabsf(d - centre) : -d;
    return (struct rank){ key, d, w->items[index].id };
}

/* Keeps the candidates up to and with `last`; token order stays. */
static void cut_after(struct draw *w, const struct rank *last, float centre, bool typical)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct rank r = rank_of(w, i, centre, typical);
        if (!rank_before(last, &r))
            w->items[kept++] = w->items[i];
    }
    w->count = kept;
}

/* Sifts heap[at] down; the root is the first in rank, or the last when `reversed`. */
static void sift_down(const struct draw *w, uint32_t size, uint32_t at, float centre, bool typical,
                      bool reversed)
{
    uint32_t *heap = w->heap, moved = heap[at];
    struct rank mine = rank_of(w, moved, centre, typical);
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= size)
            break;
        struct rank best = rank_of(w, heap[child], centre, typical);
        if (child + 1 < size) {
            struct rank other = rank_of(w, heap[child + 1], centre, typical);
            if (rank_before(&other, &best) != reversed) {
                best = other;
                child++;
            }
        }
        if (rank_before(&mine, &best) != reversed)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void build_heap(const struct draw *w, uint32_t size, float centre, bool typical,
                       bool reversed)
{
    for (uint32_t i = size / 2; i > 0; i--)
        sift_down(w, size, i - 1, centre, typical, reversed);
}

/* A logit below which none is a candidate once `last` is the k-th largest: less by more than what
 * the scaled logits may be rounded by, so that ties which only rounding makes are seen too. */
static float limit_below(float largest, float last, double scale)
{
    double distance = (double)largest - (double)last;
    if (distance * scale > 1e29)
        return -INFINITY; /* scale_candidates makes such logits equal */
    return (float)((double)last - distance * 0x1p-20 - 1e-30);
}

/* Candidates into items, in token order: all that are not forbidden and that top-k and min-p can
 * leave, with a few others. limit: min-p's, or -inf. */
static void gather(struct draw *w, uint32_t vocab_count, uint32_t k, float limit, float largest,
                   double scale)
{
    uint32_t held = 0, count = 0;
    float last = INFINITY; /* the k-th largest so far */
    if (k >= vocab_count)
        k = 0;
    for (uint32_t id = 0; id < vocab_count; id++) {
        float x = w->mass[id];
        if (x < limit || x == -INFINITY)
            continue;
        w->items[count] = (struct item){ x, (int32_t)id };
        if (k > 0 && (held < k || x > last)) {
            uint32_t at = held < k ? held++ : 0;
            w->heap[at] = count;
            if (at + 1 == k)
                build_heap(w, k, 0.0f, false, true);
            else if (held == k)
                sift_down(w, k, 0, 0.0f, false, true);
            if (held == k) {
                last = w->items[w->heap[0]].d;
                float below = limit_below(largest, last, scale);
                limit = below > limit ? below : limit;
            }
        }
        count++;
    }
    w->count = count;
}

/* What min-p leaves lies above this, where no filter that needs the rest comes before it. */
static float limit_of_min_p(const struct sampling *s, float largest, double scale)
{
    bool first = s->order == SAMPLING_ORDER_VLLM;
    if (s->min_p <= 0.0f || (!first && (s->top_p < 1.0f || s->typical_p < 1.0f)))
        return -INFINITY;
    double distance = -log_own((double)s->min_p) / scale;
    return (float)((double)largest - distance * (1 + 0x1p-20) - 1e-30);
}

/* top-k: a heap of the k best so far, the worst at its root: most tokens cost one comparison. */
static void filter_top_k(struct draw *w, uint32_t k)
{
    if (k == 0 || k >= w->count)
        return;
    for (uint32_t i = 0; i < k; i++)
        w->heap[i] = i;
    build_heap(w, k, 0.0f, false, true);
    float worst = w->items[w->heap[0]].d;
    for (uint32_t i = k; i < w->count; i++) {
        if (w->items[i].d <= worst) /* an equal d has a higher id: it ranks behind */
            continue;
        w->heap[0] = i;
        sift_down(w, k, 0, 0.0f, false, true);
        worst = w->items[w->heap[0]].d;
    }
    struct rank last = rank_of(w, w->heap[0], 0.0f, false);
    cut_after(w, &last, 0.0f, false);
}

static float largest_d(const struct draw *w)
{
    float largest = -INFINITY;
    for (uint32_t i = 0; i < w->count; i++)
        largest = w->items[i].d > largest ? w->items[i].d : largest;
    return largest;
}

/* p >= min_p * largest p is d >= largest d + ln min_p: neither sums nor an order. */
static void filter_min_p(struct draw *w, float min_p)
{
    if (min_p <= 0.0f)
        return;
    double lowest = (double)largest_d(w) + log_own((double)min_p);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if ((double)w->items[i].d >= lowest)
            w->items[kept++] = w->items[i];
    w->count = kept;
}

/* Buckets of the key, 1/16 wide; the last one takes the rest, whose mass is below e^-63. */
enum { BUCKETS = 1024 };

static uint32_t bucket_of(const struct draw *w, uint32_t index, float centre, bool typical)
{
    float key = rank_of(w, index, centre, typical).key * 16.0f;
    return key < (float)(BUCKETS - 1) ? (uint32_t)key : BUCKETS - 1;
}

/* Needs the mass. Keeps the shortest prefix in rank order whose mass reaches share of the total
 * (passes it when `typical`): whole buckets first, then by rank inside the one that crosses. */
static void keep_mass(struct draw *w, double share, float centre, bool typical)
{
    double buckets[BUCKETS] = { 0 }, wanted = share * w->total, sum = 0.0;
    for (uint32_t i = 0; i < w->count; i++)
        buckets[bucket_of(w, i, centre, typical)] += (double)w->mass[i];
    uint32_t b = 0;
    while (b < BUCKETS && (typical ? sum + buckets[b] <= wanted : sum + buckets[b] < wanted))
        sum += buckets[b++];
    if (b == BUCKETS)
        return; /* rounding at a share next to 1: everything stays */
    uint32_t size = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (bucket_of(w, i, centre, typical) == b)
            w->heap[size++] = i;
    must(size > 0); /* only a bucket with mass can cross */
    build_heap(w, size, centre, typical, false);
    struct rank last = rank_of(w, w->heap[0], centre, typical);
    while (size > 0) {
        last = rank_of(w, w->heap[0], centre, typical);
        sum += (double)w->mass[w->heap[0]];
        if (typical ? sum > wanted : sum >= wanted)
            break;
        w->heap[0] = w->heap[--size];
        if (size > 0)
            sift_down(w, size, 0, centre, typical, false);
    }
    cut_after(w, &last, centre, typical);
}

static void filter_top_p(struct draw *w, float top_p)
{
    if (top_p >= 1.0f)
        return;
    weigh(w);
    keep_mass(w, (double)top_p, 0.0f, false);
}

/* |-ln p - H| = |d - mean of d|, since -ln p = ln Z - d and H = ln Z - mean of d: no logarithm. */
static void filter_typical(struct draw *w, float typical_p)
{
    if (typical_p >= 1.0f)
        return;
    weigh(w);
    double mean = 0.0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->mass[i] > 0.0f)
            mean += (double)w->mass[i] * (double)w->items[i].d;
    keep_mass(w, (double)typical_p, (float)(mean / w->total), true);
}

static int32_t draw_one(const struct draw *w, double unit)
{
    double wanted = unit * w->total, sum = 0.0;
    int32_t last = w->items[0].id;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->mass[i] <= 0.0f)
            continue;
        last = w->items[i].id;
        sum += (double)w->mass[i];
        if (sum > wanted)
            break;
    }
    return last;
}

int32_t sample_token(const struct batch_output *out, const float *logits, uint32_t vocab_count,
                     struct sample_scratch *scratch)
{
    const struct sampling *s = out->sampling;
    must(vocab_count > 0 && out->prompt_count <= out->history_count);
    struct draw w;
    open_draw(&w, scratch, vocab_count);
    load_logits(&w, out, logits, vocab_count);
    apply_penalties(&w, out);
    float largest = find_largest(w.mass, vocab_count);
    if (largest == -INFINITY)
        return lowest_allowed(out->mask, vocab_count);
    if (s->temperature < 1e-5f)
        return lowest_with(w.mass, largest);
    double heat = 1.0 / (double)s->temperature;
    bool hot_first = s->order == SAMPLING_ORDER_VLLM;
    double scale = hot_first ? heat : 1.0;
    gather(&w, vocab_count, s->top_k, limit_of_min_p(s, largest, scale), largest, scale);
    scale_candidates(&w, largest, scale);
    if (hot_first) {
        filter_min_p(&w, s->min_p);
        filter_top_k(&w, s->top_k);
        filter_top_p(&w, s->top_p);
        filter_typical(&w, s->typical_p);
    } else {
        filter_top_k(&w, s->top_k);
        filter_typical(&w, s->typical_p);
        filter_top_p(&w, s->top_p);
        filter_min_p(&w, s->min_p);
        scale_candidates(&w, largest_d(&w), heat); /* typical may have dropped the best one */
    }
    must(w.count > 0);
    weigh(&w);
    return draw_one(&w, rng_unit_at(s->seed, s->choice, out->history_count));
}
