/* variables.c - see variables.h. */
#include "heap/variables.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/functions.h"
#include "symbol/intern.h"
#include "symbol/symbol.h"
#include "trust/file.h"

#define FILE_BYTES_MAX ((uint64_t)4 << 30)

struct code { /* a function, in the target */
    uint64_t start, end;
    const char *name;
};

struct of_module {
    bool read, declared_read;
    struct declarations declared;
    struct functions functions;
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
};

struct variables *variables_new(const struct modules *modules, uint32_t pid)
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

/* Opens a path if it is the file that was mapped. The file may be anyone's: it is opened once, and
 * its mapping cannot be truncated meanwhile. */
static int open_path(const struct module *m, const char *path)
{
    static const struct trust_rule rule = {
        .what = "the mapped file", .owners = TRUST_ANYBODY, .follow = true};
    struct error err;
    char opened[64];
    uint8_t id[MODULE_ID_BYTES_MAX];
    int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, &err);
    if (fd >= 0)
        fd = trust_stable(fd, FILE_BYTES_MAX, &err);
    if (fd < 0)
        return -1;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    size_t n = functions_build_id(opened, id, sizeof id);
    if (n && n == m->build_id_bytes && !memcmp(id, m->build_id, n))
        return fd;
    close(fd);
    return -1;
}

/* The file itself, else the same path in the process's own root. */
int variables_open(const struct variables *v, const struct module *m)
{
    char own[PATH_MAX + 32];
    snprintf(own, sizeof own, "/proc/%" PRIu32 "/root%s", v->pid, m->path);
    if (!m->build_id_bytes || *m->path != '/')
        return -1;
    int fd = open_path(m, m->path);
    return fd < 0 && v->pid ? open_path(m, own) : fd;
}

static bool read_file(const struct variables *v, const struct module *m, struct functions *f)
{
    struct error err;
    char opened[64];
    int fd = variables_open(v, m);
    if (fd < 0)
        return false;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    bool read =
        !functions_read(opened, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL | FUNCTIONS_DATA, f, &err);
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

static void read_code(struct of_module *of, const struct module *m)
{
    of->code = calloc(of->functions.count ? of->functions.count : 1, sizeof *of->code);
    for (size_t i = 0; of->code && i < of->functions.count; i++) {
        const struct function *f = &of->functions.at[i];
        uint64_t start = m->bias + f->address;
        if (!f->data && f->bytes && start >= m->start && f->bytes <= m->end - start)
            of->code[of->code_count++] = (struct code){start, start + f->bytes, f->name};
    }
    if (of->code_count > 1)
        qsort(of->code, of->code_count, sizeof *of->code, by_code);
}

static void read_variables(struct variables *v, size_t index)
{
    struct of_module *of = &v->of[index];
    const struct module *m = &v->modules->at[index];
    of->read = true;
    if (!read_file(v, m, &of->functions))
        return;
    of->at = calloc(of->functions.count ? of->functions.count : 1, sizeof *of->at);
    for (size_t i = 0; of->at && i < of->functions.count; i++) {
        const struct function *f = &of->functions.at[i];
        uint64_t start = m->bias + f->address;
        if (f->data && f->bytes && start >= m->start && f->bytes <= m->end - start)
            of->at[of->count++] = (struct variable){f->name, NULL, start, start + f->bytes};
    }
    if (of->count > 1)
        qsort(of->at, of->count, sizeof *of->at, by_start);
    read_code(of, m);
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

const struct declared *variables_declared(struct variables *v, const struct module *m,
                                          const struct variable *variable)
{
    struct of_module *of = &v->of[m - v->modules->at];
    if (!of->declared_read) {
        of->declared_read = true;
        int fd = variables_open(v, m);
        if (fd >= 0) {
            (void)declarations_read(&of->declared, fd); /* without memory: as without DWARF */
            close(fd);
        }
    }
    return declarations_find(&of->declared, variable->start - m->bias);
}
