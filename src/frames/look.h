/* look.h - how names of frames are shown to people, and which of them are call sites. */
#ifndef MALLOW_FRAMES_LOOK_H
#define MALLOW_FRAMES_LOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "analyse/pattern.h"

struct names_look {
    bool full_names;         /* as the compiler made them, with all arguments of templates */
    bool start_frames;       /* libc's frames around main and the functions of threads, too */
    const char *source_root; /* files below it are shown relative to it, absolute; NULL: the
                                directory that the program's own sources have in common */
    const struct pattern *alloc_fns; /* [alloc_fn_count] functions that allocate for their
                                        callers, besides those that are known (role.h) */
    size_t alloc_fn_count;
};

#endif
