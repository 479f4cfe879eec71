/* corpus.c - see corpus.h. */
#include "cli/corpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ending[] = ".mwl.zst";

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct corpus_entry *)a)->name, ((const struct corpus_entry *)b)->name);
}

static void list(struct corpus *c, const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d && c->count < CORPUS_MAX && (e = readdir(d))) {
        struct corpus_entry *k = &c->entry[c->count];
        size_t n = strlen(e->d_name), end = sizeof ending - 1;
        if (n <= end || n - end >= sizeof k->name || strcmp(e->d_name + n - end, ending) != 0)
            continue;
        memcpy(k->name, e->d_name, n - end);
        k->name[n - end] = 0;
        int length = snprintf(k->path, sizeof k->path, "%s/%s", folder, e->d_name);
        if (length > 0 && (size_t)length < sizeof k->path)
            c->count++;
    }
    if (d)
        closedir(d);
    qsort(c->entry, c->count, sizeof *c->entry, by_name);
}

int corpus_find(struct corpus *c, struct error *err)
{
    char own[PATH_MAX], folder[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n < 0)
        return error_system(err, "cannot read /proc/self/exe, is /proc mounted?");
    own[n] = 0;
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = 0;
    c->count = 0;
    snprintf(folder, sizeof folder, "%s/corpus", own);
    list(c, folder);
    if (!c->count) {
        snprintf(folder, sizeof folder, "%s/" MALLOW_DATA_RELATIVE "/corpus", own);
        list(c, folder);
    }
    if (!c->count)
        return error_set(err, ERROR_UNSUPPORTED,
                         "no corpus is found beside mallow in %s, nor in %s", own, folder);
    return 0;
}
