/* calls.h - `mallow probe calls`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_CALLS_H
#define MALLOW_BPF_CALLS_H

/* More functions than this are refused. */
enum { CALLS_FUNCTIONS_MAX = 16384 };

#endif
