/* lend.h - a session that processes of another user can reach.
 *
 * Only the user of a process, and root, may open what the process has open. So a process of that
 * user holds the session: this very program, executed anew, with no memory, environment, terminal,
 * file or right of ours but the session's descriptor, and with our limits as they were. It ends
 * with us. Tools only; one thread. */
#ifndef MALLOW_RECORD_LEND_H
#define MALLOW_RECORD_LEND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "launch/launch.h"
#include "trust/process.h"

/* The first word of its command line behind the program's name. */
#define LEND_COMMAND "lend-session"

/* The number of the descriptor in the holder. */
enum { LEND_FD = 3 };

struct lent {
    pid_t holder; /* 0: none */
};

/* Starts a holder of the session that is open at fd, for processes that have exactly these
 * credentials. Returns 0, or -1 with *err. */
int lend_begin(struct lent *l, int fd, const struct trust_credentials *to,
               const struct limits_before *limits, struct error *err);
void lend_end(struct lent *l);

/* The holder's main; returns only if this process was not started by lend_begin. */
void lend_main(void);

#endif
