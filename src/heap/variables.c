/* variables.c - Reads the symbol tables of a module when a question first needs them, and
 * answers which variable or function holds an address. It opens the file by path, in the
 * process's root, or through /proc. It uses a file only if its build-id proves that it is the
 * mapped one. */
#include "heap/variables.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/functions.h"
#include "symbol/intern.h"
#include "symbol/program.h"
#include "symbol/separate.h"
#include "symbol/symbol.h"

struct code { /* a function, in the target */
    uint64_t start, end;
    const char *name;
};

struct of_module {
    bool read, declared_read;
    struct declarations declared;
    struct functions functions,
        separate;        /* functions of its file, and of its separate debug file */
    struct variable *at; /* by start */
    size_t count;
    struct code *code; /* by start */
    size_t code_count;
};

struct variables {
    struct intern names; /* demangled ones */
    const struct modules *modules;
    struct of_module *of;
    uint32_t pid;
    const char *const *debug_dirs;
    size_t debug_dir_count;
};

struct variables *variables_new(const struct modules *modules, uint32_t pid,
                                const char *const *debug_dirs, size_t debug_dir_count)
{
    struct variables *v = calloc(1, sizeof *v);
    if (v)
        v->of = calloc(modules->count ? modules->count : 1, sizeof *v->of);
    if (!v || !v->of) {
        free(v);
        return NULL;
    }
    v->modules = modules;
    v->pid = pid;
    v->debug_dirs = debug_dirs;
    v->debug_dir_count = debug_dir_count;
    return v;
}

void variables_free(struct variables *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->modules->count; i++) {
        free(v->of[i].at);
        free(v->of[i].code);
        declarations_release(&v->of[i].declared);
        functions_release(&v->of[i].functions);
        functions_release(&v->of[i].separate);
    }
    intern_free(&v->names);
    free(v->of);
    free(v);
}

static int by_start(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Opens a path if it is the file that was mapped, as its build-id says; `mapped`: the kernel says
 * it. The file may be anyone's: it is opened once, and its mapping cannot be truncated meanwhile.
 */
static int open_path(const struct module *m, const char *path, bool mapped)
{
    struct error ignored;
    char opened[64];
    uint8_t id[MODULE_ID_BYTES_MAX];
    if (!mapped && !m->build_id_bytes)
        return -1;
    int fd = program_open(path, &ignored);
    if (fd >= 0)
        fd = program_to_map(fd, &ignored);
    if (fd < 0)
        return -1;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    size_t n = functions_build_id(opened, id, sizeof id);
    if (n == m->build_id_bytes && !memcmp(id, m->build_id, n))
        return fd;
    close(fd);
    return -1;
}

enum { PLACE_BYTES = PATH_MAX + 32 };

/* The file itself, else the same path in the process's own root, else what the kernel has open for
 * the process: that is there when the file was removed or replaced. *place is where it was. */
static int open_module(const struct variables *v, const struct module *m, char place[PLACE_BYTES])
{
    if (*m->path != '/')
        return -1;
    snprintf(place, PLACE_BYTES, "%s", m->path);
    int fd = open_path(m, place, false);
    if (fd >= 0 || !v->pid)
        return fd;
    snprintf(place, PLACE_BYTES, "/proc/%" PRIu32 "/root%s", v->pid, m->path);
    if ((fd = open_path(m, place, false)) >= 0)
        return fd;
    /* by mapping, which needs the right to; the executable is there for its owner as well */
    snprintf(place, PLACE_BYTES, "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, v->pid,
             m->start, m->first_end);
    fd = open_path(m, place, true);
    if (fd < 0) {
        snprintf(place, PLACE_BYTES, "/proc/%" PRIu32 "/exe", v->pid);
        fd = open_path(m, place, false);
    }
    snprintf(place, PLACE_BYTES, "%s", m->path);
    return fd;
}

int variables_open(const struct variables *v, const struct module *m)
{
    char place[PLACE_BYTES];
    return open_module(v, m, place);
}

/* The separate debug file of a module whose file is open. -1: there is none. */
static int open_separate(const struct variables *v, const struct module *m, int fd,
                         const char *place)
{
    return separate_open(fd, place, m->build_id, m->build_id_bytes, v->debug_dirs,
                         v->debug_dir_count);
}

static bool read_symbols(int fd, unsigned which, struct functions *f)
{
    struct error ignored;
    char opened[64];
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    return !functions_read(opened, which | FUNCTIONS_DATA | FUNCTIONS_ALONE, f, &ignored);
}

static bool has_local(const struct functions *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (!f->at[i].exported)
            return true;
    return false;
}

static bool read_file(const struct variables *v, const struct module *m, struct of_module *of)
{
    char place[PLACE_BYTES];
    int fd = open_module(v, m, place);
    if (fd < 0)
        return false;
    bool read = read_symbols(fd, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL, &of->functions);
    int separate = read && !has_local(&of->functions) ? open_separate(v, m, fd, place) : -1;
    if (separate >= 0) {
        read_symbols(separate, FUNCTIONS_LOCAL, &of->separate);
        close(separate);
    }
    close(fd);
    return read;
}

static int by_code(const void *a, const void *b)
{
    const struct code *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Variables and functions of one list; there is room. */
static void add_symbols(struct of_module *of, const struct module *m, const struct functions *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct function *f = &list->at[i];
        const uint64_t start = m->bias + f->address, end = start + f->bytes;
        if (!f->bytes || start < m->start || start > m->end || f->bytes > m->end - start)
            continue;
        if (f->data)
            of->at[of->count++] = (struct variable){f->name, NULL, start, end};
        else
            of->code[of->code_count++] = (struct code){start, end, f->name};
    }
}

static void read_variables(struct variables *v, size_t index)
{
    struct of_module *of = &v->of[index];
    const struct module *m = &v->modules->at[index];
    of->read = true;
    if (!read_file(v, m, of))
        return;
    const size_t all = of->functions.count + of->separate.count + 1;
    of->at = calloc(all, sizeof *of->at);
    of->code = calloc(all, sizeof *of->code);
    if (of->at && of->code) {
        add_symbols(of, m, &of->functions);
        add_symbols(of, m, &of->separate);
    }
    if (of->count > 1)
        qsort(of->at, of->count, sizeof *of->at, by_start);
    if (of->code_count > 1)
        qsort(of->code, of->code_count, sizeof *of->code, by_code);
}

/* Names are demangled when they are first asked for. */
static const struct variable *shown(struct variables *v, struct variable *found)
{
    if (!found->shown) {
        char *text = symbol_demangle(found->name);
        found->shown = text ? intern_string(&v->names, text) : found->name;
        if (!found->shown)
            found->shown = found->name;
        free(text);
    }
    return found;
}

const struct variable *variables_find(struct variables *v, const struct module *m, uint64_t address)
{
    size_t index = (size_t)(m - v->modules->at);
    struct of_module *of = &v->of[index];
    if (!of->read)
        read_variables(v, index);
    size_t low = 0, high = of->count;
    while (low < high) { /* the first that begins behind the address */
        size_t middle = (low + high) / 2;
        if (of->at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    /* Aliases and members of unions overlap: the nearest that still holds the address. */
    for (size_t i = low; i > 0 && low - i < 8; i--)
        if (of->at[i - 1].end > address)
            return shown(v, &of->at[i - 1]);
    return NULL;
}

const char *variables_function(struct variables *v, const struct module *m, uint64_t address)
{
    size_t index = (size_t)(m - v->modules->at);
    struct of_module *of = &v->of[index];
    if (!of->read)
        read_variables(v, index);
    size_t low = 0, high = of->code_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (of->code[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || of->code[low - 1].end <= address)
        return NULL;
    char *text = symbol_demangle(of->code[low - 1].name);
    const char *shown = text ? intern_string(&v->names, text) : of->code[low - 1].name;
    free(text);
    return shown;
}

/* Without memory: as without DWARF. */
static void read_declarations(const struct variables *v, const struct module *m,
                              struct of_module *of)
{
    char place[PLACE_BYTES];
    int fd = open_module(v, m, place), separate = -1;
    of->declared_read = true;
    if (fd < 0)
        return;
    (void)declarations_read(&of->declared, fd);
    if (!of->declared.count)
        separate = open_separate(v, m, fd, place);
    if (separate >= 0) {
        declarations_release(&of->declared);
        (void)declarations_read(&of->declared, separate);
        close(separate);
    }
    close(fd);
}

const struct declared *variables_declared(struct variables *v, const struct module *m,
                                          const struct variable *variable)
{
    struct of_module *of = &v->of[m - v->modules->at];
    if (!of->declared_read)
        read_declarations(v, m, of);
    return declarations_find(&of->declared, variable->start - m->bias);
}
