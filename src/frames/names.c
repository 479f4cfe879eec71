/* names.c - Looks up the functions at each address of an image once, and numbers frames that
 * read the same. It then finds the call site of a stack: the first frame that is neither
 * allocator, library nor interpreter. A failed allocation marks the whole object, and
 * names_failed reports it. */
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/json.h"
#include "base/large.h"
#include "base/path.h"
#include "symbol/spelling.h"

#define INLINE_MAX 64

struct span { /* the frames at one address */
    uint64_t pc;
    uint32_t module, exact;
    uint32_t first, count; /* in ids */
};

struct names {
    struct symbols *symbols;
    const struct trace_image *image;
    uint32_t scanned; /* nodes */
    bool foreign;     /* the recording's own names are the only ones */
    bool scripts;     /* some frames are functions of scripts */
    bool met_script;  /* so is one that was looked up */
    struct span *spans;
    uint32_t span_count, span_room;
    struct index span_index; /* by (module, pc, exact) */
    uint32_t *span_at;       /* [span_nodes] by node: its span + 1; 0: not looked for yet */
    uint32_t span_nodes;
    uint32_t *ids;
    size_t id_count, id_room;
    struct name_frame *frames;
    size_t frame_count, frame_room;
    struct index frame_index;
    char **texts; /* made here */
    size_t text_count, text_room;
    struct names_look look;
    bool looks;       /* look was set */
    bool root_known;  /* root was looked for */
    const char *root; /* never NULL */
    bool failed;
};

/* True: it was made from a foreign trace with names: nothing identifies its files. */
static bool is_of_foreign_trace(const struct trace_image *image)
{
    for (uint32_t i = 0; i < image->module_count; i++)
        if (image->modules[i].build_id_bytes || image->modules[i].file_bytes)
            return false;
    return image->name_count;
}

struct names *names_new(struct symbols *symbols, const struct trace_image *image, struct error *err)
{
    struct names *n = calloc(1, sizeof *n);
    if (!n) {
        error_memory(err);
        return NULL;
    }
    n->symbols = symbols;
    n->image = image;
    n->foreign = is_of_foreign_trace(image);
    n->root = "";
    return n;
}

struct names *names_again(const struct names *n, struct error *err)
{
    struct names *again = names_new(n->symbols, n->image, err);
    if (again && n->looks)
        names_set_look(again, &n->look);
    return again;
}

void names_set_look(struct names *n, const struct names_look *look)
{
    n->look = *look;
    n->looks = true;
}

void names_free(struct names *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->text_count; i++)
        free(n->texts[i]);
    free(n->texts);
    free(n->spans);
    free(n->span_at);
    index_release(&n->span_index);
    free(n->ids);
    free(n->frames);
    index_release(&n->frame_index);
    free(n);
}

static const char *names_keep_text(struct names *n, char *text)
{
    if (text && ARRAY_ROOM(n->texts, n->text_count + 1, n->text_room))
        return n->texts[n->text_count++] = text;
    free(text);
    n->failed = true;
    return "?";
}

static uint64_t hash_name(uint64_t h, const char *s)
{
    for (; s && *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return (h ^ 0xff) * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_frame(const struct name_frame *f)
{
    uint64_t h = hash_name(0xcbf29ce484222325u, f->full);
    h = hash_name(h, f->file);
    h = hash_name(h, f->module);
    h = (h ^ f->line ^ (uint64_t)f->inlined << 40) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 31;
}

static bool same_frame_name(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_frame(const struct name_frame *a, const struct name_frame *b)
{
    return a->line == b->line && a->inlined == b->inlined && same_frame_name(a->full, b->full) &&
           same_frame_name(a->file, b->file) && same_frame_name(a->module, b->module);
}

/* The name as it is shown. */
static const char *shown_name(struct names *n, const char *full)
{
    struct buffer b = {0};
    const char *shown = full;
    if (!n->looks || n->look.full_names)
        return full;
    if (!spelling_short(full, &b) && buffer_failed(&b))
        n->failed = true;
    else if (b.size_bytes && strcmp(buffer_text(&b), full) != 0)
        shown = names_keep_text(n, strdup(buffer_text(&b)));
    buffer_release(&b);
    return shown;
}

/* The name without the parameters of a C++ function; NULL when it has none, or they are asked for.
 */
static const char *brief_name(struct names *n, const char *shown)
{
    if (!n->looks || n->look.full_names || !strchr(shown, '('))
        return NULL;
    const size_t end = spelling_parts(shown).end;
    return end && shown[end] ? names_keep_text(n, strndup(shown, end)) : NULL;
}

/* The path without "." and ".." in it, as build systems make them: as a text, links are not looked
 * at. */
static const char *normal(struct names *n, const char *path)
{
    if (path[0] != '/' || !strstr(path, "/."))
        return path;
    char *to = strdup(path);
    size_t used = 0;
    for (const char *p = path; to && *p;) {
        const size_t part = 1 + strcspn(p + 1, "/"); /* with the slash before it */
        if (part == 3 && p[1] == '.' && p[2] == '.') {
            while (used && to[--used] != '/')
                ;
        } else if (part != 2 || p[1] != '.') {
            memmove(to + used, p, part);
            used += part;
        }
        p += part;
    }
    if (to)
        to[used] = 0;
    return names_keep_text(n, to);
}

/* Where the file is, for people. */
static void show_place(struct names *n, struct name_frame *f)
{
    const size_t root = strlen(n->root);
    f->place = f->file;
    if (!f->file)
        return;
    const char *file = normal(n, f->file);
    f->below = root && !strncmp(file, n->root, root) && file[root] == '/' && file[root + 1];
    if (f->below) {
        f->place = file + root + 1;
    } else if (f->file[0] == '/') {
        f->place = path_base_name(f->file);
    } else if (!f->own && f->file[0] != '<' && !strchr(f->file, ':')) {
        f->place = path_base_name(f->file);
    } else {
        while (!strncmp(f->place, "../", 3) || !strncmp(f->place, "./", 2))
            f->place += f->place[1] == '/' ? 2 : 3;
        if (!*f->place)
            f->place = f->file;
    }
}

/* Frames of an interpreter are machinery where the scripts that it runs have frames themselves. */
static bool hides_site(const struct names *n, const struct name_frame *f)
{
    return f->role == ROLE_INTERPRETER ? n->scripts : f->role != ROLE_CODE;
}

bool names_frame_matches(const struct name_frame *f, const struct pattern *p)
{
    return pattern_matches(p, f->function) || pattern_matches(p, f->full);
}

/* Allocates for its callers, as the user says. */
static bool is_alloc_fn(const struct names *n, const struct name_frame *f)
{
    for (size_t i = 0; f->known && i < n->look.alloc_fn_count; i++)
        if (names_frame_matches(f, &n->look.alloc_fns[i]))
            return true;
    return false;
}

/* The id of a frame; a new one when none reads the same. */
static uint32_t intern(struct names *n, struct name_frame f)
{
    const uint64_t hash = hash_frame(&f);
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&n->frame_index, hash, &at)) != INDEX_NONE;)
        if (same_frame(&n->frames[i], &f))
            return i;
    i = (uint32_t)n->frame_count;
    if (!ARRAY_ROOM(n->frames, n->frame_count + 1, n->frame_room) ||
        !index_add(&n->frame_index, hash, i)) {
        n->failed = true;
        return 0;
    }
    f.function = f.known ? shown_name(n, f.full) : f.full;
    f.brief = f.known ? brief_name(n, f.function) : NULL;
    f.role = f.cut                ? ROLE_LIBRARY
             : is_alloc_fn(n, &f) ? ROLE_ALLOCATOR
                                  : role_of(f.known ? f.full : NULL, f.module, f.file);
    f.wrapper = !f.cut && hides_site(n, &f);
    f.hidden = f.role == ROLE_START && n->looks && !n->look.start_frames;
    show_place(n, &f);
    n->frames[n->frame_count++] = f;
    return i;
}

/* The functions that the recording itself names at an address; innermost first. 0: none. */
static size_t recorded_names(const struct names *n, uint64_t pc, struct symbol_frame *found,
                             size_t max)
{
    const struct trace_image *image = n->image;
    uint32_t low = 0, high = image->name_count;
    size_t count = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (image->names[middle].pc < pc)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < image->name_count && image->names[low].pc == pc && count < max; low++) {
        const struct trace_name *k = &image->names[low];
        found[count++] = (struct symbol_frame){.function = *k->function ? k->function : NULL,
                                               .file = *k->file ? k->file : NULL,
                                               .line = k->line,
                                               .inlined = k->inlined};
        if (!k->inlined)
            break;
    }
    return count;
}

/* The functions at a node, innermost first; at least one. *from: its module, or NULL. */
static size_t resolve_node(const struct names *n, const struct trace_frame_node *node,
                           struct symbol_frame *found, size_t max, const struct trace_module **from)
{
    struct symbol_module module;
    const struct trace_module *in = node->module && node->module <= n->image->module_count
                                        ? &n->image->modules[node->module - 1]
                                        : NULL;
    *from = in;
    memset(found, 0, sizeof *found);
    if (in)
        module = (struct symbol_module){.path = in->path,
                                        .build_id = in->build_id,
                                        .build_id_bytes = in->build_id_bytes,
                                        .file_bytes = in->file_bytes,
                                        .file_mtime_ns = in->file_mtime_ns,
                                        .file_sum = in->file_sum,
                                        .start = in->start,
                                        .end = in->end,
                                        .bias = in->bias};
    const size_t recorded = in || n->foreign ? recorded_names(n, node->pc, found, max) : 0;
    if (recorded)
        return recorded;
    if (n->symbols && !n->foreign)
        return symbols_lookup(n->symbols, in ? &module : NULL, n->image->pid, node->pc,
                              !(node->flags & MLW_NODE_EXACT), found, max);
    return 1;
}

static bool is_script(const struct name_frame *f)
{
    return f->known && f->module &&
           (!strcmp(f->module, SYMBOL_PYTHON) || !strcmp(f->module, SYMBOL_JAVASCRIPT));
}

static bool module_is_own(const struct names *n, const struct trace_module *from)
{
    return from && n->image->exe && from->path && !strcmp(from->path, n->image->exe);
}

static void look_up_node(struct names *n, const struct trace_frame_node *node, struct span *span)
{
    struct symbol_frame found[INLINE_MAX];
    const struct trace_module *from;
    const size_t count = resolve_node(n, node, found, INLINE_MAX, &from);
    span->first = (uint32_t)n->id_count;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_frame *s = &found[i];
        struct name_frame f = {.full = s->function,
                               .file = s->file,
                               .module = s->module,
                               .line = s->line,
                               .inlined = s->inlined,
                               .known = s->function != NULL};
        if (!f.module && from)
            f.module = path_base_name(from->path);
        f.own = module_is_own(n, from) || is_script(&f);
        n->met_script |= is_script(&f);
        if (!f.full) {
            char text[512];
            if (from && f.module)
                snprintf(text, sizeof text, "%.400s+0x%llx", f.module,
                         (unsigned long long)(node->pc - from->bias));
            else
                snprintf(text, sizeof text, "0x%llx", (unsigned long long)node->pc);
            f.full = names_keep_text(n, strdup(text));
        }
        uint32_t id = intern(n, f);
        if (!ARRAY_ROOM(n->ids, n->id_count + 1, n->id_room)) {
            n->failed = true;
            return;
        }
        n->ids[n->id_count++] = id;
        span->count++;
    }
}

static void look_up_cut(struct names *n, struct span *span)
{
    struct name_frame f = {.full = "[stack not unwound further]", .cut = true};
    span->first = (uint32_t)n->id_count;
    uint32_t id = intern(n, f);
    if (!ARRAY_ROOM(n->ids, n->id_count + 1, n->id_room)) {
        n->failed = true;
        return;
    }
    n->ids[n->id_count++] = id;
    span->count = 1;
}

/* Finds the span of this node's address; looks it up when it is new. NULL without memory. */
static const struct span *find_span(struct names *n, const struct trace_frame_node *node)
{
    const bool cut = node->flags & MLW_NODE_TRUNCATED;
    const struct span key = {.pc = cut ? 0 : node->pc,
                             .module = cut ? 0 : node->module,
                             .exact = node->flags & (MLW_NODE_EXACT | MLW_NODE_TRUNCATED)};
    const uint64_t hash = key.pc ^ (uint64_t)key.module << 40 ^ (uint64_t)key.exact << 62;
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&n->span_index, hash, &at)) != INDEX_NONE;)
        if (n->spans[i].pc == key.pc && n->spans[i].module == key.module &&
            n->spans[i].exact == key.exact)
            return &n->spans[i];
    if (!ARRAY_ROOM(n->spans, n->span_count + (size_t)1, n->span_room) ||
        !index_add(&n->span_index, hash, n->span_count)) {
        n->failed = true;
        return NULL;
    }
    struct span *span = &n->spans[n->span_count++];
    *span = key;
    if (cut)
        look_up_cut(n, span);
    else
        look_up_node(n, node, span);
    return span;
}

/* The same, remembered by node. */
static inline const struct span *span_of_node(struct names *n, uint32_t node)
{
    if (node < n->span_nodes && n->span_at[node])
        return &n->spans[n->span_at[node] - 1];
    const struct span *span = find_span(n, trace_node(n->image, node));
    size_t room = n->span_nodes;
    if (span && node >= n->span_nodes &&
        ARRAY_ROOM_BY(large_room, n->span_at, (size_t)n->image->stacks + 1, room)) {
        memset(n->span_at + n->span_nodes, 0, (room - n->span_nodes) * sizeof *n->span_at);
        n->span_nodes = (uint32_t)room;
    }
    if (span && node < n->span_nodes)
        n->span_at[node] = (uint32_t)(span - n->spans) + 1;
    return span;
}

/* ---- the root of the sources ---- */

/* Sources that are not the program's own, although code of theirs is in it. */
static bool is_foreign_source(const char *file)
{
    static const char *const parts[] = {
        "/usr/",          "/rustc/", "/.cargo/registry/", "/.cargo/git/", "/site-packages/",
        "/node_modules/", NULL};
    for (size_t i = 0; parts[i]; i++)
        if (i < 2 ? !strncmp(file, parts[i], strlen(parts[i])) : strstr(file, parts[i]) != NULL)
            return true;
    return false;
}

/* Length of the directory that both paths have in common. */
static size_t common(const char *a, size_t length, const char *b)
{
    size_t slash = 0, i = 0;
    while (i < length && a[i] == b[i]) {
        if (a[i] == '/')
            slash = i;
        i++;
    }
    return i == length && b[i] == '/' ? length : slash;
}

/* The directory that the program's own sources have in common, of a part of its code. */
static void find_root(struct names *n)
{
    enum { LOOKED_AT = 256 };
    const struct trace_image *image = n->image;
    const uint32_t step = image->stacks / (LOOKED_AT * 4) + 1;
    const char *first = NULL;
    size_t length = 0;
    unsigned looked = 0;
    n->root_known = true;
    if (n->look.source_root) {
        n->root = n->look.source_root;
        return;
    }
    for (uint32_t node = 1; node <= image->stacks && looked < LOOKED_AT; node += step) {
        const struct trace_frame_node *at = trace_node(image, node);
        struct symbol_frame found[INLINE_MAX];
        const struct trace_module *from = at->module && at->module <= image->module_count
                                              ? &image->modules[at->module - 1]
                                              : NULL;
        if (at->flags & MLW_NODE_TRUNCATED || (at->module && !module_is_own(n, from)))
            continue;
        looked++;
        const size_t count = resolve_node(n, at, found, INLINE_MAX, &from);
        for (size_t i = 0; i < count; i++) {
            const char *file = found[i].file;
            const char *module = found[i].module ? found[i].module : from ? from->path : NULL;
            if (!file || file[0] != '/' || is_foreign_source(file) ||
                role_of(found[i].function, module, file) != ROLE_CODE)
                continue;
            file = normal(n, file);
            if (!first) {
                first = file;
                length = (size_t)(strrchr(file, '/') - file);
            } else {
                length = common(first, length, file);
            }
        }
    }
    if (first && length && memchr(first + 1, '/', length - 1)) /* not "/home" */
        n->root = names_keep_text(n, strndup(first, length));
}

const char *names_source_root(struct names *n)
{
    if (!n->root_known)
        find_root(n);
    return n->root;
}

size_t names_of(struct names *n, uint32_t node, const uint32_t **ids)
{
    *ids = NULL;
    if (!node || node > n->image->stacks)
        return 0;
    if (n->looks && !n->root_known)
        find_root(n);
    const struct span *span = span_of_node(n, node);
    if (!span)
        return 0;
    *ids = n->ids + span->first;
    return span->count;
}

static bool has_no_name(const struct names *n, const struct span *span)
{
    return !span->module && !(span->exact & MLW_NODE_TRUNCATED) && span->count == 1 &&
           !n->frames[n->ids[span->first]].known;
}

void names_renew(struct names *n)
{
    if (!n->symbols || !symbols_renew(n->symbols, n->image->pid))
        return;
    for (uint32_t i = 0; i < n->span_count; i++) {
        struct span *span = &n->spans[i];
        const struct trace_frame_node node = {.pc = span->pc,
                                              .flags = (uint8_t)(span->exact & MLW_NODE_EXACT)};
        struct symbol_frame found[INLINE_MAX];
        const struct trace_module *from;
        if (!has_no_name(n, span) ||
            (resolve_node(n, &node, found, INLINE_MAX, &from) == 1 && !found[0].function))
            continue; /* a name that stays as it is takes no memory */
        span->count = 0;
        look_up_node(n, &node, span);
    }
    n->scanned = 0;
}

bool names_next(struct names *n, struct names_walk *w)
{
    const uint32_t *ids;
    for (; w->node; w->node = trace_caller(n->image, w->node), w->next = 0)
        if (w->next < names_of(n, w->node, &ids)) {
            w->position = w->next++;
            w->id = ids[w->position];
            return true;
        }
    return false;
}

size_t names_append(struct names *n, uint32_t stack, struct buffer *ids)
{
    size_t count = 0;
    for (struct names_walk w = {.node = stack}; names_next(n, &w); count++)
        buffer_append(ids, &w.id, sizeof w.id);
    return count;
}

const struct name_frame *names_frame(const struct names *n, uint32_t id) { return &n->frames[id]; }
void names_frame_json(const struct name_frame *frame, struct buffer *b)
{
    buffer_append_text(b, "{\"function\":");
    json_quote(b, frame->function);
    buffer_append_text(b, ",\"file\":");
    json_quote(b, frame->file ? frame->file : "");
    buffer_printf(b, ",\"line\":%u,\"module\":", frame->line);
    json_quote(b, frame->module ? frame->module : "");
    buffer_append_text(b, frame->inlined ? ",\"inlined\":true" : ",\"inlined\":false");
    if (!frame->known && !frame->cut)
        buffer_append_text(b, ",\"unnamed\":true");
    if (frame->cut)
        buffer_append_text(b, ",\"cut\":true");
    buffer_append_text(b, "}");
}

const struct trace_image *names_image(const struct names *n) { return n->image; }
uint32_t names_count(const struct names *n) { return (uint32_t)n->frame_count; }
bool names_failed(const struct names *n) { return n->failed; }

static size_t source_frames(void *arg, uint32_t node, const uint32_t **ids)
{
    return names_of(arg, node, ids);
}

static bool source_site(void *arg, uint32_t stack, uint32_t *node, uint32_t *position)
{
    return names_site(arg, stack, node, position) != NO_NAME;
}

static uint64_t digest_frame(const struct name_frame *f)
{
    const unsigned flags = f->known | (unsigned)f->own << 1 | (unsigned)f->cut << 2 |
                           (unsigned)f->hidden << 3 | (unsigned)f->role << 4;
    return (hash_frame(f) ^ flags) * 0xbf58476d1ce4e5b9u;
}

uint64_t names_digest(struct names *n)
{
    const uint32_t *ids;
    uint64_t sum =
        hash_name(n->look.full_names | (uint64_t)n->look.start_frames << 1, names_source_root(n));
    for (uint32_t node = 1; node <= n->image->stacks; node++)
        names_of(n, node, &ids);
    for (uint32_t i = 0; i < n->span_count; i++) {
        const struct span *s = &n->spans[i];
        uint64_t h =
            (s->pc ^ (uint64_t)s->module << 40 ^ (uint64_t)s->exact << 62) * 0x94d049bb133111ebu;
        for (uint32_t k = 0; k < s->count; k++)
            h = (h ^ h >> 31 ^ digest_frame(&n->frames[n->ids[s->first + k]])) *
                0x9e3779b97f4a7c15u;
        sum += h ^ h >> 32;
    }
    return sum;
}

/* ---- call sites ---- */

static void show_scripts(struct names *n)
{
    if (n->scripts || !n->met_script)
        return;
    n->scripts = true;
    for (size_t i = 0; i < n->frame_count; i++)
        n->frames[i].wrapper = !n->frames[i].cut && hides_site(n, &n->frames[i]);
}

/* Looks for scripts among the additions to the image. */
static void find_scripts(struct names *n)
{
    const struct trace_image *image = n->image;
    for (uint32_t node = n->scanned + 1; node <= image->stacks && !n->met_script; node++) {
        const struct trace_frame_node *at = trace_node(image, node);
        const uint32_t *ids;
        if (!at->module && !(at->flags & MLW_NODE_TRUNCATED))
            names_of(n, node, &ids);
    }
    n->scanned = image->stacks;
    show_scripts(n);
}

static bool frame_is_code(const struct name_frame *f) { return !f->wrapper && !f->cut; }

/* A stripped library names what it exports alone. So many frames without a name are passed over,
 * within one module, where an allocator called them, or the code of an interpreter. */
enum { BELOW_ALLOCATOR = 8, BELOW_INTERPRETER = 4 };

static bool is_nameless(const struct name_frame *f, struct nameless *begun)
{
    *begun = (struct nameless){f->module, 0, f->role == ROLE_INTERPRETER};
    return !f->known && f->module;
}

/* One frame further out: -1 it ends the search, 0 it goes on, 1 the frames before it only allocate
 * for it. */
static int further(struct nameless *s, const struct name_frame *f)
{
    if (!f->module || strcmp(f->module, s->module) != 0 || f->cut)
        return -1;
    if (f->role == ROLE_ALLOCATOR)
        return 1;
    if (f->known)
        return s->interpreter && s->steps < BELOW_INTERPRETER ? 1 : -1;
    return ++s->steps < BELOW_ALLOCATOR ? 0 : -1;
}

/* node and position, in a key of a search */
enum { POSITION_BITS = 16 };
_Static_assert(INLINE_MAX < 1 << POSITION_BITS, "a position fits into a key");

uint32_t names_site(struct names *n, uint32_t stack, uint32_t *node, uint32_t *position)
{
    struct names_search s = {.begun = false};
    struct names_walk w = {.node = stack};
    uint64_t site;
    bool found = false;
    find_scripts(n);
    while (!found && names_next(n, &w))
        found = names_search(&s, &n->frames[w.id], (uint64_t)w.node << POSITION_BITS | w.position,
                             &site);
    if (!s.begun)
        return NO_NAME;
    const uint32_t *ids;
    site = found ? site : names_search_end(&s);
    *node = (uint32_t)(site >> POSITION_BITS);
    *position = site & ((1u << POSITION_BITS) - 1);
    return *position < names_of(n, *node, &ids) ? ids[*position] : NO_NAME;
}

bool names_leaves_out(const struct names *n, uint32_t id)
{
    return n->frames[id].hidden || (n->scripts && n->frames[id].role == ROLE_INTERPRETER);
}

static bool source_hides(void *arg, uint32_t frame)
{
    const struct names *n = arg;
    return n->frames[frame].hidden;
}

static bool source_hides_more(void *arg, uint32_t frame) { return names_leaves_out(arg, frame); }

struct frame_source names_source(struct names *n, bool all_frames)
{
    find_scripts(n);
    return (struct frame_source){n, source_frames, all_frames ? NULL : source_site,
                                 all_frames ? source_hides : source_hides_more};
}

size_t names_shown(const struct names *n, const uint32_t *ids, size_t count)
{
    while (count > 1 && n->frames[ids[count - 1]].hidden)
        count--;
    return count;
}

bool names_search(struct names_search *s, const struct name_frame *f, uint64_t key, uint64_t *site)
{
    if (!s->begun)
        s->first = key;
    s->begun = true;
    const int past = s->in_run ? further(&s->run, f) : 1;
    if (past < 0)
        *site = s->candidate;
    if (past <= 0)
        return past < 0;
    s->in_run = frame_is_code(f) && is_nameless(f, &s->run);
    if (s->in_run)
        s->candidate = key;
    else if (frame_is_code(f)) {
        *site = key;
        return true;
    } else if (f->role == ROLE_ALLOCATOR) {
        s->has_fallback = false; /* the frames so far are its machinery */
    } else if (!s->has_fallback && !f->cut) {
        s->has_fallback = true;
        s->fallback = key;
    }
    return false;
}

uint64_t names_search_end(const struct names_search *s)
{
    return s->in_run ? s->candidate : s->has_fallback ? s->fallback : s->first;
}

size_t names_first(struct names *n, const uint32_t *ids, size_t count)
{
    show_scripts(n);
    struct names_search s = {.begun = false};
    uint64_t site;
    for (size_t i = 0; i < count; i++)
        if (names_search(&s, &n->frames[ids[i]], i, &site))
            return site;
    return names_search_end(&s);
}

size_t names_tip(struct names *n, const struct sites *sites, uint32_t tip)
{
    struct names_search s = {.begun = false};
    uint64_t i = 0, site;
    show_scripts(n);
    for (uint32_t at = tip; at; at = sites->parent[at]) {
        const struct name_frame *f = &n->frames[sites->frame[at]];
        if ((at == tip || !f->hidden) && names_search(&s, f, i++, &site))
            return site;
    }
    return names_search_end(&s);
}

uint8_t *names_cut_stacks(const struct trace_image *image)
{
    uint8_t *cut = calloc((size_t)image->stacks + 1, 1);
    uint32_t flags = 0;
    for (uint32_t i = 1; i <= image->stacks; i++)
        flags |= trace_node(image, i)->flags;
    if (!cut || !(flags & MLW_NODE_TRUNCATED))
        return cut;
    for (uint32_t i = 1; i <= image->stacks; i++) {
        uint32_t node = i;
        while (node && !cut[node] && !(trace_node(image, node)->flags & MLW_NODE_TRUNCATED))
            node = trace_caller(image, node);
        /* 1: complete, 2: cut */
        const uint8_t known = !node ? 1 : cut[node] ? cut[node] : 2;
        for (uint32_t j = i; j && !cut[j]; j = trace_caller(image, j))
            cut[j] = known;
    }
    for (uint32_t i = 0; i <= image->stacks; i++)
        cut[i] = cut[i] == 2;
    return cut;
}
