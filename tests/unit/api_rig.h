/* SPDX-License-Identifier: MIT */
/* api_rig - a dialect in front of the replay rig, without sockets: a body in, frames or a body out.
 *   owner    the test; what api_rig_* return is the rig's until the next call */
#ifndef QUIRE_TESTS_UNIT_API_RIG_H
#define QUIRE_TESTS_UNIT_API_RIG_H

#include <jansson.h>

#include "frontend/api/chat.h"
#include "frontend/api/dialect.h"
#include "tests/unit/replay_rig.h"

struct api_rig {
    struct replay_rig replay;
    struct chat_model chat;
    struct completion_params defaults, chat_defaults;
    struct api_context context;
    struct api_call call; /* of every request */
    struct text frames;   /* of the last stream */
    json_t *json;         /* of the last body or error */
    struct api_error error;
};

/* api_rig_open - template NULL: ChatML. */
void api_rig_open(struct api_rig *r, const char *template_source);
void api_rig_close(struct api_rig *r);

/* api_rig_body - the answer to a request without a stream. api_rig_error - what it is refused with;
 * status 400 unless said. api_rig_stream - all the frames of a stream. Each fails the test when
 * something else happens. */
json_t *api_rig_body(struct api_rig *r, const struct dialect *d, const char *body);
json_t *api_rig_error(struct api_rig *r, const struct dialect *d, const char *body);
const char *api_rig_stream(struct api_rig *r, const struct dialect *d, const char *body);

/* api_rig_starve - the request again and again, from its text on, each time with one allocation
 * that fails, until none does: each is an error, never another answer, and leaves no memory behind.
 * Returns how many there were. */
unsigned api_rig_starve(struct api_rig *r, const struct dialect *d, const char *body);

/* api_rig_event - the next event's data of a stream, from *at on, NULL for [DONE] and at the end;
 * its name, or "". The caller owns the JSON. */
json_t *api_rig_event(const char **at, char name[64]);

#endif
