/* replay_once.c - the replayer's loop by itself, for counting instructions: replays a workload
 * without allocating, and without the process that measures (valgrind does not run such a process).
 *   replay_once WORKLOAD
 * One thread. Prints nothing. */
#include <fcntl.h>
#include <stdio.h>

#include "replay/engine.h"

int main(int argc, char **argv)
{
    static struct engine e;
    static struct workload w;
    static struct measure idle; /* asks for nothing */
    static struct error err;
    struct engine_options options = {.timing = ENGINE_TIMING_NONE, .dry = true};
    if (argc != 2)
        return 2;
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || workload_open(fd, &w, &err) || workload_check(&w, &err) ||
        engine_init(&e, &w, NULL, fd, &options, &err)) {
        fprintf(stderr, "replay_once: %s: %s\n", argv[1], err.text);
        return 1;
    }
    e.measure = &idle;
    engine_prepare(&e);
    e.cycles_per_ns = 1;
    engine_run(&e);
    engine_end(&e);
    workload_close(&w);
    return 0;
}
