/* replaying.h - the options that replay, compare and tune share, and the request that they make. */
#ifndef MALLOW_CLI_REPLAYING_H
#define MALLOW_CLI_REPLAYING_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/command.h"
#include "compare/measured.h"
#include "replay/run.h"

struct replaying {
    struct text_list settings;
    const char *pace;
    int order, touch, timing;
    uint64_t trim_every_ns;
    bool dry;
};

#define REPLAYING_OPTIONS(type, field, touched)                                                    \
    {0,                                                                                            \
     "order",                                                                                      \
     OPTION_CHOICE,                                                                                \
     offsetof(type, field.order),                                                                  \
     "dependent|recorded",                                                                         \
     "let threads wait only where blocks changed hands or the peak would be passed, or keep the "  \
     "recording's order (default "                                                                 \
     "dependent)"},                                                                                \
        {0,           "pace",                                                                      \
         OPTION_TEXT, offsetof(type, field.pace),                                                  \
         "PACE",      "asap, recorded, or N for N times as fast as recorded (default asap)"},      \
        {0,                                                                                        \
         "touch",                                                                                  \
         OPTION_CHOICE,                                                                            \
         offsetof(type, field.touch),                                                              \
         "none|pages|bytes",                                                                       \
         "write nothing into the blocks, a byte a page, or every byte (default " touched ")"},     \
        {0,                                                                                        \
         "timing",                                                                                 \
         OPTION_CHOICE,                                                                            \
         offsetof(type, field.timing),                                                             \
         "sample|all|none",                                                                        \
         "time one call in 64 at random, every call, or none (default sample)"},                   \
        {0,                                                                                        \
         "set",                                                                                    \
         OPTION_TEXTS,                                                                             \
         offsetof(type, field.settings),                                                           \
         "K=V",                                                                                    \
         "a setting of the allocator: a mallopt M_NAME, glibc.malloc.NAME, GLIBC_TUNABLES, "       \
         "MALLOC_CONF, MIMALLOC_NAME; may be repeated"},                                           \
    {                                                                                              \
        0, "trim-every", OPTION_DURATION, offsetof(type, field.trim_every_ns), "DURATION",         \
            "call malloc_trim every DURATION (glibc)", 1000000, 3600ull * 1000000000               \
    }

/* Fills the request but for workload, alloc and settings. An exit status other than 0 when an
 * option is wrong; said. */
int replaying_request(const struct command *self, const struct replaying *o,
                      struct replay_request *request);

/* Says on stderr which functions that a run called (as replaying_run returns it) the allocator
 * `label` lacks, and which stood in for them. */
void replaying_say_replaced(const struct command *self, json_object *run, const char *label);

#endif
