/* SPDX-License-Identifier: MIT */
/* jinja_run - one render: its memory, its remaining steps, its error, and the machine's stacks.
 *   owner    jinja_render; one thread
 *   errors   jinja_fail records the first failure and returns false, which everybody hands on */
#ifndef QUIRE_FRONTEND_JINJA_JINJA_RUN_H
#define QUIRE_FRONTEND_JINJA_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attr.h"
#include "core/err.h"
#include "frontend/jinja/jinja.h"
#include "frontend/jinja/jinja_code.h"
#include "frontend/jinja/jinja_heap.h"
#include "frontend/jinja/jinja_text.h"
#include "frontend/jinja/jinja_value.h"

struct jinja_variable_slot {
    uint32_t name;
    struct jinja_value value;
};

/* Variables of a loop, a macro, a block. The outermost scope is run.root, not one of these. */
struct jinja_scope {
    struct jinja_scope *parent; /* NULL: the root */
    struct jinja_variable_slot *slots;
    uint32_t count, capacity;
};

/* State of a for loop, which `loop` shows to the template.
 * A loop with a test runs in one of two ways: each item is tested when its turn comes, or, where
 * the template looks ahead (loop.last, loop.length ..), all are tested first. */
struct jinja_loop {
    struct jinja_loop *outer; /* the loop around it in the same macro */
    struct jinja_seq *items;
    size_t next;     /* item to take */
    size_t index0;   /* of the current iteration, valid while started */
    size_t kept;     /* items that passed while testing ahead */
    bool started;    /* an iteration has begun */
    bool completed;  /* one came to its end, without break or continue */
    bool testing;    /* testing ahead is going on */
    bool tested;     /* items are those that passed */
    uint32_t depth0; /* of recursion */
    struct jinja_value before, current, changed;
    const struct jinja_op *head;       /* its FOR */
    const struct jinja_op *next_op;    /* its NEXT */
    struct jinja_scope *scope;         /* of the body */
    size_t stack_count, capture_count; /* as they were before the body */
};

enum jinja_frame_kind { JINJA_FRAME_MACRO, JINJA_FRAME_LOOP };

/* A macro or a recursive loop that was called from an expression. */
struct jinja_frame {
    enum jinja_frame_kind kind;
    const struct jinja_op *back; /* the instruction after the call */
    struct jinja_scope *scope;   /* the caller's */
    struct jinja_loop *loop;
    const struct jinja_op *head; /* of a loop: its FOR */
    size_t stack_count;          /* without the arguments */
};

struct jinja_run {
    const struct jinja *j;
    const struct jinja_options *options;
    struct jinja_heap heap;
    struct fault *fault;
    enum rc rc; /* RC_OK until something fails */
    uint64_t steps_max, steps_left;
    size_t text_bytes_max;
    uint32_t line;         /* of the current instruction */
    uint32_t native_depth; /* filters called by filters */

    struct jinja_value *stack;
    size_t stack_count, stack_capacity;
    struct jinja_value *root; /* by name: the variables outside every scope */
    struct jinja_scope *scope;
    struct jinja_loop *loop;
    struct jinja_frame *frames;
    size_t frame_count, frame_capacity;
    struct jinja_builder *captures; /* the last one takes the output; the first is the render's */
    size_t capture_count, capture_capacity;
};

/* jinja_fail - RC_INVALID with the line and "Kind: message"; false. */
ATTR_COLD bool jinja_fail(struct jinja_run *r, const char *fmt, ...) ATTR_PRINTF(2, 3);

/* jinja_fail_limit - RC_LIMIT. jinja_fail_undefined - the error that using v raises. */
ATTR_COLD bool jinja_fail_limit(struct jinja_run *r, const char *fmt, ...) ATTR_PRINTF(2, 3);
ATTR_COLD bool jinja_fail_undefined(struct jinja_run *r, struct jinja_value v);

/* jinja_spend - takes steps; false when there are not so many. */
bool jinja_spend(struct jinja_run *r, uint64_t steps) ATTR_MUST_USE;

/* Steps that the decimal digits of a float cost, beside their number: exact ones take long sums. */
#define JINJA_DECIMAL_STEPS 64u

/* jinja_take - memory of the run; NULL, and the run has failed, when there is none. */
void *jinja_take(struct jinja_run *r, size_t count, size_t size) ATTR_MUST_USE;

/* jinja_room - makes an array of the run hold one more; capacity is its field. */
bool jinja_room(struct jinja_run *r, void *array, size_t count, size_t *capacity,
                size_t size) ATTR_MUST_USE;

/* jinja_execute - runs the template; its output is captures[0]. */
bool jinja_execute(struct jinja_run *r) ATTR_MUST_USE;

/* Arguments of a call, sorted out: positional ones, then keywords. */
struct jinja_args {
    const struct jinja_value *items;
    size_t count;
    const struct jinja_pair *named; /* keys are texts */
    size_t named_count;
};

/* jinja_call_builtin - calls a function, method, cycler or joiner, everything but macros and
 * recursive loops, which the machine runs itself. */
bool jinja_call_builtin(struct jinja_run *r, struct jinja_value *out, struct jinja_value callee,
                        const struct jinja_args *args) ATTR_MUST_USE;

#endif
