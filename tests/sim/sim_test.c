/* SPDX-License-Identifier: MIT */
/* sim_test - the short simulation of `make test`, and with flags the long one:
 *   sim_test --seed N --seconds S [--seeds N] [--steps N] [--audit N] [--fixed] [--log]
 * runs seeds N, N+1, ... for S seconds, or so many of them. A broken rule prints the seed, the
 * rule, the fewest events that it takes, and the last plans. */
#include "tests/unit/test.h"

#include <time.h>

#include "tests/sim/sim.h"

#define STEPS_A_SEED 3000u
#define SUITE_SECONDS 15.0
#define EVENTS_SHOWN 100000u
#define LOG_STEPS 12u

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs the broken seed again, with as few events as will do, and prints it as a line for
 * tests/sim/seeds and as plans in words. */
static void print_violation(const struct sim_options *options, const struct sim_outcome *outcome)
{
    static uint64_t events[EVENTS_SHOWN];
    struct sim_options again = *options;
    struct sim_outcome shrunk, ignored;
    printf("# seed %llu, step %llu: %s\n", (unsigned long long)options->seed,
           (unsigned long long)outcome->steps, outcome->violation.text);
    fflush(stdout);
    if (options->only == NULL && sim_shrink(&shrunk, options, events, EVENTS_SHOWN)) {
        printf("# %u of %u events will do:\n%llu %llu %u only", shrunk.event_count,
               outcome->event_count, (unsigned long long)options->seed,
               (unsigned long long)options->steps, options->audit_every);
        for (uint32_t i = 0; i < shrunk.event_count; i++)
            printf(" %llu", (unsigned long long)events[i]);
        printf("\n");
        again.only = events;
        again.only_count = shrunk.event_count;
    }
    (void)sim_run(&shrunk, &again);
    again.log = stdout;
    again.log_from = shrunk.steps > LOG_STEPS ? shrunk.steps - LOG_STEPS : 0;
    if (sim_run(&ignored, &again))
        printf("# the second run of the seed went well: it is not a function of its seed\n");
}

static bool run_options(const struct sim_options *options, uint64_t *steps)
{
    struct sim_outcome outcome;
    bool whole = sim_run(&outcome, options);
    *steps += outcome.steps;
    if (!whole)
        print_violation(options, &outcome);
    return whole;
}

/* The suite's share of the simulation: fresh worlds for some seconds of this core's time. */
static void test_seeds_keep_every_rule(void **state)
{
    (void)state;
    uint64_t steps = 0, seed = 1;
    for (double end = now_s(CLOCK_PROCESS_CPUTIME_ID) + SUITE_SECONDS;
         seed <= 10 || now_s(CLOCK_PROCESS_CPUTIME_ID) < end; seed++) {
        struct sim_options options = { .seed = seed, .steps = STEPS_A_SEED, .audit_every = 1 };
        assert_true(run_options(&options, &steps));
    }
    printf("# %llu steps of %llu seeds\n", (unsigned long long)steps, (unsigned long long)seed);
    assert_true(steps > seed * 100);
}

/* Worlds that were broken once, with the few events that it took: tests/sim/seeds. */
static void test_seeds_of_the_past_stay_whole(void **state)
{
    (void)state;
    static uint64_t events[EVENTS_SHOWN];
    char line[65536];
    uint64_t steps = 0, count = 0;
    FILE *f = fopen("tests/sim/seeds", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        struct sim_options o = { 0 };
        char *at = line;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        o.seed = strtoull(at, &at, 10);
        o.steps = strtoull(at, &at, 10);
        o.audit_every = (uint32_t)strtoul(at, &at, 10);
        if (strncmp(at, " only", 5) == 0) {
            at += 5;
            o.only = events;
            for (char *end; o.only_count < EVENTS_SHOWN; at = end) {
                events[o.only_count] = strtoull(at, &end, 10);
                if (end == at)
                    break;
                o.only_count++;
            }
        }
        assert_true(o.steps > 0);
        assert_true(run_options(&o, &steps));
        count++;
    }
    assert_int_equal(fclose(f), 0);
    assert_true(count > 0);
}

/* The simulator itself must see what it looks for: a world where nothing happens would pass
 * everything. */
static void test_seeds_reach_every_corner(void **state)
{
    (void)state;
    struct sim_outcome sum = { 0 };
    for (uint64_t seed = 100; seed < 220; seed++) {
        struct sim_options options = { .seed = seed, .steps = 1500, .audit_every = 16 };
        struct sim_outcome o;
        assert_true(sim_run(&o, &options));
        sum.finished += o.finished;
        sum.cancelled += o.cancelled;
        sum.failed += o.failed;
        sum.refused += o.refused;
        sum.preemptions += o.preemptions;
        sum.cached_tokens += o.cached_tokens;
        sum.writes += o.writes;
        sum.reads += o.reads;
        sum.pinned += o.pinned;
    }
    printf("# %llu finished, %llu cancelled, %llu failed, %llu refused, %llu preemptions, "
           "%llu tokens cached, %llu blocks written, %llu read, %llu prompts pinned\n",
           (unsigned long long)sum.finished, (unsigned long long)sum.cancelled,
           (unsigned long long)sum.failed, (unsigned long long)sum.refused,
           (unsigned long long)sum.preemptions, (unsigned long long)sum.cached_tokens,
           (unsigned long long)sum.writes, (unsigned long long)sum.reads,
           (unsigned long long)sum.pinned);
    assert_true(sum.finished > 500 && sum.cancelled > 50 && sum.failed > 50);
    assert_true(sum.refused > 50 && sum.preemptions > 100);
    assert_true(sum.cached_tokens > 10000 && sum.writes > 20 && sum.reads > 5);
    assert_true(sum.pinned > 50);
}

static void test_a_seed_is_one_run(void **state)
{
    (void)state;
    struct sim_options options = { .seed = 7, .steps = 500, .audit_every = 1 };
    struct sim_outcome a, b;
    assert_true(sim_run(&a, &options));
    assert_true(sim_run(&b, &options));
    assert_memory_equal(&a, &b, sizeof a);
}

static int run_long(int argc, char **argv)
{
    struct sim_options options = { .seed = 1, .steps = 20000, .audit_every = 1 };
    double seconds = 10;
    uint64_t most = UINT64_MAX;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--seeds") == 0)
            most = strtoull(value, NULL, 10), seconds = 1e9;
        else if (strcmp(argv[i], "--steps") == 0)
            options.steps = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--audit") == 0)
            options.audit_every = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--fixed") == 0)
            options.fixed = true;
        else if (strcmp(argv[i], "--log") == 0)
            options.log = stdout;
    }
    double start = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_PROCESS_CPUTIME_ID), best = 0;
    uint64_t steps = 0, violations = 0, seeds = 0, finished = 0, preemptions = 0, cached = 0;
    uint64_t writes = 0, reads = 0;
    do {
        struct sim_outcome outcome;
        double begin = now_s(CLOCK_PROCESS_CPUTIME_ID);
        if (!sim_run(&outcome, &options)) {
            violations++;
            print_violation(&options, &outcome);
        }
        double speed = (double)outcome.steps / (now_s(CLOCK_PROCESS_CPUTIME_ID) - begin);
        best = speed > best ? speed : best;
        steps += outcome.steps;
        finished += outcome.finished;
        preemptions += outcome.preemptions;
        cached += outcome.cached_tokens;
        writes += outcome.writes;
        reads += outcome.reads;
        options.seed++;
        seeds++;
    } while (now_s(CLOCK_MONOTONIC) - start < seconds && violations < 10 && seeds < most);
    printf("seeds %llu finished %llu preemptions %llu cached %llu steps per cpu second %.0f, "
           "of the fastest seed %.0f\n",
           (unsigned long long)seeds, (unsigned long long)finished, (unsigned long long)preemptions,
           (unsigned long long)cached, (double)steps / (now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu),
           best);
    printf("blocks written %llu, read %llu\n", (unsigned long long)writes,
           (unsigned long long)reads);
    printf("steps %llu violations %llu\n", (unsigned long long)steps,
           (unsigned long long)violations);
    return violations > 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_long(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds_of_the_past_stay_whole),
        cmocka_unit_test(test_seeds_keep_every_rule),
        cmocka_unit_test(test_seeds_reach_every_corner),
        cmocka_unit_test(test_a_seed_is_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
