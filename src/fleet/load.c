/* load.c - a recording as rows of a store: identities that are equal on all hosts, and their
 * names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/sites.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strings.h"
#include "fleet/frame.h"
#include "fleet/hash.h"
#include "fleet/lives.h"
#include "fleet/store.h"
#include "fleet/times.h"
#include "frames/names.h"
#include "frames/select.h"
#include "model/replay.h"

#define NODE_FLAGS (MLW_NODE_EXACT | MLW_NODE_TRUNCATED)

struct site_node {  /* a node of the forest of sites */
    uint64_t site;  /* identity of the frames from here outward, without hidden ones */
    uint64_t path;  /* the same in any build */
    uint64_t named; /* those of them whose names are known */
};

struct load {
    struct fleet_store *store;
    const struct fleet_load_options *options;
    const struct trace_info *info;
    const struct trace_image *image;
    struct names *names;
    const struct model *model;
    struct times times;
    struct sites sites;
    struct site_node *site; /* [sites.frame_count + 1] */
    uint64_t *frame;        /* [names_count] identities; 0: not in the store yet */
    uint64_t *stack;        /* [image->stacks + 1] the same of nodes */
    uint32_t *path;         /* [image->stacks + 1] scratch */
    char **build_id;        /* [image->module_count] digits */
    struct strings locations;
    uint64_t process; /* the id that its rows name it by */
};

static int put_row(const struct load *l, enum store_table table, const void *row, struct error *err)
{
    return l->store->engine->put(l->store, table, row, err);
}

static const char *program(const struct trace_image *m)
{
    return m->exe && *m->exe ? m->exe : m->command && m->command[0] ? m->command[0] : "?";
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return hash_bytes(h, text ? text : "", text ? strlen(text) : 0);
}

/* ---- which process ---- */

static const char *host_of(const struct load *l)
{
    return l->options->host ? l->options->host : l->info->host ? l->info->host : "";
}

static const char *service_of(const struct load *l)
{
    return l->options->service ? l->options->service : path_base_name(program(l->image));
}

static uint64_t process_key(const struct load *l)
{
    const struct trace_image *m = l->image;
    uint64_t h = hash_text(1, host_of(l));
    h = hash_mix(h, l->info->start_realtime_ns);
    h = hash_mix(h, m->id);
    h = hash_mix(h, m->pid);
    h = hash_mix(h, m->start_ns);
    for (const char *const *arg = m->command; arg && *arg; arg++)
        h = hash_text(h, *arg);
    if (!l->info->start_realtime_ns) { /* a foreign trace: its content is all there is */
        h = hash_mix(h, m->calls);
        h = hash_mix(h, m->end_ns);
    }
    return hash_end(h);
}

/* events: with every block's life. */
static uint64_t process_content(const struct load *l, bool events)
{
    const struct trace_image *m = l->image;
    uint64_t h = hash_text(2, service_of(l));
    h = hash_mix(h, m->calls);
    h = hash_mix(h, m->lost_calls);
    h = hash_mix(h, m->end_ns);
    h = hash_mix(h, m->complete);
    for (size_t i = 0; i < l->options->label_count; i++) {
        h = hash_bytes(h, l->options->labels[i].key, l->options->labels[i].key_bytes);
        h = hash_text(h, l->options->labels[i].value);
    }
    if (events)
        h = hash_mix(h, 1);
    return hash_end(h);
}

/* Digits of each module's build-id. */
static int read_build_ids(struct load *l, struct error *err)
{
    l->build_id = calloc((size_t)l->image->module_count + 1, sizeof *l->build_id);
    for (uint32_t i = 0; l->build_id && i < l->image->module_count; i++) {
        const struct trace_module *m = &l->image->modules[i];
        char *digits = malloc(m->build_id_bytes * 2 + 1);
        l->build_id[i] = digits;
        if (!digits)
            return error_memory(err);
        *digits = 0;
        for (size_t k = 0; k < m->build_id_bytes; k++)
            sprintf(digits + 2 * k, "%02x", m->build_id[k]);
    }
    return l->build_id ? 0 : error_memory(err);
}

static uint64_t limit_of(uint64_t bytes) { return bytes < STORE_NO_LIMIT ? bytes : STORE_NO_LIMIT; }

/* Puts the rows that belong to the row of the process. */
static int put_parts(struct load *l, struct error *err)
{
    const struct trace_image *m = l->image;
    int status = 0;
    for (size_t i = 0; i < l->options->label_count && !status; i++)
        status =
            put_row(l, STORE_LABEL, &(struct store_label){l->process, l->options->labels[i]}, err);
    for (uint32_t i = 0; i < m->module_count && !status; i++)
        status =
            put_row(l, STORE_MODULE,
                    &(struct store_module){l->build_id[i], m->modules[i].path, l->process}, err);
    for (size_t i = 0; i < l->times.count && !status; i++) {
        l->times.slices[i].process = l->process;
        status = put_row(l, STORE_SLICE, &l->times.slices[i], err);
    }
    return status;
}

static int put_process(struct load *l, struct error *err)
{
    const struct trace_image *m = l->image;
    const struct model_totals *t = model_totals(l->model);
    const char *build = "";
    struct buffer command = {0};
    for (uint32_t i = m->module_count; i-- > 0;)
        if (m->exe && m->modules[i].path && !strcmp(m->modules[i].path, m->exe))
            build = l->build_id[i];
    buffer_append_char(&command, '[');
    for (const char *const *arg = m->command; arg && *arg; arg++) {
        buffer_append_text(&command, arg == m->command ? "" : ",");
        json_quote(&command, *arg);
    }
    buffer_append_char(&command, ']');
    const struct store_process p = {
        .key = process_key(l),
        .content = process_content(l, l->options->events),
        .host = host_of(l),
        .service = service_of(l),
        .build_id = build,
        .exe = program(m),
        .allocator = m->allocator,
        .command = buffer_text(&command),
        .start_ns = l->info->start_realtime_ns + m->start_ns,
        .end_ns = l->info->start_realtime_ns + m->end_ns,
        .pid = m->pid,
        .ppid = m->ppid,
        .complete = m->complete,
        .events = t->events,
        .lost_events = m->lost_calls,
        .requested_bytes = t->requested_bytes,
        .peak_time_ns = t->peak_time_ns > m->start_ns ? t->peak_time_ns - m->start_ns : 0,
        .stacks = model_distinct_stacks(l->model),
        .memory_limit_bytes = limit_of(l->info->limits.memory),
        .address_space_limit_bytes = limit_of(l->info->limits.address),
        .data_limit_bytes = limit_of(l->info->limits.data),
        .slice_ns = l->times.slices->width_ns,
        .figures = {.calls = t->allocations,
                    .allocated_bytes = t->requested_bytes,
                    .peak_bytes = t->peak_bytes,
                    .peak_blocks = t->peak_blocks,
                    .end_bytes = t->live_bytes,
                    .end_blocks = t->live_blocks,
                    .temporary = t->temporary,
                    .byte_seconds = times_byte_seconds(&l->times)}};
    int status = buffer_failed(&command) ? error_memory(err) : put_row(l, STORE_PROCESS, &p, err);
    l->process = l->store->last;
    buffer_release(&command);
    return status ? status : put_parts(l, err);
}

/* ---- what people read ---- */

static int put_frame(struct load *l, uint32_t id, struct buffer *json, struct error *err)
{
    if (l->frame[id])
        return 0;
    buffer_clear(json);
    names_frame_json(names_frame(l->names, id), json);
    if (buffer_failed(json))
        return error_memory(err);
    l->frame[id] = hash_end(hash_bytes(3, json->data, json->size_bytes));
    return put_row(l, STORE_FRAME, &(struct store_frame){l->frame[id], buffer_text(json)}, err);
}

static uint64_t site_id(const struct load *l, uint32_t tip)
{
    if (!tip)
        return 0;
    const uint64_t outer = l->site[l->sites.parent[tip]].site;
    return hash_end(hash_mix(hash_mix(4, outer), l->frame[l->sites.frame[tip]]));
}

static uint64_t path_id(const struct load *l, uint32_t tip)
{
    const struct name_frame *f = names_frame(l->names, l->sites.frame[tip]);
    return frame_path(l->site[l->sites.parent[tip]].path, f, f->own);
}

static int put_site(struct load *l, uint32_t tip, const struct site_node *here, int64_t call_site,
                    struct error *err)
{
    const struct store_site site = {.id = here->site,
                                    .parent = l->site[l->sites.parent[tip]].site,
                                    .frame = l->frame[l->sites.frame[tip]],
                                    .path = here->path,
                                    .call_site = call_site};
    return put_row(l, STORE_SITE, &site, err);
}

/* Puts which frame the call site of a tip is, so many frames outward without hidden ones. */
static int put_called(struct load *l, uint32_t tip, int64_t outward, uint64_t site,
                      struct error *err)
{
    const struct sites *s = &l->sites;
    uint32_t at = tip;
    while (outward-- > 0)
        do
            at = s->parent[at];
        while (names_frame(l->names, s->frame[at])->hidden);
    return put_row(l, STORE_CALLED, &(struct store_called){site, l->frame[s->frame[at]]}, err);
}

/* Where the call site is of each stack that ends at a frame, by frame; -1 where none ends. */
static int64_t *find_call_sites(const struct load *l)
{
    const struct sites *s = &l->sites;
    int64_t *of = malloc(((size_t)s->frame_count + 1) * sizeof *of);
    for (uint32_t i = 0; of && i <= s->frame_count; i++)
        of[i] = -1;
    for (size_t i = 0; of && i < s->count; i++)
        if (s->items[i].tip)
            of[s->items[i].tip] = (int64_t)names_tip(l->names, s, s->items[i].tip);
    return of;
}

static int put_sites(struct load *l, struct error *err)
{
    const struct sites *s = &l->sites;
    struct frame_source source = names_source(l->names, true);
    source.hidden = NULL;
    if (sites_build(&l->sites, l->model, &source, BY_PEAK, err))
        return -1;
    l->frame = calloc((size_t)names_count(l->names) + 1, sizeof *l->frame);
    l->site = calloc((size_t)s->frame_count + 1, sizeof *l->site);
    int64_t *call_site = find_call_sites(l);
    struct buffer json = {0};
    int status =
        !l->frame || !l->site || !call_site || names_failed(l->names) ? error_memory(err) : 0;
    for (uint32_t i = 1; i <= s->frame_count && !status; i++) { /* callers come first */
        const struct name_frame *f = names_frame(l->names, s->frame[i]);
        const struct site_node *outer = &l->site[s->parent[i]];
        status = put_frame(l, s->frame[i], &json, err);
        const uint64_t named = outer->named + f->known;
        const struct site_node here = {site_id(l, i), path_id(l, i), named};
        if (!status && (!f->hidden || call_site[i] >= 0))
            status = put_site(l, i, &here, call_site[i], err);
        if (!status && call_site[i] >= 0)
            status = put_called(l, i, call_site[i], here.site, err);
        l->site[i] = f->hidden ? (struct site_node){outer->site, outer->path, named} : here;
    }
    free(call_site);
    buffer_release(&json);
    return status;
}

/* ---- identities ---- */

/* Where a frame is, whatever was loaded where. Code without a file is known by its name alone. */
static struct store_location location(struct load *l, uint32_t node)
{
    const struct trace_image *m = l->image;
    const struct trace_frame_node *n = trace_node(m, node);
    struct store_location at = {.build_id = "", .module = "", .flags = n->flags & NODE_FLAGS};
    uint64_t h = hash_mix(5, at.flags);
    if (n->flags & MLW_NODE_TRUNCATED) {
        h = hash_mix(h, 1);
    } else if (n->module && n->module <= m->module_count) {
        const struct trace_module *module = &m->modules[n->module - 1];
        at.build_id = l->build_id[n->module - 1];
        at.module = module->path ? module->path : "";
        at.offset = n->pc - module->bias;
        h = hash_mix(hash_text(h, *at.build_id ? at.build_id : at.module), at.offset);
    } else {
        const uint32_t *ids;
        const size_t count = names_of(l->names, node, &ids);
        const struct name_frame *f = count ? names_frame(l->names, ids[0]) : NULL;
        h = hash_text(h, f && f->known ? f->function : "?");
        h = hash_mix(h, f && f->known ? f->line : 0);
    }
    at.id = hash_end(h);
    return at;
}

/* site: of the stack that ends here, 0: that is not known yet. */
static int put_node(struct load *l, uint32_t node, uint64_t site, uint64_t named, struct error *err)
{
    const struct store_location at = location(l, node);
    const uint32_t caller = trace_caller(l->image, node);
    const uint64_t outer = caller ? l->stack[caller] : 0;
    bool fresh;
    if (!strings_id(&l->locations, &at.id, sizeof at.id, &fresh))
        return error_memory(err);
    if (fresh && put_row(l, STORE_LOCATION, &at, err))
        return -1;
    l->stack[node] = hash_end(hash_mix(hash_mix(6, outer), at.id));
    return put_row(l, STORE_STACK, &(struct store_stack){l->stack[node], outer, at.id, site, named},
                   err);
}

/* The node and its callers, as far as they are not there yet. */
static int put_stack(struct load *l, uint32_t stack, struct error *err)
{
    const uint32_t tip = l->sites.tip_of[stack];
    const uint64_t site = stack ? site_id(l, tip) : 0, named = l->site[tip].named + 1;
    size_t depth = 0;
    for (uint32_t node = stack; node && !l->stack[node]; node = trace_caller(l->image, node))
        l->path[depth++] = node;
    bool done = !stack;
    while (depth--) {
        const bool last = l->path[depth] == stack;
        if (put_node(l, l->path[depth], last ? site : 0, last ? named : 0, err))
            return -1;
        done |= last;
    }
    return done ? 0
                : put_row(l, STORE_STACK, &(struct store_stack){l->stack[stack], 0, 0, site, named},
                          err);
}

static int put_figures(struct load *l, struct error *err)
{
    const struct model_stacks stacks = model_stacks(l->model);
    l->stack = calloc((size_t)l->image->stacks + 1, sizeof *l->stack);
    l->path = malloc(((size_t)l->image->stacks + 1) * sizeof *l->path);
    if (!l->stack || !l->path)
        return error_memory(err);
    for (uint32_t i = 0; i <= l->image->stacks; i++) {
        const struct model_stack *s = model_stack_of(stacks, i);
        const uint64_t byte_seconds = (uint64_t)l->times.byte_ns[i];
        if (!s->calls && !s->peak_blocks && !s->live_blocks && !s->temporary && !byte_seconds)
            continue;
        if (put_stack(l, i, err))
            return -1;
        const struct store_figure row = {l->process,
                                         l->stack[i],
                                         {.calls = s->calls,
                                          .allocated_bytes = s->allocated_bytes,
                                          .peak_bytes = s->peak_bytes,
                                          .peak_blocks = s->peak_blocks,
                                          .end_bytes = s->live_bytes,
                                          .end_blocks = s->live_blocks,
                                          .temporary = s->temporary,
                                          .byte_seconds = byte_seconds}};
        if (put_row(l, STORE_FIGURE, &row, err))
            return -1;
    }
    return 0;
}

static int put_block(void *arg, const struct lives_block *b, struct error *err)
{
    struct load *l = arg;
    const uint64_t start = l->info->start_realtime_ns;
    const struct trace_image *m = l->image;
    if (b->stack <= m->stacks && b->stack && !l->stack[b->stack] && put_stack(l, b->stack, err))
        return -1;
    const struct store_block row = {
        .process = l->process,
        .number = b->number,
        .stack = b->stack <= m->stacks ? l->stack[b->stack] : 0,
        .size_bytes = b->size_bytes,
        .address = b->address,
        .thread = b->thread < m->thread_count ? m->threads[b->thread].tid : 0,
        .freed_by = b->freed && b->freed_by < m->thread_count ? m->threads[b->freed_by].tid : 0,
        .allocated_ns = start + b->allocated_ns,
        .freed_ns = b->freed ? start + b->freed_ns : 0,
        .temporary = b->temporary};
    return put_row(l, STORE_BLOCK, &row, err);
}

static int put_blocks(struct load *l, struct trace *t, uint32_t index, struct error *err)
{
    return lives_read(t, index, put_block, l, err);
}

/* ---- */

static void release(struct load *l)
{
    for (uint32_t i = 0; l->build_id && i < l->image->module_count; i++)
        free(l->build_id[i]);
    free(l->build_id);
    if (l->frame || l->sites.items)
        sites_release(&l->sites);
    free(l->site);
    free(l->frame);
    free(l->stack);
    free(l->path);
    times_release(&l->times);
    strings_release(&l->locations);
    names_free(l->names);
}

static int load_image(struct load *l, struct trace *t, uint32_t index, struct symbols *symbols,
                      struct error *err)
{
    const struct model_filter everything = {0};
    struct model *m = NULL;
    l->names = names_new(symbols, l->image, err);
    if (!l->names)
        return -1;
    names_set_look(l->names, &l->options->look);
    int status = times_init(&l->times, l->image, l->info->start_realtime_ns, err);
    if (!status)
        status = model_replay_observed(t, index, &everything, &l->times.observer, &m, err);
    l->model = m;
    if (!status)
        times_finish(&l->times, m);
    if (!status)
        status = read_build_ids(l, err);
    if (!status)
        status = put_process(l, err);
    if (!status)
        status = put_sites(l, err);
    if (!status)
        status = put_figures(l, err);
    if (!status && l->options->events)
        status = put_blocks(l, t, index, err);
    model_free(m);
    return status;
}

/* The action for a process; `present` is the whole answer when it is nothing. */
static int plan(struct load *l, bool *present, bool *replaces, struct error *err)
{
    struct store_found found;
    if (l->store->engine->find(l->store, STORE_PROCESS, process_key(l), &found, err))
        return -1;
    /* a load without blocks leaves those that are there */
    *present =
        found.there && (found.content == process_content(l, true) ||
                        (!l->options->events && found.content == process_content(l, false)) ||
                        found.events > l->image->calls);
    *replaces = found.there && !*present;
    return 0;
}

static int load_all(struct fleet_store *store, struct trace *t, struct symbols *symbols,
                    const struct fleet_load_options *options, bool dry, struct fleet_loaded *loaded,
                    struct error *err)
{
    const struct trace_info *info = trace_info(t);
    int status = 0;
    *loaded = (struct fleet_loaded){0};
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        struct load l = {
            .store = store, .options = options, .info = info, .image = &info->images[i]};
        bool present = false, replaces = false;
        status = plan(&l, &present, &replaces, err);
        if (!status && present)
            loaded->present++;
        else if (!status && replaces)
            loaded->replaced++;
        else if (!status)
            loaded->added++;
        if (status || present || dry)
            continue;
        if (replaces)
            status = store->engine->remove(store, process_key(&l), err);
        if (!status)
            status = load_image(&l, t, i, symbols, err);
        release(&l);
    }
    return status;
}

int fleet_load(struct fleet_store *store, struct trace *t, struct symbols *symbols,
               const struct fleet_load_options *options, struct fleet_loaded *loaded,
               struct error *err)
{
    /* processes already there are known without a look at its events, and without the right to
     * write */
    if (load_all(store, t, symbols, options, true, loaded, err))
        return -1;
    if (!loaded->added && !loaded->replaced)
        return 0;
    if (store->engine->begin(store, err))
        return -1;
    int status = load_all(store, t, symbols, options, false, loaded, err);
    if (!status)
        status = store->engine->commit(store, err);
    if (status)
        store->engine->rollback(store);
    return status;
}
