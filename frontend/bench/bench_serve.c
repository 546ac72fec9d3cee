/* SPDX-License-Identifier: MIT */
/* bench_serve - `quire bench serve URL`: load for any server that speaks OpenAI's completions, and
 * what its users see. Closed loop: N users, each sends its next request when the last one is
 * answered. Open loop: requests arrive at a rate, by a Poisson process, whatever the server does.
 *   prompts   common words, as many as give the wanted number of tokens by the server's own count
 *             of a first request; the first --shared of them are the same in every prompt
 *   clocks    TTFT from the first byte sent to the first text; ITL between two pieces of text;
 *             latency to the end of the answer. All requests of a level count; a level ends when
 *             its last answer is there
 *   thread    one, poll(2) */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "frontend/bench/bench.h"
#include "frontend/http/http_client.h"
#include "frontend/bench/quantiles.h"
#include "frontend/interrupt.h"
#include "frontend/options.h"

enum { USERS_MAX = 1024 };

struct serve_options {
    struct option_u32s users;
    float rate;
    uint32_t requests, prompt_tokens, new_tokens;
    float shared;
    int64_t seed;
    uint32_t api, format;
    const char *model, *api_key;
};

static const char *const apis[] = { "completions", "chat", NULL };
static const char *const formats[] = { "md", "json", "jsonl", NULL };

#define AT(member) offsetof(struct serve_options, member)
static const struct option rows[] = {
    { "--users", OPTION_U32S, AT(users), 1, USERS_MAX, "N,..", NULL,
      "closed loop: users at once, a row for each number" },
    { "--rate", OPTION_F32, AT(rate), 0, 1e6, "R", NULL,
      "open loop instead: requests a second; --users is then the most at once" },
    { "--requests", OPTION_U32, AT(requests), 1, 1000000, "N", NULL,
      "requests a row; default: 4 for each user, at least 16" },
    { "--prompt-tokens", OPTION_U32, AT(prompt_tokens), 1, 1u << 20, "N", NULL,
      "length of each prompt" },
    { "--new-tokens", OPTION_U32, AT(new_tokens), 1, 1u << 20, "N", NULL,
      "length of each answer (ignore_eos is asked for)" },
    { "--shared", OPTION_F32, AT(shared), 0, 1, "F", NULL,
      "share of each prompt, from its beginning, that is the same in all" },
    { "--api", OPTION_CHOICE, AT(api), 0, 0, "NAME", apis, "which endpoint" },
    { "--model", OPTION_TEXT, AT(model), 0, 0, "NAME", NULL, "the model field, where it matters" },
    { "--api-key", OPTION_TEXT, AT(api_key), 0, 0, "KEY", NULL, "sent as a bearer token" },
    { "-s --seed", OPTION_I64, AT(seed), 0, 0, "N", NULL, "of prompts and arrivals" },
    { "-o --output", OPTION_CHOICE, AT(format), 0, 0, "FORMAT", formats,
      "a table, one JSON array, or a JSON object a row" },
};

struct load;

/* A user's request on its way. */
struct user {
    struct load *load;
    struct http_client client;
    bool active;
    struct text line; /* of the event stream, so far */
    uint64_t begun_us, first_us, last_us;
    uint32_t pieces, tokens;
    char error[96];
};

struct load {
    const struct serve_options *o;
    struct http_url url;
    struct clock clock;
    struct rng rng;
    uint32_t words;         /* of a prompt */
    uint32_t prompt_tokens; /* as the server counts */
    struct user *users;
    uint32_t user_count, active_count;

    /* Of the level. */
    uint32_t begun, ended, failed;
    uint64_t next_us; /* open loop: next arrival */
    uint64_t tokens;
    struct quantiles ttft, itl, latency;
    char error[96]; /* the first one */
};

static const char *const words[] = {
    "time",    "year",    "people",   "way",    "day",     "man",    "thing",    "woman",
    "life",    "child",   "world",    "school", "state",   "family", "student",  "group",
    "country", "problem", "hand",     "part",   "place",   "case",   "week",     "company",
    "system",  "program", "question", "work",   "night",   "point",  "home",     "water",
    "room",    "mother",  "area",     "money",  "story",   "fact",   "month",    "lot",
    "right",   "study",   "book",     "eye",    "job",     "word",   "business", "issue",
    "side",    "kind",    "head",     "house",  "service", "friend", "father",   "power",
    "hour",    "game",    "line",     "end",    "member",  "law",    "car",      "city",
};
#define WORD_COUNT (sizeof words / sizeof words[0])

static enum rc append_words(struct text *out, struct rng *rng, uint32_t count)
{
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < count && rc == RC_OK; i++) {
        const char *word = words[rng_below(rng, WORD_COUNT)];
        rc = text_append(out, word, strlen(word));
        if (rc == RC_OK)
            rc = text_append(out, " ", 1);
    }
    return rc;
}

/* The next prompt: a shared head, then words of its own. */
static enum rc make_prompt(struct load *l, struct text *out)
{
    struct rng common = rng_seeded((uint64_t)l->o->seed);
    uint32_t head = (uint32_t)lround((double)l->o->shared * l->words);
    enum rc rc = append_words(out, &common, head);
    return rc == RC_OK ? append_words(out, &l->rng, l->words - head) : rc;
}

static int append_json(const char *data, size_t len, void *out)
{
    return text_append(out, data, len) == RC_OK ? 0 : -1;
}

static enum rc make_body(struct load *l, struct text *out, const char *prompt)
{
    const struct serve_options *o = l->o;
    json_t *body = json_pack("{s:s, s:i, s:f, s:b, s:b, s:{s:b}}", "model",
                             o->model != NULL ? o->model : "default", "max_tokens",
                             (int)o->new_tokens, "temperature", 0.0, "ignore_eos", 1, "stream", 1,
                             "stream_options", "include_usage", 1);
    int bad = body == NULL;
    if (!bad && o->api == 0)
        bad = json_object_set_new(body, "prompt", json_string(prompt));
    else if (!bad)
        bad = json_object_set_new(body, "messages",
                                  json_pack("[{s:s, s:s}]", "role", "user", "content", prompt));
    if (!bad)
        bad = json_dump_callback(body, append_json, out, JSON_COMPACT);
    json_decref(body);
    return bad ? RC_NO_MEMORY : RC_OK;
}

/* The text of a stream's chunk, in either shape; NULL when it has none. */
static const char *chunk_text(const json_t *chunk)
{
    const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text"));
    if (text == NULL) {
        const json_t *delta = json_object_get(choice, "delta");
        text = json_string_value(json_object_get(delta, "content"));
        if (text == NULL || text[0] == '\0')
            text = json_string_value(json_object_get(delta, "reasoning_content"));
    }
    return text;
}

static void take_text(struct user *u)
{
    uint64_t now = clock_now_us(&u->load->clock);
    if (u->first_us == 0) {
        u->first_us = now;
    } else if (quantiles_add(&u->load->itl, (double)(now - u->last_us) / 1e3) != RC_OK) {
        snprintf(u->error, sizeof u->error, "out of memory");
    }
    u->last_us = now;
    u->pieces++;
}

/* A line of the event stream. */
static void take_line(struct user *u, const char *line)
{
    if (strncmp(line, "data:", 5) != 0 || strstr(line, "[DONE]") != NULL)
        return;
    json_t *chunk = json_loads(line + 5, 0, NULL);
    const char *text = chunk_text(chunk);
    const json_t *usage = json_object_get(chunk, "usage");
    const json_t *error = json_object_get(chunk, "error");
    if (text != NULL && text[0] != '\0')
        take_text(u);
    if (json_is_object(usage)) {
        u->tokens = (uint32_t)json_integer_value(json_object_get(usage, "completion_tokens"));
        u->load->prompt_tokens =
            (uint32_t)json_integer_value(json_object_get(usage, "prompt_tokens"));
    }
    if (chunk == NULL || error != NULL)
        snprintf(u->error, sizeof u->error, "%.90s", line);
    json_decref(chunk);
}

static void take_bytes(void *ctx, const char *data, size_t len)
{
    struct user *u = ctx;
    for (size_t i = 0; i < len;) {
        const char *end = memchr(data + i, '\n', len - i);
        size_t part = end != NULL ? (size_t)(end - data) - i : len - i;
        if (text_append(&u->line, data + i, part) != RC_OK) {
            snprintf(u->error, sizeof u->error, "out of memory");
            return;
        }
        i += part + (end != NULL);
        if (end == NULL)
            return;
        take_line(u, u->line.data);
        u->line.len = 0;
    }
}

static enum rc begin_request(struct load *l, struct user *u)
{
    struct text prompt = { 0 }, body = { 0 };
    char headers[512] = "";
    enum rc rc = make_prompt(l, &prompt);
    if (rc == RC_OK)
        rc = make_body(l, &body, prompt.data);
    text_close(&prompt);
    if (rc != RC_OK) {
        text_close(&body);
        return rc;
    }
    if (l->o->api_key != NULL)
        snprintf(headers, sizeof headers, "Authorization: Bearer %.400s\r\n", l->o->api_key);
    *u = (struct user){ .load = l, .active = true, .line = u->line };
    u->line.len = 0;
    u->begun_us = clock_now_us(&l->clock);
    http_client_post(&u->client, &l->url,
                     l->o->api == 0 ? "/v1/completions" : "/v1/chat/completions", headers,
                     body.data, body.len, take_bytes, u);
    text_close(&body);
    l->begun++;
    l->active_count++;
    return RC_OK;
}

/* The answer is there, or will not come. */
static enum rc end_request(struct load *l, struct user *u)
{
    const struct http_client *c = &u->client;
    uint64_t now = clock_now_us(&l->clock);
    enum rc rc = RC_OK;
    if (u->error[0] == '\0' && c->state == HTTP_FAILED)
        snprintf(u->error, sizeof u->error, "%.90s", c->why);
    else if (u->error[0] == '\0' && c->status != 200)
        snprintf(u->error, sizeof u->error, "status %u: %.70s", c->status,
                 u->line.len > 0 ? u->line.data : "");
    else if (u->error[0] == '\0' && u->first_us == 0)
        snprintf(u->error, sizeof u->error, "no text in the answer");
    if (u->error[0] != '\0') {
        l->failed++;
        if (l->error[0] == '\0')
            memcpy(l->error, u->error, sizeof l->error);
    } else {
        l->tokens += u->tokens > 0 ? u->tokens : u->pieces;
        rc = quantiles_add(&l->ttft, (double)(u->first_us - u->begun_us) / 1e3);
        if (rc == RC_OK)
            rc = quantiles_add(&l->latency, (double)(now - u->begun_us) / 1e3);
    }
    http_client_close(&u->client);
    u->active = false;
    l->ended++;
    l->active_count--;
    return rc;
}

/* Starts what is due: a request for every idle user, or those that have arrived. */
static enum rc begin_due(struct load *l, uint32_t total)
{
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < l->user_count && l->begun < total && rc == RC_OK; i++) {
        if (l->users[i].active)
            continue;
        if (l->o->rate > 0) {
            if (clock_now_us(&l->clock) < l->next_us)
                break;
            l->next_us += (uint64_t)(-log(1 - rng_unit(&l->rng)) / (double)l->o->rate * 1e6);
        }
        rc = begin_request(l, &l->users[i]);
    }
    return rc;
}

static int wait_ms(const struct load *l, uint32_t total)
{
    uint64_t now = clock_now_us(&l->clock);
    if (l->o->rate <= 0 || l->begun >= total || l->active_count == l->user_count)
        return 1000;
    return l->next_us > now ? (int)((l->next_us - now) / 1000) + 1 : 0;
}

static enum rc poll_users(struct load *l, int timeout_ms)
{
    struct pollfd fds[USERS_MAX];
    uint32_t owners[USERS_MAX], count = 0;
    enum rc rc = RC_OK;
    for (uint32_t i = 0; i < l->user_count; i++) {
        const struct user *u = &l->users[i];
        if (!u->active)
            continue;
        if (u->client.state != HTTP_BUSY)
            timeout_ms = 0;
        owners[count] = i;
        fds[count++] = (struct pollfd){ u->client.fd, http_client_wants(&u->client), 0 };
    }
    if (poll(fds, count, timeout_ms) < 0 && errno != EINTR)
        return RC_IO;
    for (uint32_t i = 0; i < count && rc == RC_OK; i++) {
        struct user *u = &l->users[owners[i]];
        if (fds[i].revents != 0 || u->client.state != HTTP_BUSY)
            if (http_client_step(&u->client) != HTTP_BUSY)
                rc = end_request(l, u);
    }
    return rc;
}

static enum rc run_level(struct load *l, uint32_t total, struct fault *fault)
{
    l->next_us = clock_now_us(&l->clock);
    while (l->ended < total) {
        enum rc rc = begin_due(l, total);
        if (rc == RC_OK)
            rc = poll_users(l, wait_ms(l, total));
        if (rc == RC_OK && interrupt_signal() != 0)
            return fault_set(fault, RC_CANCELLED, "interrupted");
        if (rc != RC_OK)
            return fault_set(fault, rc, "the load cannot be kept up: %s", rc_text(rc));
    }
    return RC_OK;
}

static void clear_level(struct load *l)
{
    quantiles_close(&l->ttft);
    quantiles_close(&l->itl);
    quantiles_close(&l->latency);
    l->begun = l->ended = l->failed = 0;
    l->tokens = 0;
    l->error[0] = '\0';
}

static json_t *percentiles(struct quantiles *q)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "mean", quantiles_mean(q), "p50", quantiles_at(q, 0.5),
                     "p95", quantiles_at(q, 0.95), "p99", quantiles_at(q, 0.99));
}

/* A row as JSON. */
static json_t *level_json(struct load *l, const char *url, double seconds)
{
    const struct serve_options *o = l->o;
    double done = l->ended - l->failed;
    return json_pack(
        "{s:s, s:s, s:i, s:f, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:o, s:o, "
        "s:o}",
        "url", url, "api", apis[o->api], "users", (int)l->user_count, "rate", (double)o->rate,
        "requests", (int)l->ended, "failed", (int)l->failed, "prompt_tokens", (int)l->prompt_tokens,
        "new_tokens", (int)o->new_tokens, "shared", (double)o->shared, "seconds", seconds,
        "requests_per_s", done / seconds, "output_tps", (double)l->tokens / seconds, "total_tps",
        ((double)l->tokens + done * l->prompt_tokens) / seconds, "ttft_ms", percentiles(&l->ttft),
        "itl_ms", percentiles(&l->itl), "latency_ms", percentiles(&l->latency));
}

static void print_level(struct load *l, double seconds)
{
    printf("| %5u | %6.2f | %5u | %4u | %8.2f | %8.2f | %7.0f %7.0f %7.0f | %6.1f %6.1f %6.1f | "
           "%7.0f %7.0f |\n",
           l->user_count, (double)l->o->rate, l->ended, l->failed, (double)l->tokens / seconds,
           (l->ended - l->failed) / seconds, quantiles_at(&l->ttft, 0.5),
           quantiles_at(&l->ttft, 0.95), quantiles_at(&l->ttft, 0.99), quantiles_at(&l->itl, 0.5),
           quantiles_at(&l->itl, 0.95), quantiles_at(&l->itl, 0.99), quantiles_at(&l->latency, 0.5),
           quantiles_at(&l->latency, 0.95));
}

/* How many words give the wanted prompt: asks once with 100 and goes by the server's count. */
static enum rc calibrate(struct load *l, struct fault *fault)
{
    struct serve_options ask = *l->o;
    const struct serve_options *o = l->o;
    ask.new_tokens = 1;
    l->o = &ask;
    l->words = 100;
    l->user_count = 1;
    enum rc rc = run_level(l, 1, fault);
    l->o = o;
    if (rc == RC_OK && l->failed > 0)
        return fault_set(fault, RC_IO, "the server does not answer: %.90s", l->error);
    uint32_t counted = l->prompt_tokens > 0 ? l->prompt_tokens : 100;
    l->words = (uint32_t)((uint64_t)o->prompt_tokens * 100 / counted);
    l->words = l->words > 0 ? l->words : 1;
    clear_level(l);
    return rc;
}

static enum rc run_levels(struct load *l, const char *url, json_t *all, struct fault *fault)
{
    const struct serve_options *o = l->o;
    enum rc rc = calibrate(l, fault);
    if (rc == RC_OK && o->format == 0)
        printf("| users |   rate | reqs. | fail | output/s |  reqs./s | TTFT p50 p95 p99 ms     | "
               "ITL p50 p95 p99 ms   | latency p50 p95 |\n"
               "|-------|--------|-------|------|----------|----------|-------------------------|-"
               "---------------------|-----------------|\n");
    for (uint32_t i = 0; i < o->users.count && rc == RC_OK; i++) {
        l->user_count = o->users.items[i];
        uint32_t total = l->user_count * 4 > 16 ? l->user_count * 4 : 16;
        uint64_t begun_us = clock_now_us(&l->clock);
        rc = run_level(l, o->requests > 0 ? o->requests : total, fault);
        double seconds = (double)(clock_now_us(&l->clock) - begun_us) / 1e6;
        if (rc == RC_OK && o->format == 0)
            print_level(l, seconds);
        else if (rc == RC_OK && json_array_append_new(all, level_json(l, url, seconds)) != 0)
            rc = fault_set(fault, RC_NO_MEMORY, "out of memory");
        if (rc == RC_OK && o->format == 2) {
            json_dumpf(json_array_get(all, i), stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
            putchar('\n');
        }
        if (l->failed > 0)
            fprintf(stderr, "%u of %u requests failed; the first: %.90s\n", l->failed, l->ended,
                    l->error);
        fflush(stdout);
        clear_level(l);
    }
    return rc;
}

static enum rc run_load(const struct serve_options *o, const char *url, struct fault *fault)
{
    struct load l = { .o = o, .clock = clock_real(), .rng = rng_seeded((uint64_t)o->seed + 1) };
    enum rc rc = http_url_parse(&l.url, url, fault);
    if (rc != RC_OK)
        return rc;
    l.users = mem_alloc_array(USERS_MAX, sizeof *l.users);
    json_t *all = json_array();
    rc = l.users != NULL && all != NULL ? run_levels(&l, url, all, fault)
                                        : fault_set(fault, RC_NO_MEMORY, "out of memory");
    if (rc == RC_OK && o->format == 1 &&
        (json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) != 0 ||
         putchar('\n') == EOF || fflush(stdout) != 0))
        rc = fault_set(fault, RC_IO, "stdout cannot be written");
    for (uint32_t i = 0; l.users != NULL && i < USERS_MAX; i++) {
        if (l.users[i].active)
            http_client_close(&l.users[i].client);
        text_close(&l.users[i].line);
    }
    clear_level(&l);
    json_decref(all);
    mem_free(l.users);
    return rc;
}

int bench_serve(int argc, char **argv)
{
    struct serve_options o = {
        .users = { { 1, 8, 16 }, 3 }, .prompt_tokens = 256, .new_tokens = 64, .seed = 1
    };
    struct option_group groups[] = { { "load", rows, sizeof rows / sizeof rows[0], &o } };
    const char *words_in[1];
    struct option_set set = { "bench serve",
                              "URL [--users N,..] [--rate R]",
                              "Loads a server and measures what its users see; URL is "
                              "http://HOST:PORT or unix:PATH.",
                              groups,
                              1,
                              words_in,
                              1,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    interrupt_install();
    struct fault fault;
    enum rc rc = set.operand_count == 1
                     ? run_load(&o, words_in[0], &fault)
                     : fault_set(&fault, RC_USAGE, "a URL is missing: quire bench serve URL");
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    if (rc == RC_OK)
        return 0;
    fprintf(stderr, "quire bench serve: %s\n", fault.text);
    return rc_exit_status(rc);
}
