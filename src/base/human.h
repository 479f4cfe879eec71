/* human.h - sizes, durations and counts as people write and read them.
 *
 * Owns: the one spelling of units in the project. Sizes use K M G T P, powers of 1024; durations
 * ns us ms s m h. Refuses: signs, blanks inside, hexadecimal, and anything that does not fit 64
 * bits. Pure functions, any thread. */
#ifndef MALLOW_BASE_HUMAN_H
#define MALLOW_BASE_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for any text that this file formats, NUL included. */
#define HUMAN_TEXT_BYTES 32

/* Each parses the whole of `text` and returns true, or returns false and leaves the result alone.
 * human_parse_size: "4096", "64K", "1.5M", "2GB", "2GiB" (a B or iB behind the letter is allowed).
 * human_parse_duration: "10ms", "1.5s", "2m", "1h", "250us", "80ns"; a number without a unit is
 * seconds. human_parse_count: decimal digits only. */
bool human_parse_size(const char *text, uint64_t *size_bytes);
bool human_parse_duration(const char *text, uint64_t *duration_ns);
bool human_parse_count(const char *text, uint64_t *count);

/* Each writes into `out` (HUMAN_TEXT_BYTES) and returns it.
 * human_size: "0 B", "999 B", "1.5 KB", "12.0 MB"; one decimal from KB on.
 * human_duration: "0 ns", "12.3 us", "1.50 s", "2m03s", "1h02m".
 * human_count: "1,234,567". */
const char *human_size(char out[HUMAN_TEXT_BYTES], uint64_t size_bytes);
const char *human_duration(char out[HUMAN_TEXT_BYTES], uint64_t duration_ns);
const char *human_count(char out[HUMAN_TEXT_BYTES], uint64_t count);

/* The same as an argument of printf: text that lives until the block around it ends. */
#define SIZE(bytes) human_size((char[HUMAN_TEXT_BYTES]){0}, (bytes))
#define COUNT(n)    human_count((char[HUMAN_TEXT_BYTES]){0}, (n))
#define TIME(ns)    human_duration((char[HUMAN_TEXT_BYTES]){0}, (ns))

/* A figure without its sign: of INT64_MIN too. */
static inline uint64_t human_magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

#endif
