/* SPDX-License-Identifier: MIT */
/* decompress - see decompress.h. */
#include "frontend/batch/decompress.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/mem.h"

struct decompress {
    ZSTD_DStream *zst; /* NULL: gzip */
    z_stream gz;
    bool whole;
};

enum rc decompress_open(struct decompress **out, const char *first, size_t len)
{
    bool gz = len >= 2 && memcmp(first, "\x1f\x8b", 2) == 0;
    bool zst = len >= 4 && memcmp(first, "\x28\xb5\x2f\xfd", 4) == 0;
    *out = NULL;
    if (!gz && !zst)
        return RC_OK;
    struct decompress *u = mem_alloc(sizeof *u);
    if (u == NULL)
        return RC_NO_MEMORY;
    u->whole = true;
    if (zst)
        u->zst = ZSTD_createDStream();
    if (zst ? u->zst == NULL : inflateInit2(&u->gz, 16 + MAX_WBITS) != Z_OK) {
        mem_free(u);
        return RC_NO_MEMORY;
    }
    *out = u;
    return RC_OK;
}

void decompress_close(struct decompress *u)
{
    if (u == NULL)
        return;
    if (u->zst != NULL)
        ZSTD_freeDStream(u->zst);
    else
        inflateEnd(&u->gz);
    mem_free(u);
}

static enum rc decompress_gz(struct decompress *u, const char *in, size_t in_len, size_t *in_used,
                             char *out, size_t out_cap, size_t *out_len)
{
    if (u->whole && in_len > 0) { /* the next member */
        if (inflateReset(&u->gz) != Z_OK)
            return RC_CORRUPT;
        u->whole = false;
    }
    u->gz.next_in = (Bytef *)(uintptr_t)in;
    u->gz.avail_in = (uInt)in_len;
    u->gz.next_out = (Bytef *)(void *)out;
    u->gz.avail_out = (uInt)out_cap;
    int status = inflate(&u->gz, Z_NO_FLUSH);
    *in_used = in_len - u->gz.avail_in;
    *out_len = out_cap - u->gz.avail_out;
    if (status == Z_STREAM_END)
        u->whole = true;
    else if (status == Z_MEM_ERROR)
        return RC_NO_MEMORY;
    else if (status != Z_OK && status != Z_BUF_ERROR)
        return RC_CORRUPT;
    return RC_OK;
}

enum rc decompress_some(struct decompress *u, const char *in, size_t in_len, size_t *in_used,
                        char *out, size_t out_cap, size_t *out_len)
{
    if (u->zst == NULL)
        return decompress_gz(u, in, in_len, in_used, out, out_cap, out_len);
    ZSTD_inBuffer src = { in, in_len, 0 };
    ZSTD_outBuffer dst = { out, out_cap, 0 };
    size_t left = ZSTD_decompressStream(u->zst, &dst, &src);
    if (ZSTD_isError(left))
        return RC_CORRUPT;
    *in_used = src.pos;
    *out_len = dst.pos;
    if (src.pos > 0 || dst.pos > 0)
        u->whole = left == 0;
    return RC_OK;
}

bool decompress_whole(const struct decompress *u)
{
    return u->whole;
}
