/* files.c - Lists the files of a program: from the dynamic loader before it runs, and from
 * /proc/PID/maps afterwards. It then finds the library that the user or the probe means, first
 * in that list and then in the library directories. */
#include "probe/files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/system.h"
#include "base/array.h"
#include "base/proc.h"
#include "symbol/functions.h"

int files_add(struct files *f, const char *path, struct error *err)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->path[i], path))
            return 0;
    if (!ARRAY_ROOM(f->path, f->count + 1, f->room))
        return error_memory(err);
    if (!(f->path[f->count] = strdup(path)))
        return error_memory(err);
    f->count++;
    return 0;
}

void files_release(struct files *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->path[i]);
    free(f->path);
    *f = (struct files){0};
}

/* A line of the loader's list: "\tlibc.so.6 => /lib/libc.so.6 (0x...)" or "\t/lib/ld.so (0x...)".
 */
static int put_listed(struct files *f, char *line, struct error *err)
{
    char *path = strchr(line, '/'), *arrow = strstr(line, "=> ");
    if (arrow)
        path = arrow[3] == '/' ? arrow + 3 : NULL;
    char *end = path ? strstr(path, " (0x") : NULL;
    if (!end)
        return 0;
    *end = 0;
    return files_add(f, path, err);
}

int files_of_program(struct files *f, const char *program, struct error *err)
{
    char interpreter[PATH_MAX], line[PATH_MAX + 256];
    if (files_add(f, program, err))
        return -1;
    if (!functions_interpreter(program, interpreter, sizeof interpreter))
        return 0; /* static, or no ELF file: exec will say */
    if (files_add(f, interpreter, err))
        return -1;
    int out[2];
    if (pipe2(out, O_CLOEXEC))
        return error_system(err, "cannot make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(out[1], STDOUT_FILENO);
        if (nothing >= 0)
            dup2(nothing, STDERR_FILENO);
        execl(interpreter, interpreter, "--list", program, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *list = fdopen(out[0], "r");
    int bad = 0;
    while (list && !bad && fgets(line, sizeof line, list))
        bad = put_listed(f, line, err);
    if (list)
        fclose(list);
    else
        close(out[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return bad;
}

void files_reach(pid_t pid, const char *mapped, char *path, size_t room)
{
    snprintf(path, room, "/proc/%d/root%s", (int)pid, mapped);
    if (access(path, R_OK) || !access(mapped, R_OK)) {
        struct stat there, here;
        /* The plain path when it is the same file: names of users, not of /proc. */
        if (stat(path, &there) || (!stat(mapped, &here) && there.st_ino == here.st_ino))
            snprintf(path, room, "%s", mapped);
    }
}

static bool is_c_library(const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-", 5) || !strncmp(base, "ld-", 3);
}

int files_of_process(struct files *f, pid_t pid, struct error *err)
{
    char exe[PATH_MAX], path[PATH_MAX + 64];
    struct proc_maps maps;
    struct proc_mapping m;
    if (proc_is_zombie(pid))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d has ended (it is a zombie) and has no memory any more",
                         (int)pid);
    if (proc_link(pid, "exe", exe, sizeof exe) > 0) {
        files_reach(pid, exe, path, sizeof path);
        if (files_add(f, path, err))
            return -1;
    }
    if (!proc_maps_open(&maps, pid))
        return error_system(err, "cannot read /proc/%d/maps", (int)pid);
    int bad = 0;
    struct files mapped = {0};
    while (!bad && proc_maps_next(&maps, &m))
        if (*m.path == '/' && m.mode[2] == 'x')
            bad = files_add(&mapped, m.path, err);
    proc_maps_close(&maps);
    /* The loader maps downwards, so what it found first lies highest. An allocator beside the C
     * library's is there to be used. */
    for (int c_library = 0; c_library < 2; c_library++)
        for (size_t i = mapped.count; i-- > 0 && !bad;)
            if (is_c_library(mapped.path[i]) == c_library) {
                files_reach(pid, mapped.path[i], path, sizeof path);
                bad = files_add(f, path, err);
            }
    files_release(&mapped);
    return bad;
}

int files_of_machine(struct files *f, struct error *err)
{
    return files_of_process(f, getpid(), err);
}

static bool has_function(const char *path, const char *name)
{
    struct functions found;
    struct error ignored;
    if (functions_read(path, FUNCTIONS_EXPORTED, &found, &ignored))
        return false;
    bool has = functions_find(&found, name) != NULL;
    functions_release(&found);
    if (has)
        return true;
    char interpreter[PATH_MAX];
    /* A static program's own is in no table of exports. */
    if (functions_interpreter(path, interpreter, sizeof interpreter) ||
        functions_read(path, FUNCTIONS_LOCAL, &found, &ignored))
        return false;
    has = functions_find(&found, name) != NULL;
    functions_release(&found);
    return has;
}

static bool is_named(const char *path, const char *library)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    size_t n = strlen(library);
    if (!strncmp(base, library, n) && (!base[n] || strchr(".-", base[n])))
        return true;
    return !strncmp(base, "lib", 3) && !strncmp(base + 3, library, n) &&
           (!base[n + 3] || strchr(".-_", base[n + 3]));
}

static int found(const char *from, char *path, size_t room)
{
    char *real = realpath(from, NULL);
    snprintf(path, room, "%s", real && strncmp(from, "/proc/", 6) ? real : from);
    free(real);
    return 0;
}

int files_find_library(const struct files *f, const char *library, char *path, size_t room,
                       struct error *err)
{
    if (!library) {
        for (size_t i = 0; i < f->count; i++)
            if (has_function(f->path[i], "malloc"))
                return found(f->path[i], path, room);
        return error_set(err, ERROR_UNSUPPORTED,
                         "none of the program's files has a function named malloc with a symbol; "
                         "--lib and --function say what to probe");
    }
    if (strchr(library, '/')) {
        if (access(library, R_OK))
            return error_system(err, "cannot read %s", library);
        return found(library, path, room);
    }
    for (size_t i = 0; i < f->count; i++)
        if (is_named(f->path[i], library))
            return found(f->path[i], path, room);
    static const char *const directories[] = {("/lib/" ARCH_MULTIARCH),
                                              ("/usr/lib/" ARCH_MULTIARCH),
                                              "/lib64",
                                              "/usr/lib64",
                                              "/usr/local/lib",
                                              "/usr/lib"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        char pattern[PATH_MAX];
        glob_t g;
        snprintf(pattern, sizeof pattern, "%s/*%s*.so*", directories[i], library);
        if (glob(pattern, 0, NULL, &g))
            continue;
        for (size_t k = 0; k < g.gl_pathc; k++)
            if (is_named(g.gl_pathv[k], library)) {
                found(g.gl_pathv[k], path, room);
                globfree(&g);
                return 0;
            }
        globfree(&g);
    }
    return error_set(err, ERROR_USAGE,
                     "no library '%s' in the program or in the library directories; give its path",
                     library);
}
