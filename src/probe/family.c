/* family.c - Finds the allocation functions in a library's symbols, with prefixes of other
 * allocators, and notes which argument holds the size. Aliases of one function count once. */
#include "probe/family.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/sizes.h"
#include "format/op.h"
#include "symbol/functions.h"

/* The family, by the C names; what another allocator calls them has these at the end. reallocarray
 * is not here, because the C library's calls realloc. */
static const struct member {
    uint8_t op;
    enum sizes_form form;
} members[] = {
    {MLW_OP_MALLOC, SIZES_FIRST},         {MLW_OP_CALLOC, SIZES_PRODUCT},
    {MLW_OP_REALLOC, SIZES_RESIZE},       {MLW_OP_MEMALIGN, SIZES_SECOND},
    {MLW_OP_ALIGNED_ALLOC, SIZES_SECOND}, {MLW_OP_POSIX_MEMALIGN, SIZES_THIRD},
    {MLW_OP_VALLOC, SIZES_FIRST},         {MLW_OP_PVALLOC, SIZES_FIRST},
    {MLW_OP_MALLOCX, SIZES_FIRST},        {MLW_OP_RALLOCX, SIZES_RESIZE},
};

enum { MEMBERS = sizeof members / sizeof *members };

/* Where the size stands in a function that the user named. */
static enum sizes_form form_of(const char *name)
{
    size_t length = strlen(name), best = 0;
    enum sizes_form form = SIZES_FIRST;
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t n = strlen(mlw_op_name(members[i].op));
        if (n <= length && n > best && !strcmp(name + length - n, mlw_op_name(members[i].op))) {
            best = n;
            form = members[i].form;
        }
    }
    return form;
}

static bool family_is_wanted(const struct probe_options *o, const char *name)
{
    for (size_t i = 0; i < o->function_count; i++)
        if (!fnmatch(o->functions[i], name, 0))
            return true;
    for (size_t i = 0; !o->function_count && i < MEMBERS; i++)
        if (!strcmp(mlw_op_name(members[i].op), name))
            return true;
    return false;
}

/* True if this is glibc's allocator, whose realloc(NULL, size) jumps to malloc: one request, which
 * is to be counted once. */
static bool realloc_is_malloc(const struct probe_options *o, const struct functions *f)
{
    const struct function *inner = functions_find(f, "__libc_malloc");
    const struct function *outer = functions_find(f, "malloc");
    return inner && outer && inner->offset == outer->offset && family_is_wanted(o, "malloc");
}

static bool is_new(const struct place *places, size_t n, uint64_t offset)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].offset == offset)
            return false; /* another name of the same function */
    return true;
}

int family_find(const struct probe_options *o, const char *path, struct family *family,
                struct error *err)
{
    struct functions f;
    *family = (struct family){.count = 0};
    if (functions_read(path, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL, &f, err))
        return -1;
    for (size_t i = 0; i < f.count && family->count < FAMILY_PLACES_MAX; i++) {
        const struct function *at = &f.at[i];
        size_t n = family->count;
        if (!family_is_wanted(o, at->name) || !is_new(family->place, n, at->offset))
            continue;
        enum sizes_form form = form_of(at->name);
        if (form == SIZES_RESIZE && realloc_is_malloc(o, &f))
            form = SIZES_RESIZE_ELSE;
        family->place[n] = (struct place){.offset = at->offset, .cookie = n << 8 | (uint64_t)form};
        family->place[n].name = family->name[n] = strdup(at->name);
        if (!family->name[n]) {
            functions_release(&f);
            return error_memory(err);
        }
        family->count++;
    }
    functions_release(&f);
    if (family->count == 0)
        return error_set(err, ERROR_USAGE, "%s has none of the functions; --function names others",
                         path);
    return 0;
}

void family_release(struct family *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->name[i]);
    f->count = 0;
}
