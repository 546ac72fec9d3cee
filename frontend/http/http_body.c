/* SPDX-License-Identifier: MIT */
/* http_body - a state for each kind of byte that may come next; data is copied in one piece. */
#include "frontend/http/http_body.h"

#define CHUNK_DIGITS_MAX 8u

int http_body_open(struct http_body *b, const struct http_head *head, uint64_t most)
{
    *b = (struct http_body){ .most = most, .chunked = head->chunked };
    if (head->chunked) {
        b->state = HTTP_BODY_SIZE;
        return 200;
    }
    b->left = head->length;
    b->state = b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_DONE;
    return b->left > most ? 413 : 200;
}

/* A byte of a size line. */
static int take_size(struct http_body *b, char c, size_t have)
{
    int digit = http_hex_digit(c);
    if (b->state == HTTP_BODY_SIZE && digit >= 0) {
        b->left = b->left * 16 + (uint64_t)digit;
        return ++b->digits > CHUNK_DIGITS_MAX ? 413 : 0;
    }
    if (b->state != HTTP_BODY_SIZE_LF) {
        if (b->digits == 0)
            return 400;
        if (c == '\r')
            b->state = HTTP_BODY_SIZE_LF;
        else if ((c == ';' || b->state == HTTP_BODY_EXTENSION) && (c >= ' ' || c == '\t') &&
                 ++b->extra <= HTTP_EXTENSION_BYTES_MAX)
            b->state = HTTP_BODY_EXTENSION;
        else
            return 400;
        return 0;
    }
    if (c != '\n')
        return 400;
    b->state = b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_TRAILER;
    b->extra = 0;
    return b->left > b->most - have ? 413 : 0;
}

/* A byte after the last chunk. */
static int take_trailer(struct http_body *b, char c)
{
    if (++b->extra > HTTP_TRAILER_BYTES_MAX)
        return 400;
    bool lf_due = b->state == HTTP_BODY_TRAILER_LF || b->state == HTTP_BODY_LAST_LF;
    if (lf_due != (c == '\n'))
        return 400;
    if (b->state == HTTP_BODY_LAST_LF)
        b->state = HTTP_BODY_DONE;
    else if (b->state == HTTP_BODY_TRAILER_LF)
        b->state = HTTP_BODY_TRAILER;
    else if (c == '\r')
        b->state = b->state == HTTP_BODY_TRAILER ? HTTP_BODY_LAST_LF : HTTP_BODY_TRAILER_LF;
    else if (b->state == HTTP_BODY_TRAILER && (c == ' ' || c == '\t'))
        return 400;
    else
        b->state = HTTP_BODY_TRAILER_TEXT;
    return 0;
}

static int take_data(struct http_body *b, const char *bytes, size_t len, size_t *used,
                     struct text *out)
{
    size_t count = len < b->left ? len : (size_t)b->left;
    if (text_append(out, bytes, count) != RC_OK)
        return 500;
    b->left -= count;
    *used += count;
    if (b->left == 0)
        b->state = b->chunked ? HTTP_BODY_DATA_CR : HTTP_BODY_DONE;
    return 0;
}

static int take_byte(struct http_body *b, char c, size_t have)
{
    switch (b->state) {
    case HTTP_BODY_DATA_CR:
        b->state = HTTP_BODY_DATA_LF;
        return c == '\r' ? 0 : 400;
    case HTTP_BODY_DATA_LF:
        b->state = HTTP_BODY_SIZE;
        b->digits = 0;
        return c == '\n' ? 0 : 400;
    case HTTP_BODY_SIZE:
    case HTTP_BODY_EXTENSION:
    case HTTP_BODY_SIZE_LF:
        return take_size(b, c, have);
    case HTTP_BODY_TRAILER:
    case HTTP_BODY_TRAILER_TEXT:
    case HTTP_BODY_TRAILER_LF:
    case HTTP_BODY_LAST_LF:
        return take_trailer(b, c);
    case HTTP_BODY_DATA:
    case HTTP_BODY_DONE:
        break;
    }
    return 0;
}

int http_body_push(struct http_body *b, const char *bytes, size_t len, size_t *used,
                   struct text *out)
{
    *used = 0;
    int status = 0;
    while (status == 0 && b->state != HTTP_BODY_DONE && *used < len) {
        if (b->state == HTTP_BODY_DATA)
            status = take_data(b, bytes + *used, len - *used, used, out);
        else
            status = take_byte(b, bytes[(*used)++], out->len);
    }
    return status != 0 ? status : b->state == HTTP_BODY_DONE ? 200 : 0;
}
