/* SPDX-License-Identifier: MIT */
/* stop_fuzz - "stop\nstop\n\ntext": the text through the stops in one piece and byte by byte. */
#include <string.h>

#include "core/must.h"
#include "core/str.h"
#include "frontend/api/stop.h"

static void run(struct str stops, struct str text, size_t piece, struct text *out, bool *hit)
{
    struct stop s = { 0 };
    struct str one;
    struct fault fault;
    while (str_cut(&stops, '\n', &one))
        if (stop_add(&s, one.text, one.len, &fault) == RC_NO_MEMORY)
            must(false);
    for (size_t at = 0; at < text.len; at += piece) {
        size_t n = text.len - at < piece ? text.len - at : piece;
        must(stop_push(&s, text.text + at, n, out) == RC_OK);
    }
    must(stop_flush(&s, out) == RC_OK);
    *hit = s.hit;
    stop_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *bytes = (const char *)data, *split = memmem(data, len, "\n\n", 2);
    if (split == NULL)
        return 0;
    struct str stops = { bytes, (size_t)(split - bytes) };
    struct str text = { split + 2, len - stops.len - 2 };
    struct text whole = { 0 }, single = { 0 };
    bool whole_hit, single_hit;
    run(stops, text, text.len + 1, &whole, &whole_hit);
    run(stops, text, 1, &single, &single_hit);
    must(whole_hit == single_hit && whole.len == single.len);
    must(whole.len == 0 || memcmp(whole.data, single.data, whole.len) == 0);
    must(whole_hit || whole.len == text.len);
    text_close(&whole);
    text_close(&single);
    return 0;
}
