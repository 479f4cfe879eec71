/* kinds.c - the list of kinds, from PROBE_KINDS in kind.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/kind.h"
#include "probe/where.h"
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

/* How much of a name that is n long fits into a message. */
static int shown_length(size_t n) { return n < 64 ? (int)n : 64; }

/* "process, command, ..., none". */
static const char *list_keys(char *text, size_t room)
{
    size_t n = 0;
    for (const struct probe_key_name *k = probe_key_names; k->name && n < room; k++)
        n += (size_t)snprintf(text + n, room - n, "%s, ", k->name);
    snprintf(text + n, n < room ? room - n : 0, "none");
    return text;
}

int probe_by_parse(const struct probe_kind *kind, const char *text, uint32_t *by, struct error *err)
{
    *by = kind->by;
    if (!text)
        return 0;
    *by &= PROBE_BY_SIZE & kind->may_by; /* the histogram stays */
    if (!strcmp(text, "none"))
        return 0;
    for (const char *p = text; *p; p += strspn(p, ",")) {
        const size_t n = strcspn(p, ",");
        const struct probe_key_name *key = probe_key_find(p, n);
        char names[256];
        if (!key)
            return error_set(err, ERROR_USAGE, ": '%.*s' is not one of %s", shown_length(n), p,
                             list_keys(names, sizeof names));
        if (!(kind->may_by & key->by))
            return error_set(err, ERROR_USAGE, " %.*s does not apply to '%s'", (int)n, p,
                             kind->name);
        *by |= key->by;
        p += n;
    }
    return 0;
}

/* One of the values in `may`, a bit each, by its name in JSON: one more than its number. */
static int parse_value(const struct probe_kind *kind, unsigned may, const char *text,
                       uint32_t *value, struct error *err)
{
    char names[256] = "";
    *value = 0;
    if (!text)
        return 0;
    for (uint32_t i = 0; i < PROBE_VALUES && kind != &probe_kind_arenas; i++) {
        const char *name = kind->layout.value[i];
        const size_t n = strlen(names);
        if (!name || !(may >> i & 1))
            continue;
        if (!strcmp(name, text)) {
            *value = i + 1;
            return 0;
        }
        snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", name);
    }
    if (!*names)
        return error_set(err, ERROR_USAGE, " does not apply to '%s'", kind->name);
    return error_set(err, ERROR_USAGE, ": '%.64s' is not one of %s", text, names);
}

int probe_order_parse(const struct probe_kind *kind, const char *text, uint32_t *order,
                      struct error *err)
{
    return parse_value(kind, ~0u, text, order, err);
}

int probe_histogram_parse(const struct probe_kind *kind, const char *text, uint32_t *histogram,
                          struct error *err)
{
    if (parse_value(kind, kind->layout.may_histogram, text, histogram, err))
        return -1;
    if (kind->layout.histogram) /* the one value with a histogram has it anyway */
        *histogram = 0;
    return 0;
}

int probe_where_parse(const struct probe_kind *kind, const char *text, struct probe_where *where,
                      struct error *err)
{
    *where = (struct probe_where){0};
    return text ? where_compile(kind, text, where, err) : 0;
}

/* The kinds that a recording can keep: "faults, rss". */
static const char *stream_names(char *text, size_t room)
{
    size_t n = 0;
    *text = 0;
    for (const struct probe_kind *const *k = probe_kinds; *k && n < room; k++)
        if ((*k)->stream)
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "", (*k)->name);
    return text;
}

int probe_streams_parse(const char *text, const struct probe_kind **kinds, size_t room,
                        struct error *err)
{
    char names[128];
    size_t count = 0;
    for (const char *p = text; *p; p += strspn(p, ",")) {
        char name[16];
        size_t n = strcspn(p, ","), i = 0;
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 15, p);
        const struct probe_kind *kind = n < sizeof name ? probe_kind_find(name) : NULL;
        if (!kind)
            return error_set(err, ERROR_USAGE, ": '%.*s' is not one of %s", shown_length(n), p,
                             stream_names(names, sizeof names));
        if (!kind->stream)
            return error_set(err, ERROR_USAGE, " %s is not supported: %s", name, kind->no_stream);
        while (i < count && kinds[i] != kind)
            i++;
        if (i == count && count < room)
            kinds[count++] = kind;
        p += n;
    }
    if (!count)
        return error_set(err, ERROR_USAGE, ": name one or more of %s",
                         stream_names(names, sizeof names));
    return (int)count;
}

int probe_list(const struct probe_options *o, struct probe_functions *list, struct error *err)
{
    struct probe_engine e = {.options = o};
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
