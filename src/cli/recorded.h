/* recorded.h - a workload of one process of a recording, for commands that want workloads. */
#ifndef MALLOW_CLI_RECORDED_H
#define MALLOW_CLI_RECORDED_H

#include "cli/command.h"
#include "workload/convert.h"

struct recorded {
    uint64_t pid; /* 0: the only process that allocated */
    struct workload_options workload;
    bool quiet;       /* no progress */
    uint64_t threads; /* to read with; 0: as many as there are processors */
};

/* Writes it to the file `target`, and says on standard error what it lacks. 0, or an exit status
 * after a line about the failure. */
int recorded_workload(const struct command *self, const struct recorded *how, const char *path,
                      const char *target, struct workload_written *written);

/* True if a file begins as a recording does. One that cannot be read does not. */
bool recorded_is(const char *path);

/* The same into a file without a name (of trust_unnamed), whose descriptor programs that are
 * started inherit. */
int recorded_unnamed(const struct command *self, const struct recorded *how, const char *path,
                     int *fd);

#endif
