/* SPDX-License-Identifier: MIT */
/* fair - whose turn it is: classes by weight, tenants by what they have used, the earliest wish
 * first.
 *   owner    the scheduler thread
 *   unit     measured microseconds of the engine, shared out to the requests of each step
 *   limits   TENANTS_MAX live tenants have accounts of their own; more share them */
#ifndef QUIRE_SCHED_FAIR_H
#define QUIRE_SCHED_FAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/request.h"

#define TENANTS_MAX 128u

enum fair_class { CLASS_INTERACTIVE, CLASS_NORMAL, CLASS_BATCH, CLASS_SPARE, CLASSES };

struct tenant {
    uint64_t id;
    uint32_t live[CLASSES]; /* requests, waiting or running */
    uint32_t running;
    uint64_t used_us[CLASSES];
    struct request *head[CLASSES], *tail[CLASSES]; /* waiting and never run, by wish and order */
};

struct fair {
    struct tenant tenants[TENANTS_MAX];
    uint32_t tenant_count; /* entries that were ever used */
    uint32_t live[CLASSES];
    uint32_t fresh[CLASSES];   /* waiting and never run */
    uint64_t used_us[CLASSES]; /* by weight */
    struct request *elder;     /* put before everybody, waiting or running; or NULL */
    struct request *paused;    /* waiting again, in no order */
    uint64_t charged_us;       /* all of it: the sum of step times */
};

struct sched;
struct plan;

/* fair_class_of - a priority as an index, best first. */
enum fair_class fair_class_of(enum priority priority);

/* fair_rank - place in the running list: 0 for the elder, else by class. */
uint32_t fair_rank(const struct request *r);

/* fair_enter / fair_leave - a request comes to life; it has ended. */
void fair_enter(struct sched *s, struct request *r);
void fair_leave(struct sched *s, struct request *r);

/* fair_push / fair_remove - it waits; it does not wait any more. */
void fair_push(struct sched *s, struct request *r);
void fair_remove(struct sched *s, struct request *r);

/* fair_demote - a waiting request whose first token is late stops hurting others. */
void fair_demote(struct sched *s, struct request *r);

/* fair_pick - who is admitted next, NULL when nobody waits. */
struct request *fair_pick(struct sched *s);

/* fair_used_us - what the tenant of r has used in r's class. */
uint64_t fair_used_us(const struct sched *s, const struct request *r);

/* fair_part - places among the running that each tenant may have when all of them want some. */
uint32_t fair_part(const struct sched *s);

/* fair_charge - shares the time of a step out to those who were in it; to the last microsecond. */
void fair_charge(struct sched *s, const struct plan *plan, uint64_t us);

#endif
