/* SPDX-License-Identifier: MIT */
/* gguf_writer - a new GGUF file, in the order of its bytes: keys, tensor directory, tensor data.
 * Everything goes to a temporary file beside the wanted one, which appears whole or not at all.
 *   owner    the opener; gguf_writer_close removes what was not finished
 *   thread   one
 *   errors   RC_IO with the path, RC_NO_MEMORY; the first error sticks, later calls give it again
 *   source   GGUF specification, version 3, little endian, data aligned to 32 */
#ifndef QUIRE_CORE_GGUF_WRITER_H
#define QUIRE_CORE_GGUF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/err.h"
#include "core/gguf.h"

struct gguf_writer;

enum rc gguf_writer_open(struct gguf_writer **out, const char *path,
                         struct fault *fault) ATTR_MUST_USE;
void gguf_writer_close(struct gguf_writer *w);

/* Keys: one of another file as it is, or a number. */
void gguf_writer_copy_key(struct gguf_writer *w, const struct gguf_key *key);
void gguf_writer_key_u32(struct gguf_writer *w, const char *name, uint32_t value);

/* gguf_writer_tensor - the next tensor of the directory: name and dims of t, in this format. */
void gguf_writer_tensor(struct gguf_writer *w, const struct gguf_tensor *t, enum dtype type);

/* gguf_writer_data - the next bytes of tensor data, in the order of the directory; padding between
 * tensors is put in. The first call ends keys and directory. */
enum rc gguf_writer_data(struct gguf_writer *w, const void *data, size_t bytes,
                         struct fault *fault) ATTR_MUST_USE;

/* gguf_writer_finish - all data is there: flushes it to the disk and gives the file its name. */
enum rc gguf_writer_finish(struct gguf_writer *w, struct fault *fault) ATTR_MUST_USE;

#endif
