/* answers.c - the rows of an answer that are shown, and their call sites in text and JSON. */
#include "fleet/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "fleet/show.h"

struct keeping {
    struct answers *to;
    uint64_t top;
    size_t numbers;
};

static int keep_answer(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    const struct keeping *k = arg;
    struct answers *a = k->to;
    a->total++;
    if (k->top && a->count >= k->top) {
        for (size_t i = 0; i < k->numbers; i++)
            a->rest[i] += numbers[i];
        return 0;
    }
    struct answer *kept = ARRAY_ADD(a->items, a->count, a->room);
    if (!kept || !(kept->text = strdup(text)))
        return error_memory(err);
    memcpy(kept->numbers, numbers, k->numbers * sizeof *numbers);
    return 0;
}

/* The frames of the rows, all at once: that is faster where the store is far away. */
static int prepare_shown_sites(const struct answers *a, struct fleet_store *store, bool call_sites,
                               struct error *err)
{
    uint64_t *sites = malloc((a->count + 1) * sizeof *sites);
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < a->count; i++)
        sites[i] = a->items[i].numbers[0];
    const int status = store_prepare_frames(store, sites, a->count, call_sites, err);
    free(sites);
    return status;
}

int answers_ask(struct answers *a, struct fleet_store *store, struct store_query *q, bool sites,
                struct error *err)
{
    struct keeping k = {a, q->top, store_numbers(q->what)};
    q->total = 0;
    const int status = store_ask(store, q, keep_answer, &k, err);
    if (q->total)
        a->total = q->total;
    return status || !sites ? status : prepare_shown_sites(a, store, q->call_sites, err);
}

int answers_one(uint64_t *numbers, struct fleet_store *store, struct store_query *q,
                struct error *err)
{
    struct answers a = {0};
    const int status = answers_ask(&a, store, q, false, err);
    memset(numbers, 0, STORE_NUMBERS * sizeof *numbers);
    if (!status && a.count)
        memcpy(numbers, a.items->numbers, sizeof a.items->numbers);
    answers_release(&a);
    return status;
}

int store_totals_ask(struct fleet_store *store, const struct fleet_selection *of,
                     struct store_totals *t, struct error *err)
{
    uint64_t numbers[STORE_NUMBERS];
    struct store_query q = {.what = ASK_TOTALS, .of = of};
    const int status = answers_one(numbers, store, &q, err);
    memcpy(t, numbers, sizeof *t);
    return status;
}

void answers_release(struct answers *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->items[i].text);
    free(a->items);
    *a = (struct answers){0};
}

int answers_json(struct json *j, struct fleet_store *store, const struct store_query *q,
                 const struct answers *a, const struct column *columns, struct error *err)
{
    const struct table table = {.columns = columns};
    int status = 0;
    json_open_array(j, "sites");
    for (size_t i = 0; i < a->count && !status; i++) {
        json_open_object(j, NULL);
        status = show_frames(j, store, a->items[i].numbers[0], q->call_sites, err);
        if (!status)
            table_fields(j, &table, &a->items[i]);
        if (!status)
            json_close_object(j);
    }
    show_sites_end(j, a->total, a->count, status ? err : NULL);
    return status;
}

int answers_text(FILE *out, struct fleet_store *store, const struct store_query *q,
                 const struct answers *a, answers_print_fn *print, const void *arg,
                 struct error *err)
{
    struct buffer line = {0};
    int status = 0;
    for (size_t i = 0; i < a->count && !status; i++) {
        buffer_clear(&line);
        status = show_call_site(store, a->items[i].numbers[0], q->call_sites, &line, err);
        if (status)
            break;
        print(out, &a->items[i], arg);
        text_printf(out, "%s\n", buffer_text(&line));
    }
    buffer_release(&line);
    return status;
}
