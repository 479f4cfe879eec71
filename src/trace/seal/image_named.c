/* image_named.c - names that the caller has for an image: of files that are there no more. */
#include "image_impl.h"

enum { FRAMES_MOST = 64 };

struct asked {
    uint64_t pc;
    uint32_t module; /* 1 + its place */
    bool exact;
};

static int by_pc(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    if (x->pc != y->pc)
        return x->pc < y->pc ? -1 : 1;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->exact - y->exact;
}

static void put_image_name(struct bytes *out, const struct trace_name *k)
{
    bytes_put(out, &k->pc, sizeof k->pc);
    bytes_put(out, &k->line, sizeof k->line);
    bytes_put_u8(out, k->inlined);
    bytes_put(out, k->function, strlen(k->function) + 1);
    bytes_put(out, k->file, strlen(k->file) + 1);
}

/* Marks the modules that are wanted; whether there are any. */
static bool choose_modules(const struct image_work *g, const struct trace_namer *namer,
                           bool *wanted)
{
    bool any = false;
    for (size_t i = 0; i < g->module_count; i++)
        any |= wanted[i] = namer->wanted(namer->arg, &g->modules[i]);
    return any;
}

int image_name(const struct image_work *g, const struct trace_namer *namer, struct bytes *out,
               struct error *err)
{
    struct trace_name names[FRAMES_MOST];
    bool *wanted = calloc(g->module_count + 1, sizeof *wanted);
    struct asked *all = NULL;
    size_t n = 0;
    int status = 0;
    if (!wanted)
        return error_memory_for(err, "sealing");
    if (!choose_modules(g, namer, wanted))
        goto out;
    all = malloc((g->used_count + 1) * sizeof *all);
    if (!all) {
        status = error_memory_for(err, "sealing");
        goto out;
    }
    for (uint32_t dense = 1; dense < g->used_count; dense++) {
        uint32_t module;
        const struct node *k = image_node_of(g, dense, &module);
        if (k && module)
            all[n++] = (struct asked){k->pc, module, k->flags & MLW_NODE_EXACT};
    }
    if (n)
        qsort(all, n, sizeof *all, by_pc);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && all[next].pc == all[i].pc;)
            next++;
        /* Where two files were mapped at one place, an address says nothing. */
        if (all[next - 1].module != all[i].module || !wanted[all[i].module - 1])
            continue;
        const size_t frames = namer->name(namer->arg, &g->modules[all[i].module - 1], all[i].pc,
                                          !all[i].exact, names, FRAMES_MOST);
        for (size_t k = 0; k < frames; k++)
            put_image_name(out, &names[k]);
    }
    if (out->failed)
        status = error_memory_for(err, "sealing");
out:
    free(all);
    free(wanted);
    return status;
}
