/* look.h - how names of frames are shown to people. */
#ifndef MALLOW_FRAMES_LOOK_H
#define MALLOW_FRAMES_LOOK_H

#include <stdbool.h>

struct names_look {
    bool full_names;         /* as the compiler made them, with all arguments of templates */
    bool start_frames;       /* libc's frames around main and the functions of threads, too */
    const char *source_root; /* files below it are shown relative to it, absolute; NULL: the
                                directory that the program's own sources have in common */
};

#endif
