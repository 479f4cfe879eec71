/* kinds.c - the list of kinds, from PROBE_KINDS in kind.h. */
#include <stdlib.h>
#include <string.h>

#include "probe/kind.h"
#include "symbol/functions.h"

#define PROBE_KIND_LISTED(name) &probe_kind_##name,
const struct probe_kind *const probe_kinds[] = {PROBE_KINDS(PROBE_KIND_LISTED) NULL};

const struct probe_kind *probe_kind_find(const char *name)
{
    for (const struct probe_kind *const *k = probe_kinds; *k; k++)
        if (!strcmp((*k)->name, name))
            return *k;
    return NULL;
}

const char *probe_kind_name(const struct probe_kind *k) { return k->name; }
const char *probe_kind_summary(const struct probe_kind *k) { return k->summary; }
uint32_t probe_kind_by(const struct probe_kind *k) { return k->by; }
uint32_t probe_kind_may_by(const struct probe_kind *k) { return k->may_by; }
bool probe_kind_uses_library(const struct probe_kind *k) { return k->uses_library; }
bool probe_kind_has_mmap(const struct probe_kind *k) { return k->has_mmap; }
unsigned probe_kind_stream(const struct probe_kind *k) { return k->stream; }
uint32_t probe_kind_stream_by(const struct probe_kind *k) { return k->stream_by; }
bool probe_kind_has_live(const struct probe_kind *k) { return k->has_live; }
bool probe_kind_has_list(const struct probe_kind *k) { return k->list != NULL; }
bool probe_kind_has_sizes(const struct probe_kind *k) { return k->has_sizes; }
const char *probe_kind_no_stream(const struct probe_kind *k) { return k->no_stream; }
const struct probe_layout *probe_kind_layout(const struct probe_kind *k) { return &k->layout; }

int probe_list(const struct probe_options *o, struct probe_functions *list, struct error *err)
{
    struct engine e = {.options = o};
    *list = (struct probe_functions){0};
    struct functions *f = calloc(1, sizeof *f);
    if (!f)
        return error_memory(err);
    list->own = f;
    int bad =
        engine_find_files(&e, err) || o->kind->list(&e, list->path, sizeof list->path, f, err);
    files_release(&e.files);
    if (bad)
        return -1;
    list->name = calloc(f->count + 1, sizeof *list->name);
    list->offset = calloc(f->count + 1, sizeof *list->offset);
    if (!list->name || !list->offset)
        return error_memory(err);
    for (; list->count < f->count; list->count++) {
        list->name[list->count] = f->at[list->count].name;
        list->offset[list->count] = f->at[list->count].offset;
    }
    return 0;
}

void probe_list_release(struct probe_functions *list)
{
    if (list->own)
        functions_release(list->own);
    free(list->own);
    free((void *)list->name);
    free(list->offset);
    *list = (struct probe_functions){0};
}
