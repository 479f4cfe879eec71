/* contents.c - Computes a sum over the contents of a file: over all of it, or over 128 evenly
 * spaced pieces of a large one. Recordings store the sum, so the choice of bytes and the
 * arithmetic must not change. 0 means that the file could not be read. */
#include "symbol/contents.h"

#include <stddef.h>
#include <string.h>

#include "trust/file.h"

enum { PIECE_BYTES = 64 << 10, PIECES = 128 };

static uint64_t mix_word(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 32;
}

uint64_t contents_sum(int fd, uint64_t bytes)
{
    uint8_t piece[PIECE_BYTES];
    const uint64_t whole = (uint64_t)PIECE_BYTES * PIECES,
                   pieces = bytes > whole ? PIECES : (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    uint64_t sum = mix_word(0, bytes);
    for (uint64_t i = 0; i < pieces; i++) {
        const uint64_t at = bytes > whole ? (bytes - PIECE_BYTES) / (PIECES - 1) * i
                                          : i * PIECE_BYTES,
                       begin = bytes > whole && i + 1 == PIECES ? bytes - PIECE_BYTES : at,
                       left = bytes - begin;
        const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, words = (n + 7) / 8;
        memset(piece + n, 0, words * 8 - n);
        if (trust_read(fd, piece, n, begin) != n)
            return 0;
        for (size_t k = 0; k < words; k++) {
            uint64_t word;
            memcpy(&word, piece + k * 8, 8);
            sum = mix_word(sum, word);
        }
    }
    return sum ? sum : 1;
}
