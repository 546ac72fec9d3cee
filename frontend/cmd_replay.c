/* SPDX-License-Identifier: MIT */
/* cmd_replay - `quire replay`: a log of --log-events through the scheduler once more. No model is
 * needed: the log has the tokens. Exit status 1 when a plan, or the audit, differs. */
#include <stdio.h>

#include "frontend/commands.h"
#include "frontend/options.h"
#include "sched/replay.h"

struct flags {
    const char *log;
    uint32_t audit_steps;
};

static const struct option rows[] = {
    { "--audit", OPTION_U32, offsetof(struct flags, audit_steps), 0, 0, "N", NULL,
      "look for broken invariants after every N steps; 0 = never" },
};

int cmd_replay(int argc, char **argv)
{
    struct flags f = { .audit_steps = 1 };
    struct fault fault;
    struct replay replay = { 0 };
    const struct option_group group = { NULL, rows, sizeof rows / sizeof rows[0], &f };
    struct option_set set = { .command = "replay",
                              .usage = "LOG",
                              .purpose = "Runs a log of events through the scheduler again.",
                              .groups = &group,
                              .group_count = 1,
                              .operands = &f.log,
                              .operand_max = 1 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    enum rc rc = f.log == NULL ? fault_set(&fault, RC_USAGE, "no log: quire replay LOG")
                               : replay_log(&replay, f.log, f.audit_steps, &fault);
    if (rc != RC_OK) {
        fprintf(stderr, "quire replay: %s\n", fault.text);
        return rc_exit_status(rc);
    }
    printf("%llu steps, %llu requests, %llu cancels: ", (unsigned long long)replay.steps,
           (unsigned long long)replay.requests, (unsigned long long)replay.cancels);
    if (replay.differs)
        printf("differs at step %llu: %s\n", (unsigned long long)replay.steps, replay.text);
    else
        printf("the same plans\n");
    return replay.differs ? 1 : 0;
}
