/* unplaced.c - places that have no probe: kept for the result, and said in a line for each reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "probe/kind.h"

static int keep_unplaced(struct probe_engine *e, const char *path, const struct place *place,
                         struct error *err)
{
    if (!ARRAY_ROOM(e->unplaced, e->unplaced_count + 1, e->unplaced_room))
        return error_memory(err);
    struct probe_unplaced *u = &e->unplaced[e->unplaced_count];
    *u = (struct probe_unplaced){.name = place->name ? strdup(place->name) : NULL,
                                 .path = strdup(path),
                                 .offset = place->offset,
                                 .why = attach_refusal(place)};
    e->unplaced_count++;
    e->result->unplaced = e->unplaced;
    e->result->unplaced_count = e->unplaced_count;
    return u->path && (u->name || !place->name) ? 0 : error_memory(err);
}

/* Adds one to the names in a line. */
static void put_unplaced_name(char *line, size_t room, const struct probe_unplaced *u)
{
    const size_t n = strlen(line);
    if (u->name)
        snprintf(line + n, room - n, "%s%.80s", n ? ", " : "", u->name);
    else
        snprintf(line + n, room - n, "%s%.160s at 0x%llx", n ? ", " : "", u->path,
                 (unsigned long long)u->offset);
}

static void say_unplaced(const struct probe_engine *e, size_t first, const char *why)
{
    enum { NAMED = 4 };
    char names[512] = "", more[48] = "";
    size_t n = 0;
    for (size_t i = first; i < e->unplaced_count; i++)
        if (e->unplaced[i].why == why && n++ < NAMED)
            put_unplaced_name(names, sizeof names, &e->unplaced[i]);
    if (n > NAMED)
        snprintf(more, sizeof more, " and %zu more", n - NAMED);
    engine_say(e, "%s%s cannot be probed: %s", names, more, why);
}

int engine_say_refused(struct probe_engine *e, const char *path, const struct place *places,
                       size_t n, struct error *err)
{
    const size_t first = e->unplaced_count;
    for (size_t i = 0; i < n; i++)
        if (places[i].refused && keep_unplaced(e, path, &places[i], err))
            return -1;
    for (size_t i = first; i < e->unplaced_count; i++) {
        size_t k = first;
        while (e->unplaced[k].why != e->unplaced[i].why)
            k++;
        if (k == i) /* the first of its reason */
            say_unplaced(e, first, e->unplaced[i].why);
    }
    return 0;
}

void engine_release_unplaced(struct probe_engine *e)
{
    for (size_t i = 0; i < e->unplaced_count; i++) {
        free((char *)e->unplaced[i].name);
        free((char *)e->unplaced[i].path);
    }
    free(e->unplaced);
}
