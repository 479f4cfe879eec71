/* account.h - what a watch spends on the processes of each other user.
 *
 * Owns: a bound of memory for each user who is neither root nor the caller, so that one of them
 * takes room from none but their own processes; what each process has taken of it. Refuses: to
 * measure. Things are charged at the most that they cost, here and with who names them. One thread.
 */
#ifndef MALLOW_WATCH_ACCOUNT_H
#define MALLOW_WATCH_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACCOUNT_MOST_BYTES (1ull << 30)

/* The prices. A node costs itself, its places in the index and in four reports (80), and the
 * text that frames/names.h keeps for an address without a name (240). A stack costs its sums,
 * its site, and its rows in a list of all processes. A process costs itself, its descriptors,
 * and its arrays of modules. */
#define ACCOUNT_NODE_BYTES    320u
#define ACCOUNT_NAME_BYTES    240u /* names are freed only with the process */
#define ACCOUNT_STACK_BYTES   1024u
#define ACCOUNT_PROCESS_BYTES 65536u

struct account {
    uid_t user;
    uint64_t bytes; /* the bytes of all processes of this user */
    bool said;      /* it was reported that a process had no room at all */
};

struct accounts {
    struct account **items; /* pointers stay valid until accounts_release */
    size_t count, room;
};

/* Finds or makes the account of a user. NULL without memory. */
struct account *accounts_of(struct accounts *a, uid_t user);
void accounts_release(struct accounts *a);

/* True if the account has room for this many more bytes. */
bool account_has(const struct account *a, uint64_t bytes);

struct charge {              /* one process's charge */
    struct account *account; /* NULL: nothing is bounded */
    uint64_t bytes;
    uint64_t needed; /* if refused: the bytes that it would have needed at least */
    bool refused;    /* it asked for more than was left, and gets no more */
};

/* Takes bytes from the account. Returns false if there is no room now, or was none before. */
bool charge_take(struct charge *c, uint64_t bytes);
/* Returns all but this many bytes to the account. */
void charge_return(struct charge *c, uint64_t all_but);

#endif
