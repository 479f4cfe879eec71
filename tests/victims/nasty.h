/* nasty.h - what the two halves of the victim nasty share. */
#ifndef MALLOW_VICTIMS_NASTY_H
#define MALLOW_VICTIMS_NASTY_H

#include <sys/types.h>

struct nasty {
    const char *name; /* NULL: the end of the list */
    int (*run)(void); /* what main returns */
};
extern const struct nasty nasty_system[];

extern const char *nasty_self;      /* the path of this program */
extern const char *nasty_directory; /* of the plugins, or one to write to */

/* Ends the process, with status 1; with 77: this machine does not allow it. */
_Noreturn void broken(const char *what);
_Noreturn void cannot(const char *what);

/* So many calls that allocate and free, in a row that the seed decides; checks the blocks. */
void churn(unsigned seed, unsigned calls);
/* Waits for the child: its status, 128 + the signal that ended it. */
int ended(pid_t p);

#endif
