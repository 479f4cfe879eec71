/* fuzz.h - what the fuzz targets share: the file that holds the bytes, and a main that replays
 * files when there is no fuzzer (build with -DFUZZ_MAIN to have it). */
#ifndef MALLOW_TESTS_TRACE_FUZZ_H
#define MALLOW_TESTS_TRACE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Reads a recording of these bytes with every reader; aborts when what they give cannot be. */
void fuzz_recording(const uint8_t *data, size_t n);
/* The same, always with several threads as well, which must read what one reads. */
void fuzz_threads(const uint8_t *data, size_t n);

#endif
