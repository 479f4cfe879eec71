/* measured.h - a replay's result as the commands use it: options in, one JSON object out.
 *
 * Owns: the options that replay and compare share, and the meaning of the result's fields. */
#ifndef MALLOW_CLI_MEASURED_H
#define MALLOW_CLI_MEASURED_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/command.h"
#include "replay/run.h"

/* Options that the commands have in common. */
struct replaying {
    struct option_texts settings;
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

/* Runs once. The object has every field of `replay --json` but schema. NULL with *err. */
json_object *replaying_run(const struct replay_request *request, struct error *err);

/* The same of a replay that has been started by replay_start. */
json_object *replaying_finish(const struct replay_request *request, struct replay_started *started,
                              struct error *err);

/* A number in the object, by path "calls/malloc/count"; `otherwise` when it is not there. */
double measured_number(json_object *run, const char *path, double otherwise);

/* The mean resident size over the run's time, from its timeline; 0 when it has none. */
double measured_average_rss(json_object *run);

#endif
