/* account.c - Charges memory to the users whose processes are watched, up to a bound for each
 * user. A charge that was refused stays refused, so that its process is let go once. */
#include "watch/account.h"

#include <stdlib.h>

#include "base/array.h"

struct account *accounts_of(struct accounts *a, uid_t user)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i]->user == user)
            return a->items[i];
    struct account *made = calloc(1, sizeof *made);
    if (!made || !ARRAY_ROOM(a->items, a->count + 1, a->room)) {
        free(made);
        return NULL;
    }
    made->user = user;
    return a->items[a->count++] = made;
}

void accounts_release(struct accounts *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->items[i]);
    free(a->items);
    *a = (struct accounts){0};
}

bool account_has(const struct account *a, uint64_t bytes)
{
    return a->bytes <= ACCOUNT_MOST_BYTES && bytes <= ACCOUNT_MOST_BYTES - a->bytes;
}

bool charge_take(struct charge *c, uint64_t bytes)
{
    if (!c->account)
        return true;
    if (c->refused)
        return false;
    if (!account_has(c->account, bytes)) {
        c->refused = true;
        c->needed = c->bytes + bytes;
        return false;
    }
    c->account->bytes += bytes;
    c->bytes += bytes;
    return true;
}

void charge_return(struct charge *c, uint64_t all_but)
{
    if (!c->account || c->bytes <= all_but)
        return;
    c->account->bytes -= c->bytes - all_but;
    c->bytes = all_but;
}
