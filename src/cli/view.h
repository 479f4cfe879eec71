/* view.h - what the commands that look at a recording have in common: filters, places of debug
 * information, the looks of the terminal. */
#ifndef MALLOW_CLI_VIEW_H
#define MALLOW_CLI_VIEW_H

#include "cli/command.h"
#include "report/report.h"
#include "symbol/symbol.h"

struct view_options {
    uint64_t pid;
    uint64_t threads; /* to read with; 0: as many as there are processors */
    struct option_span time;
    struct option_range sizes;
    const char *thread, *function, *module, *source;
    struct text_list debug_paths, alloc_fns;
    const char *sysroot;
    bool no_debuginfod, no_inline;
    struct names_look look;
};

/* Defaults: everything. */
#define VIEW_DEFAULTS                                                                              \
    {                                                                                              \
        .time = {.range = {0, UINT64_MAX}}, .sizes = { 0, UINT64_MAX }                             \
    }

/* The options, for a table in which `field` is the struct view_options. */
#define VIEW_SPECS(type, field) VIEW_PID_SPEC(type, field), VIEW_OTHER_SPECS(type, field)

#define VIEW_PID_SPEC(type, field)                                                                 \
    {                                                                                              \
        'p', "pid", OPTION_COUNT, offsetof(type, field.pid), "PID",                                \
            "only the process with this id (default: all)", 1, UINT32_MAX                          \
    }

/* All but the process, for commands that read several recordings. */
#define VIEW_OTHER_SPECS(type, field)                                                              \
    VIEW_FILTER_SPECS(type, field), VIEW_THREADS_SPEC(type, field), VIEW_DEBUG_SPECS(type, field)

#define VIEW_THREADS_SPEC(type, field)                                                             \
    {                                                                                              \
        0, "threads", OPTION_COUNT, offsetof(type, field.threads), "N",                            \
            "read with N threads at most (default: as many as there are processors); the result "  \
            "is the same",                                                                         \
            1, 1024                                                                                \
    }

#define VIEW_FILTER_SPECS(type, field)                                                             \
    {0,                                                                                            \
     "time",                                                                                       \
     OPTION_TIME_RANGE,                                                                            \
     offsetof(type, field.time),                                                                   \
     "FROM..TO",                                                                                   \
     "only this part of the recording, counted from its start; a side may be the name of a mark"}, \
        {0,                                                                                        \
         "size",                                                                                   \
         OPTION_SIZE_RANGE,                                                                        \
         offsetof(type, field.sizes),                                                              \
         "FROM..TO",                                                                               \
         "only blocks of these requested sizes"},                                                  \
        {0,           "thread",                                                                    \
         OPTION_TEXT, offsetof(type, field.thread),                                                \
         "TID|NAME",  "only what this thread allocated; a name may be a glob or /REGEX/"},         \
        {0,           "function",                                                                  \
         OPTION_TEXT, offsetof(type, field.function),                                              \
         "PATTERN",   "only stacks with a function that matches this glob or /REGEX/"},            \
        {0,           "module",                                                                    \
         OPTION_TEXT, offsetof(type, field.module),                                                \
         "PATTERN",   "only stacks with a program or library that matches this glob or /REGEX/"},  \
    {                                                                                              \
        0, "source-file", OPTION_TEXT, offsetof(type, field.source), "PATTERN",                    \
            "only stacks with a function whose source file matches this glob or /REGEX/"           \
    }

/* Where debug information is looked for. */
#define VIEW_DEBUG_SPECS(type, field)                                                              \
    {0,                                                                                            \
     "debug-path",                                                                                 \
     OPTION_TEXTS,                                                                                 \
     offsetof(type, field.debug_paths),                                                            \
     "DIR",                                                                                        \
     "also look for separate debug information here; may be repeated",                             \
     .completion = VALUE_DIRECTORY},                                                               \
        {0,                                                                                        \
         "sysroot",                                                                                \
         OPTION_TEXT,                                                                              \
         offsetof(type, field.sysroot),                                                            \
         "DIR",                                                                                    \
         "look for programs and libraries below this directory",                                   \
         .completion = VALUE_DIRECTORY},                                                           \
        {0,           "no-debuginfod",                                                             \
         OPTION_FLAG, offsetof(type, field.no_debuginfod),                                         \
         NULL,        "do not ask the servers of DEBUGINFOD_URLS"},                                \
    {                                                                                              \
        0, "no-inline", OPTION_FLAG, offsetof(type, field.no_inline), NULL,                        \
            "do not look up inlined functions, which is faster"                                    \
    }

/* How names are shown, for commands that print call sites. */
#define VIEW_LOOK_SPECS(type, field)                                                               \
    {0,           "full-names",                                                                    \
     OPTION_FLAG, offsetof(type, field.look.full_names),                                           \
     NULL,        "print names of C++ with parameters, return types and all template arguments"},  \
        {0,           "start-frames",                                                              \
         OPTION_FLAG, offsetof(type, field.look.start_frames),                                     \
         NULL,        "also show libc's frames that call main and the functions of threads"},      \
    {                                                                                              \
        0, "source-root", OPTION_TEXT, offsetof(type, field.look.source_root), "DIR",              \
            "show source files relative to DIR (default: the directory that the "                  \
            "program's own sources have in common)",                                               \
            .completion = VALUE_DIRECTORY                                                          \
    }

/* Which functions are no call sites, for commands that print call sites of stacks. */
#define VIEW_ALLOC_SPEC(type, field)                                                               \
    {                                                                                              \
        0, "alloc-fn", OPTION_TEXTS, offsetof(type, field.alloc_fns), "PATTERN",                   \
            "a function that allocates for its callers, as a glob or /REGEX/: they are the call "  \
            "sites; may be repeated"                                                               \
    }

/* The look, with an absolute root that lives as long as the process. */
struct names_look view_look(const struct view_options *v);
/* Puts the functions of VIEW_ALLOC_SPEC into the look; they live as long as the process. -1 with
 * *err set: one is no pattern. */
int view_alloc_fns(const struct view_options *v, struct names_look *look, struct error *err);

/* The part of struct report_options that these options say; of --time with marks, everything. */
struct report_options view_filters(const struct view_options *v);
/* Width, characters and boldness for standard output; call once. */
void view_looks(struct report_options *o);
/* Opens a recording whose `columns` (enum trace_column) will be read: recovers what a dead recorder
 * left, and shows progress while it is sealed. to_ns: end of the part wanted, 0 for all. threads:
 * to read with, 0 for as many as there are processors. The first takes options with these in them
 * (progress is its own). NULL with *err set on failure. */
struct trace *view_open_as(const char *path, const struct trace_open_options *options,
                           struct error *err);
struct trace *view_open(const char *path, unsigned columns, uint64_t to_ns, uint64_t threads,
                        struct error *err);
/* Puts the range of --time into o when marks of the recording bound it. The first side is the first
 * mark of its name, the second the first of its name that is not before; with a process asked for,
 * only that process's marks count. -1 with *err when there is no such mark. */
int view_times(const struct view_options *v, const struct trace *t, struct report_options *o,
               struct error *err);
/* Says on standard error what the recording at `path` lacks, after it was read: damage, lost
 * calls. */
void view_tell_losses(const struct command *self, const char *path, const struct trace *t);
/* NULL with *err set on failure. */
struct symbols *view_symbols(const struct view_options *v, struct error *err);

#endif
