#include "fleet/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct asking {
    struct answers *to;
    unsigned numbers;
};

static int keep(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    struct asking *asking = arg;
    struct answers *a = asking->to;
    if (a->total++ >= a->top)
        return 0;
    struct answer *kept = ARRAY_ADD(a->items, a->count, a->room);
    if (!kept || !(kept->text = strdup(text)))
        return error_memory(err);
    memcpy(kept->numbers, numbers, asking->numbers * sizeof *numbers);
    return 0;
}

static int prepare(const struct answers *a, struct fleet_store *store, struct error *err)
{
    uint64_t *sites = malloc((a->count + 1) * sizeof *sites);
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < a->count; i++)
        sites[i] = a->items[i].numbers[0];
    const int status = store_prepare_frames(store, sites, a->count, err);
    free(sites);
    return status;
}

int answers_ask(struct answers *a, struct fleet_store *store, char *sql, unsigned numbers,
                bool sites, struct error *err)
{
    struct asking asking = {a, numbers};
    int status = store_ask(store, sql, numbers, keep, &asking, err);
    free(sql);
    if (!status && sites)
        status = prepare(a, store, err);
    return status;
}

void answers_release(struct answers *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->items[i].text);
    free(a->items);
    *a = (struct answers){0};
}
