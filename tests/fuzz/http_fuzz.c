/* SPDX-License-Identifier: MIT */
/* http_fuzz - a request in any two pieces is read as it is in one. */
#include <string.h>

#include "core/must.h"
#include "frontend/http/http_body.h"

struct outcome {
    int status;
    size_t end, used;
    struct text body;
};

/* The bytes up to `cut`, then all of them. */
static struct outcome read_request(const char *bytes, size_t len, size_t cut)
{
    struct outcome o = { 0 };
    struct http_scan scan = { 0 };
    struct http_head head;
    struct http_body body;
    const char *why;
    o.status = http_head_scan(&scan, bytes, cut, &o.end);
    if (o.status == 0)
        o.status = http_head_scan(&scan, bytes, len, &o.end);
    if (o.status != 200)
        return o;
    o.status = http_head_parse(&head, bytes + scan.head_begin, o.end - scan.head_begin, &why);
    if (o.status == 200)
        o.status = http_body_open(&body, &head, 4096);
    if (o.status != 200)
        return o;
    must(head.path.len > 0 && head.field_count <= HTTP_FIELDS_MAX);
    size_t first = cut > o.end ? cut - o.end : 0;
    o.status = http_body_push(&body, bytes + o.end, first, &o.used, &o.body);
    if (o.status == 0) {
        size_t more;
        o.status =
            http_body_push(&body, bytes + o.end + o.used, len - o.end - o.used, &more, &o.body);
        o.used += more;
    }
    must(o.body.len <= 4096);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *bytes = (const char *)data;
    size_t cut = len > 0 ? data[len - 1] * len / 256 : 0;
    struct outcome whole = read_request(bytes, len, len), pieces = read_request(bytes, len, cut);
    must(whole.status == pieces.status);
    if (whole.status == 200)
        must(whole.end == pieces.end && whole.used == pieces.used &&
             whole.body.len == pieces.body.len &&
             (whole.body.len == 0 ||
              memcmp(whole.body.data, pieces.body.data, whole.body.len) == 0));
    text_close(&whole.body);
    text_close(&pieces.body);
    return 0;
}
