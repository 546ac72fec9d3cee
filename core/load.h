/* SPDX-License-Identifier: MIT */
/* load - unaligned little-endian loads from byte buffers, without aliasing or alignment faults.
 * Constant functions, any thread. Every supported host is little endian; another one does not
 * compile. */
#ifndef QUIRE_CORE_LOAD_H
#define QUIRE_CORE_LOAD_H

#include <stdint.h>
#include <string.h>

#include "core/attr.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF data is used in place");

ATTR_INLINE uint16_t load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

ATTR_INLINE uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

ATTR_INLINE uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

ATTR_INLINE float load_f32(const uint8_t *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

ATTR_INLINE double load_f64(const uint8_t *p)
{
    double v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
