/* locate.c - Finds the file of a module, its debug file and its dwz file, and proves that each
 * is the right one. A candidate counts by build-id, by size and time of change, or by checksum.
 * A note explains each candidate that was refused. */
#include "symbol/locate.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/proc.h"
#include "symbol/contents.h"
#include "symbol/program.h"

static const char DEFAULT_DIR[] = "/usr/lib/debug";

void locate_note(struct locate_notes *notes, const char *format, ...)
{
    size_t used = strlen(notes->text);
    va_list ap;
    char one[512];
    va_start(ap, format);
    vsnprintf(one, sizeof one, format, ap);
    va_end(ap);
    if (strstr(notes->text, one))
        return;
    snprintf(notes->text + used, sizeof notes->text - used, "%s%s", used ? "; " : "", one);
}

/* ------------------------------------------------------------------ set up and take down */

static char *join_texts(const char *a, const char *b)
{
    char *out = NULL;
    return asprintf(&out, "%s%s", a, b) < 0 ? NULL : out;
}

int locate_init(struct locate *l, const struct symbol_options *options)
{
    const char *own[3] = {NULL, NULL, NULL};
    const char *const *from = options ? options->search_paths : NULL;
    char *rooted = NULL;
    size_t n = 0;

    memset(l, 0, sizeof *l);
    l->no_debuginfod = options && options->no_debuginfod;
    l->held = options ? options->held : NULL;
    l->held_arg = options ? options->held_arg : NULL;
    if (options && options->sysroot && *options->sysroot) {
        l->sysroot = strdup(options->sysroot);
        if (!l->sysroot)
            return -1;
    }
    if (!from) {
        if (l->sysroot && (rooted = join_texts(l->sysroot, DEFAULT_DIR)))
            own[n++] = rooted;
        own[n] = DEFAULT_DIR;
        from = own;
    }
    for (n = 0; from[n];)
        n++;
    l->dir = calloc(n + 1, sizeof *l->dir);
    for (size_t i = 0; l->dir && i < n; i++) {
        l->dir[i] = strdup(from[i]);
        if (!l->dir[i])
            n = 0;
    }
    free(rooted);
    if (!l->dir || (from[0] && n == 0)) {
        locate_done(l);
        return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------ debuginfod */

/* The library's public calls, by their documented types; the library itself is optional. */
static struct {
    void *(*begin)(void);
    int (*find)(void *client, const unsigned char *id, int id_bytes, char **path);
    int (*find_executable)(void *client, const unsigned char *id, int id_bytes, char **path);
    void (*end)(void *client);
} debuginfod;

static bool debuginfod_ready(struct locate *l, struct locate_notes *notes)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (l->no_debuginfod || !urls || !*urls)
        return false;
    if (!l->debuginfod_tried) {
        l->debuginfod_tried = true;
        void *so = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
        if (so) { /* never closed: it starts libraries that do not like to be unloaded */
            *(void **)&debuginfod.begin = dlsym(so, "debuginfod_begin");
            *(void **)&debuginfod.find = dlsym(so, "debuginfod_find_debuginfo");
            *(void **)&debuginfod.find_executable = dlsym(so, "debuginfod_find_executable");
            *(void **)&debuginfod.end = dlsym(so, "debuginfod_end");
        }
        if (debuginfod.begin && debuginfod.find && debuginfod.find_executable && debuginfod.end)
            l->debuginfod_client = debuginfod.begin();
    }
    if (!l->debuginfod_client)
        locate_note(notes, "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be used here "
                           "(install libdebuginfod1)");
    return l->debuginfod_client != NULL;
}

/* A server that does not answer is asked at most this often in a run: each try can take the
 * library's whole time limit. */
enum { DEBUGINFOD_FAILURES_MAX = 3 };

static int debuginfod_get(struct locate *l, const uint8_t *id, size_t id_bytes, struct located *out,
                          struct locate_notes *notes)
{
    if (id_bytes == 0 || !debuginfod_ready(l, notes))
        return -1;
    if (l->debuginfod_failures >= DEBUGINFOD_FAILURES_MAX) {
        locate_note(notes, "debuginfod: not asked again after %u failures", l->debuginfod_failures);
        return -1;
    }
    char *path = NULL;
    int fd = debuginfod.find(l->debuginfod_client, id, (int)id_bytes, &path);
    if (fd >= 0 && path) {
        out->fd = fd;
        out->path = path;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    if (fd == -ENOENT) {
        locate_note(notes, "debuginfod does not have it");
    } else {
        l->debuginfod_failures++;
        locate_note(notes, "debuginfod failed: %s", fd < 0 ? strerror(-fd) : "no path given");
    }
    return -1;
}

void locate_done(struct locate *l)
{
    for (size_t i = 0; l->dir && l->dir[i]; i++)
        free(l->dir[i]);
    free(l->dir);
    free(l->sysroot);
    if (l->debuginfod_client)
        debuginfod.end(l->debuginfod_client);
    memset(l, 0, sizeof *l);
}

/* ------------------------------------------------------------------ is it the right file? */

static void write_id_hex(char *out, size_t room, const uint8_t *id, size_t id_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < id_bytes && n + 3 <= room; i++)
        n += (size_t)snprintf(out + n, room - n, "%02x", id[i]);
    out[n] = '\0';
}

static int open_regular_file(const char *path)
{
    struct error ignored;
    return program_open(path, &ignored);
}

/* The file was found. Takes over fd. */
static int take_located(int fd, const char *path, struct located *out, struct locate_notes *notes)
{
    struct error err;
    fd = program_to_map(fd, &err);
    if (fd < 0) {
        locate_note(notes, "%s: %s", path, err.text);
        return -1;
    }
    if (!(out->path = strdup(path))) {
        close(fd);
        return -1;
    }
    out->fd = fd;
    return 0;
}

enum verdict { SAME, DIFFERENT, UNKNOWN, NOT_ELF };

/* Compares the file's build-id with id; found receives the file's own, in hex. */
static enum verdict check_id(int fd, const uint8_t *id, size_t id_bytes, char found[129])
{
    enum verdict verdict = NOT_ELF;
    const void *bits = NULL;
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    found[0] = '\0';
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        ssize_t n = dwelf_elf_gnu_build_id(elf, &bits);
        if (n > 0 && n <= LOCATE_ID_BYTES_MAX) {
            write_id_hex(found, 129, bits, (size_t)n);
            verdict = (size_t)n == id_bytes && memcmp(bits, id, id_bytes) == 0 ? SAME : DIFFERENT;
        } else {
            verdict = UNKNOWN;
        }
    }
    if (elf)
        elf_end(elf);
    return verdict;
}

/* Takes path when the file there is of the build id. */
static int take_by_id(const char *path, const uint8_t *id, size_t id_bytes, struct located *out,
                      struct locate_notes *notes)
{
    char found[129], wanted[129];
    int fd = open_regular_file(path);
    if (fd < 0)
        return -1;
    enum verdict verdict = check_id(fd, id, id_bytes, found);
    if (verdict == SAME)
        return take_located(fd, path, out, notes);
    write_id_hex(wanted, sizeof wanted, id, id_bytes);
    if (verdict == NOT_ELF)
        locate_note(notes, "%s is not an ELF file", path);
    else
        locate_note(notes, "%s is another build (build-id %s, recorded %s)", path,
                    verdict == UNKNOWN ? "none" : found, wanted);
    close(fd);
    return -1;
}

/* DIR/.build-id/xx/yyyy + suffix in every directory. */
static int take_from_id_dirs(struct locate *l, const uint8_t *id, size_t id_bytes,
                             const char *suffix, struct located *out, struct locate_notes *notes)
{
    char text[2 * LOCATE_ID_BYTES_MAX + 1];
    if (id_bytes < 2 || id_bytes > LOCATE_ID_BYTES_MAX)
        return -1;
    write_id_hex(text, sizeof text, id, id_bytes);
    for (size_t i = 0; l->dir[i]; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/.build-id/%.2s/%s%s", l->dir[i], text, text + 2, suffix) < 0)
            return -1;
        int rc = take_by_id(path, id, id_bytes, out, notes);
        free(path);
        if (rc == 0)
            return 0;
    }
    return -1;
}

/* ------------------------------------------------------------------ the module's own file */

/* True if the file is the one of the recording, which has no build-id. */
static bool is_unchanged(int fd, const char *path, const struct symbol_module *m,
                         struct locate_notes *notes)
{
    struct stat st;
    if (!m->file_bytes && !m->file_mtime_ns)
        return true; /* nothing is known of it */
    if (fstat(fd, &st)) {
        locate_note(notes, "%s: %s", path, strerror(errno));
        return false;
    }
    const uint64_t second = 1000000000u;
    const uint64_t seconds = (uint64_t)st.st_mtim.tv_sec, ns = (uint64_t)st.st_mtim.tv_nsec;
    /* archives, and some file systems, keep whole seconds */
    const bool same_time = seconds == m->file_mtime_ns / second &&
                           (!ns || !(m->file_mtime_ns % second) || ns == m->file_mtime_ns % second);
    if ((uint64_t)st.st_size != m->file_bytes) {
        locate_note(notes,
                    "%s is another file than the recorded one: it has no build-id, and %lld bytes "
                    "in place of %llu",
                    path, (long long)st.st_size, (unsigned long long)m->file_bytes);
        return false;
    }
    if (m->file_sum) { /* whatever time it was given */
        const bool same = contents_sum(fd, m->file_bytes) == m->file_sum;
        if (!same)
            locate_note(notes,
                        "%s is another file than the recorded one: it has no build-id, as many "
                        "bytes, and other contents",
                        path);
        return same;
    }
    if (!same_time)
        locate_note(
            notes, "%s was changed since it was recorded, and has no build-id to know it by", path);
    return same_time;
}

static int take_located_module(const char *path, const struct symbol_module *m, struct located *out,
                               struct locate_notes *notes)
{
    char found[129];
    if (m->build_id && m->build_id_bytes)
        return take_by_id(path, m->build_id, m->build_id_bytes, out, notes);
    int fd = open_regular_file(path);
    if (fd < 0)
        return -1;
    if (check_id(fd, NULL, 0, found) == NOT_ELF) {
        locate_note(notes, "%s is not an ELF file", path);
        close(fd);
        return -1;
    }
    if (!is_unchanged(fd, path, m, notes)) {
        close(fd);
        return -1;
    }
    return take_located(fd, path, out, notes);
}

/* Takes the file of a process that still has the module mapped: the kernel has it, also when its
 * path leads to another by now, or nowhere. The process may be another one: it has to be proved.
 * `path`: of the module, which *out gets. */
static int take_from_process(uint32_t pid, const char *path, const struct symbol_module *m,
                             struct located *out)
{
    struct locate_notes ignored = {0};
    struct proc_maps maps;
    struct proc_mapping mapping;
    char place[PATH_MAX + 64];
    if (!pid || (!(m->build_id && m->build_id_bytes) && !m->file_bytes))
        return -1;
    snprintf(place, sizeof place, "/proc/%u/exe", pid);
    int rc = take_located_module(place, m, out, &ignored);
    if (rc) {
        snprintf(place, sizeof place, "/proc/%u/root%s", pid, path);
        rc = take_located_module(place, m, out, &ignored);
    }
    if (rc && proc_maps_open(&maps, (pid_t)pid)) {
        while (rc && proc_maps_next(&maps, &mapping))
            if (mapping.inode && mapping.start == m->start) {
                snprintf(place, sizeof place, "/proc/%u/map_files/%llx-%llx", pid,
                         (unsigned long long)mapping.start, (unsigned long long)mapping.end);
                rc = take_located_module(place, m, out, &ignored);
                break;
            }
        proc_maps_close(&maps);
    }
    char *own = rc ? NULL : strdup(path);
    if (own) {
        free(out->path);
        out->path = own;
    }
    return rc;
}

/* The file that the caller holds open, the one that is proved to be the module. */
static int take_held(const struct locate *l, const char *path, const struct symbol_module *m,
                     struct located *out)
{
    struct locate_notes ignored = {0};
    char place[64];
    int fd, rc = -1;
    if (!l->held || (!(m->build_id && m->build_id_bytes) && !m->file_bytes))
        return -1;
    for (unsigned n = 0; rc && (fd = l->held(l->held_arg, path, n)) >= 0; n++) {
        snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
        rc = take_located_module(place, m, out, &ignored);
    }
    char *own = rc ? NULL : strdup(path);
    if (own) {
        free(out->path);
        out->path = own;
    }
    return rc;
}

int locate_module(struct locate *l, const struct symbol_module *m, uint32_t pid,
                  struct located *out, struct locate_notes *notes)
{
    bool has_id = m->build_id && m->build_id_bytes;
    char *path = m->path && *m->path ? strdup(m->path) : NULL;

    *out = (struct located){.fd = -1};
    if (path) {
        path_take_deleted(path);
        if (l->sysroot) {
            char *rooted = join_texts(l->sysroot, path);
            if (rooted && take_located_module(rooted, m, out, notes) == 0)
                goto found;
            if (rooted && access(rooted, R_OK) != 0)
                locate_note(notes, "%s: %s", rooted, strerror(errno));
            free(rooted);
            if (has_id && take_located_module(path, m, out, notes) == 0)
                goto found_plain;
            goto by_id;
        found:
            free(rooted);
        found_plain:
            free(path);
            return 0;
        }
        if (take_located_module(path, m, out, notes) == 0) {
            free(path);
            return 0;
        }
        if (take_from_process(pid, path, m, out) == 0 || take_held(l, path, m, out) == 0) {
            free(path);
            return 0;
        }
        if (access(path, R_OK) != 0)
            locate_note(notes, "%s: %s", path, strerror(errno));
    by_id:
        /* A tree of debug directories may hold the whole file under its own path. */
        for (size_t i = 0; has_id && l->dir[i]; i++) {
            char *copy = join_texts(l->dir[i], path);
            int rc = copy ? take_by_id(copy, m->build_id, m->build_id_bytes, out, notes) : -1;
            free(copy);
            if (rc == 0) {
                out->is_debug = true;
                break;
            }
        }
        free(path);
    }
    if (out->fd >= 0)
        return 0;
    if (!has_id) {
        locate_note(notes, "the recording holds no build-id to search by");
        return -1;
    }
    if (take_from_id_dirs(l, m->build_id, m->build_id_bytes, "", out, notes) == 0)
        return 0;
    if (take_from_id_dirs(l, m->build_id, m->build_id_bytes, ".debug", out, notes) == 0 ||
        debuginfod_get(l, m->build_id, m->build_id_bytes, out, notes) == 0) {
        out->is_debug = true;
        return 0;
    }
    return -1;
}

/* ------------------------------------------------------------------ separate debug files */

/* The checksum of .gnu_debuglink: CRC-32 as in zlib and ISO 3309. Returns 0, or -1 with errno. */
static int file_crc(int fd, uint32_t *crc)
{
    static uint32_t table[8][256];
    unsigned char *buffer;
    const size_t room = 1 << 16;
    uint32_t c = ~0u;
    ssize_t n;

    if (!table[0][1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t v = i;
            for (int k = 0; k < 8; k++)
                v = v & 1 ? 0xedb88320u ^ (v >> 1) : v >> 1;
            table[0][i] = v;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++)
                table[k][i] = table[0][table[k - 1][i] & 255] ^ (table[k - 1][i] >> 8);
    }
    buffer = malloc(room);
    if (!buffer)
        return -1;
    off_t at = 0;
    while ((n = pread(fd, buffer, room, at)) > 0) {
        const unsigned char *p = buffer, *end = buffer + n;
        at += n;
        for (; end - p >= 8; p += 8) {
            uint32_t a, b;
            memcpy(&a, p, 4);
            memcpy(&b, p + 4, 4);
            a ^= c;
            c = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^
                table[4][a >> 24] ^ table[3][b & 255] ^ table[2][b >> 8 & 255] ^
                table[1][b >> 16 & 255] ^ table[0][b >> 24];
        }
        for (; p < end; p++)
            c = table[0][(c ^ *p) & 255] ^ (c >> 8);
    }
    free(buffer);
    *crc = ~c;
    return n < 0 ? -1 : 0;
}

/* Takes the file that .gnu_debuglink names when it is there and proved. */
static int take_by_link(const char *path, const char *not_path, const uint8_t *id, size_t id_bytes,
                        uint32_t wanted_crc, struct located *out, struct locate_notes *notes)
{
    struct stat a, b;
    char found[129];
    uint32_t crc;
    int fd = open_regular_file(path);
    if (fd < 0)
        return -1;
    if (fstat(fd, &a) == 0 && stat(not_path, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        goto no; /* the module itself, under the name that its link gives */
    enum verdict verdict = check_id(fd, id, id_bytes, found);
    if (verdict == NOT_ELF) {
        locate_note(notes, "%s is not an ELF file", path);
        goto no;
    }
    if (verdict == DIFFERENT && id_bytes) {
        locate_note(notes, "%s is of another build (build-id %s)", path, found);
        goto no;
    }
    if (verdict != SAME) {
        if (file_crc(fd, &crc) != 0) {
            locate_note(notes, "%s: %s", path, strerror(errno));
            goto no;
        }
        if (crc != wanted_crc) {
            locate_note(notes, "%s has checksum %08x, its program wants %08x", path, crc,
                        wanted_crc);
            goto no;
        }
    }
    return take_located(fd, path, out, notes);
no:
    close(fd);
    return -1;
}

static int search_link(struct locate *l, const char *module_path, const char *name,
                       const uint8_t *id, size_t id_bytes, uint32_t crc, struct located *out,
                       struct locate_notes *notes)
{
    int rc = -1;
    char *real = realpath(module_path, NULL);
    const char *full = real ? real : module_path;
    const char *slash = strrchr(full, '/');
    int directory = slash ? (int)(slash - full) : 0;
    const char *inner = full; /* the directory as the traced program saw it */
    size_t root = l->sysroot ? strlen(l->sysroot) : 0;
    if (root && strncmp(full, l->sysroot, root) == 0 && root <= (size_t)directory)
        inner += root;
    int inner_folder = directory - (int)(inner - full);

    for (size_t i = 0; rc != 0; i++) {
        char *path = NULL;
        int n;
        if (i == 0)
            n = asprintf(&path, "%.*s%s%s", directory, full, slash ? "/" : "", name);
        else if (i == 1)
            n = asprintf(&path, "%.*s%s.debug/%s", directory, full, slash ? "/" : "", name);
        else if (!l->dir[(i - 2) / 2])
            break;
        else if (i % 2 == 0)
            n = asprintf(&path, "%s/%.*s/%s", l->dir[(i - 2) / 2], inner_folder, inner, name);
        else
            n = asprintf(&path, "%s/%s", l->dir[(i - 2) / 2], name);
        if (n < 0)
            break;
        rc = take_by_link(path, full, id, id_bytes, crc, out, notes);
        free(path);
    }
    free(real);
    return rc;
}

int locate_debug(struct locate *l, Elf *elf, const char *path, struct located *out,
                 struct locate_notes *notes)
{
    const void *bits = NULL;
    uint8_t id[LOCATE_ID_BYTES_MAX];
    size_t id_bytes = 0;
    GElf_Word crc = 0;

    *out = (struct located){.fd = -1};
    ssize_t n = dwelf_elf_gnu_build_id(elf, &bits);
    if (n > 0 && n <= LOCATE_ID_BYTES_MAX) {
        id_bytes = (size_t)n;
        memcpy(id, bits, id_bytes);
        if (take_from_id_dirs(l, id, id_bytes, ".debug", out, notes) == 0)
            return 0;
    }
    const char *link = dwelf_elf_gnu_debuglink(elf, &crc);
    /* A name, not a path: a link must not lead out of the directories searched. */
    if (link && *link && !strchr(link, '/') &&
        search_link(l, path, link, id, id_bytes, crc, out, notes) == 0)
        return 0;
    return debuginfod_get(l, id, id_bytes, out, notes);
}

/* ------------------------------------------------------------------ dwz files */

/* Reads .gnu_debugaltlink: a name, a zero, a build-id. Returns the name (strdup'ed) or NULL. */
static char *read_alternate_link(const char *path, uint8_t id[LOCATE_ID_BYTES_MAX],
                                 size_t *id_bytes)
{
    char *name = NULL;
    size_t names_index;
    int fd = open_regular_file(path);
    Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    Elf_Scn *section = NULL;

    if (!elf || elf_getshdrstrndx(elf, &names_index) != 0)
        goto out;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header))
            continue;
        const char *is = elf_strptr(elf, names_index, header.sh_name);
        if (!is || strcmp(is, ".gnu_debugaltlink") != 0)
            continue;
        Elf_Data *data = elf_rawdata(section, NULL);
        const char *zero = data && data->d_buf ? memchr(data->d_buf, 0, data->d_size) : NULL;
        if (!zero)
            break;
        size_t rest = data->d_size - (size_t)(zero + 1 - (const char *)data->d_buf);
        if (rest < 2 || rest > LOCATE_ID_BYTES_MAX)
            break;
        memcpy(id, zero + 1, rest);
        *id_bytes = rest;
        name = strdup(data->d_buf);
        break;
    }
out:
    if (elf)
        elf_end(elf);
    if (fd >= 0)
        close(fd);
    return name;
}

bool locate_is_alternate(const char *path, const char *name)
{
    uint8_t id[LOCATE_ID_BYTES_MAX];
    size_t id_bytes;
    char *own = read_alternate_link(path, id, &id_bytes);
    bool same = own && strcmp(own, name) == 0;
    free(own);
    return same;
}

int locate_alternate(struct locate *l, const char *path, struct located *out,
                     struct locate_notes *notes)
{
    uint8_t id[LOCATE_ID_BYTES_MAX];
    size_t id_bytes = 0;
    char *at = NULL;
    int rc = -1;

    *out = (struct located){.fd = -1};
    char *name = read_alternate_link(path, id, &id_bytes);
    if (!name)
        return -1;
    if (*name == '/') {
        at = strdup(name);
    } else {
        const char *slash = strrchr(path, '/');
        if (asprintf(&at, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name) < 0)
            at = NULL;
    }
    if (at && take_by_id(at, id, id_bytes, out, notes) == 0)
        rc = 0;
    if (rc != 0 && l->sysroot && *name == '/') {
        free(at);
        at = join_texts(l->sysroot, name);
        if (at && take_by_id(at, id, id_bytes, out, notes) == 0)
            rc = 0;
    }
    if (rc != 0 && take_from_id_dirs(l, id, id_bytes, ".debug", out, notes) == 0)
        rc = 0;
    if (rc != 0 && debuginfod_get(l, id, id_bytes, out, notes) == 0)
        rc = 0;
    if (rc != 0)
        locate_note(notes, "the shared debug file %s (dwz) is missing", name);
    free(at);
    free(name);
    return rc;
}
