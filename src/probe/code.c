/* code.c - Walks over the mappings of a process that hold code of one file. It asks the kernel
 * by PROCMAP_QUERY, and parses /proc/PID/maps where the kernel lacks it. The caller's budget
 * bounds the mappings, because a process may have any number. */
#include "probe/code.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* PROCMAP_QUERY and its flags. */
enum { QUERY_EXECUTABLE = 4, QUERY_NEXT = 16, QUERY_OF_FILE = 32 };
struct mapping_query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define ASK_MAPPING _IOWR('f', 17, struct mapping_query)

static bool is_of_file(const struct code_walk *w, const struct proc_mapping *m)
{
    char path[96];
    struct stat st;
    if (m->inode != w->file.st_ino || m->mode[2] != 'x')
        return false;
    if (m->device == w->file.st_dev)
        return true;
    /* The device of a file is not everywhere that of its mapping. */
    snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)w->pid,
             (unsigned long long)m->start, (unsigned long long)m->end);
    return !stat(path, &st) && st.st_ino == w->file.st_ino && st.st_dev == w->file.st_dev;
}

/* The next mapping of any file's code. False with errno: ENOENT at the end, ENOTTY where the kernel
 * cannot be asked. */
static bool ask_code_mapping(const struct code_walk *w, struct proc_mapping *m)
{
    struct mapping_query q = {.size = sizeof q,
                              .flags = QUERY_EXECUTABLE | QUERY_NEXT | QUERY_OF_FILE,
                              .address = w->behind};
    if (ioctl(fileno(w->maps.in), ASK_MAPPING, &q))
        return false;
    *m = (struct proc_mapping){.start = q.start,
                               .end = q.end,
                               .offset = q.offset,
                               .device = makedev(q.device_major, q.device_minor),
                               .inode = q.inode,
                               .mode = "r-xp"};
    return true;
}

static bool next_mapping(struct code_walk *w, struct proc_mapping *m)
{
    if (!w->reads && ask_code_mapping(w, m))
        return true;
    w->reads = w->reads || errno == ENOTTY;
    return w->reads && proc_maps_next(&w->maps, m);
}

bool code_open(struct code_walk *w, pid_t pid, const struct stat *file)
{
    *w = (struct code_walk){.pid = pid, .file = *file};
    return proc_maps_open(&w->maps, pid);
}

bool code_next(struct code_walk *w, size_t *budget, struct proc_mapping *m)
{
    while (*budget && next_mapping(w, m)) {
        --*budget;
        w->behind = m->end;
        if (is_of_file(w, m))
            return true;
    }
    return false;
}

void code_close(struct code_walk *w) { proc_maps_close(&w->maps); }
