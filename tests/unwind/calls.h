/* calls.h - random call paths for the tests of the unwinder. Threads: any. */
#ifndef MALLOW_TESTS_UNWIND_CALLS_H
#define MALLOW_TESTS_UNWIND_CALLS_H

#include <stdint.h>

/* Calls itself up to `depth` frames deep, as the number `start` decides, and probes there. */
void random_calls(uint64_t start, int depth);

#endif
