/* FNV-1a, 64 bits: names contents and tells them apart, protects nothing. */
#ifndef FOCI_BASE_HASH_H
#define FOCI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define FOCI_HASH_BEGIN 0xCBF29CE484222325U

/* A byte, or a number in the place of one. */
static inline uint64_t foci_hash_one(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x100000001B3U;
}

static inline uint64_t foci_hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    for (size_t n = 0; n < bytes; n++) hash = foci_hash_one(hash, from[n]);
    return hash;
}

#endif /* FOCI_BASE_HASH_H */
