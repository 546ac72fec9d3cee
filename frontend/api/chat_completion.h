/* SPDX-License-Identifier: MIT */
/* chat_completion - the dialect of /v1/chat/completions: a chat as one body, or as events while it
 * grows.
 *   owner, thread, errors   dialect.h
 *   stream   data: {one line}\n\n, LF only; the role with the first token, one chunk per token,
 *            then the finish, the usage where asked for, [DONE]
 *   source   OpenAI API reference; what its clients rely on */
#ifndef QUIRE_FRONTEND_API_CHAT_COMPLETION_H
#define QUIRE_FRONTEND_API_CHAT_COMPLETION_H

#include "frontend/api/dialect.h"

extern const struct dialect dialect_chat;

#endif
