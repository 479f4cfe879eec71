/* save_heap.c - starts the helper that saves a heap, and collects it. */
#include "record/save_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/human.h"
#include "trust/file.h"

enum { TRIES = 4, PROCESSES_MAX = 256, CHILD_BYTES = 8 << 20 };

/* FILE.mlw becomes FILE.mlh, of a child FILE.PID.mlh. */
static void heap_file_name(const struct record_heap *r, size_t of, char path[PATH_MAX])
{
    static const char suffix[] = ".mlw";
    size_t n = strlen(r->output), end = sizeof suffix - 1;
    if (n > end && !strcmp(r->output + n - end, suffix))
        n -= end;
    if (of)
        snprintf(path, PATH_MAX, "%.*s.%d.mlh", (int)n, r->output, (int)r->processes[of].pid);
    else
        snprintf(path, PATH_MAX, "%.*s.mlh", (int)n, r->output);
}

/* 0; or the reason. It is in a group of its own: the terminal's interrupt is for the program. */
static int start(struct record_heap *r)
{
    char target[32], path[PATH_MAX];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    const char *const words[] = {"mallow", "heap", "--by", "arena", "-o", path, target, NULL};
    snprintf(target, sizeof target, "%d", (int)r->processes[r->of].pid);
    heap_file_name(r, r->of, path);
    sigemptyset(&none);
    r->words = memfd_create("mallow heap", MFD_CLOEXEC);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, r->words >= 0 ? r->words : STDIN_FILENO,
                                     STDERR_FILENO);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    int number =
        posix_spawn(&r->helper, "/proc/self/exe", &files, &how, (char *const *)words, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return number;
}

/* True if there is none any more; waits for it if that is asked. */
static bool collect_children(struct record_heap *r, int flags)
{
    int status;
    pid_t got;
    if (!r->helper)
        return true;
    while ((got = waitpid(r->helper, &status, flags)) < 0 && errno == EINTR)
        ;
    if (!got)
        return false;
    r->helper = 0;
    struct record_heap_process *p = &r->processes[r->of];
    char text[sizeof r->refusal] = "";
    if (got > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) {
        p->saved_bytes = p->tried_bytes;
        p->refusals = 0;
    } else {
        if (++p->refusals < TRIES) /* it may have begun, or executed, something just then */
            p->tried_bytes = p->saved_bytes;
        size_t n = r->words < 0 ? 0 : trust_read(r->words, text, sizeof text - 1, 0);
        text[n] = 0;
        text[strcspn(text, "\n")] = 0;
        if (!*text)
            snprintf(text, sizeof text, "'mallow heap' ended without a message");
    }
    if (!r->of)
        memcpy(r->refusal, text, sizeof text);
    if (r->words >= 0)
        close(r->words);
    return true;
}

/* The entry of a process; a new one if there is room. NULL: none. */
static struct record_heap_process *process_of(struct record_heap *r, pid_t pid, bool is_program)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->processes[i].pid == pid)
            return &r->processes[i];
    if (is_program && r->count) { /* the place was kept for it */
        r->processes[0].pid = pid;
        return &r->processes[0];
    }
    const size_t first = r->count;
    if (r->count >= PROCESSES_MAX || !ARRAY_ROOM(r->processes, first + 2, r->room))
        return NULL;
    if (!first) {
        r->processes[r->count++] = (struct record_heap_process){.pid = is_program ? pid : -1};
        if (is_program)
            return &r->processes[0];
    }
    r->processes[r->count] = (struct record_heap_process){.pid = pid};
    return &r->processes[r->count++];
}

void record_heap_size(void *arg, pid_t pid, bool is_program, uint64_t rss_bytes, const char *output)
{
    struct record_heap *r = arg;
    if (!collect_children(r, WNOHANG) || (!is_program && rss_bytes < CHILD_BYTES))
        return;
    struct record_heap_process *p = process_of(r, pid, is_program);
    if (!p || rss_bytes <= p->tried_bytes + p->tried_bytes / 4)
        return;
    if (!*r->output)
        snprintf(r->output, sizeof r->output, "%s", output);
    p->tried_bytes = rss_bytes;
    r->of = (size_t)(p - r->processes);
    int number = start(r);
    if (number) {
        r->helper = 0;
        snprintf(r->refusal, sizeof r->refusal, "cannot run 'mallow heap': %s", strerror(number));
        if (r->words >= 0)
            close(r->words);
    }
}

void record_heap_finish(struct record_heap *r, const struct note *note, bool quiet)
{
    char size[HUMAN_TEXT_BYTES], path[PATH_MAX];
    size_t children = 0, last = 0;
    collect_children(r, 0);
    for (size_t i = 1; i < r->count; i++)
        if (r->processes[i].saved_bytes) {
            children++;
            last = i;
        }
    const bool saved = r->count && r->processes[0].saved_bytes;
    if (saved && !quiet) {
        heap_file_name(r, 0, path);
        note_line(note, "saved the heap, when %s were resident: mallow heap %s",
                  human_size(size, r->processes[0].saved_bytes), path);
    } else if (!saved) {
        note_line(note, "the heap could not be saved: %s",
                  *r->refusal ? r->refusal : "the program was never seen running");
    }
    if (children && !quiet) {
        heap_file_name(r, last, path);
        note_line(note, "saved the heaps of %zu child%s, too: %s%s", children,
                  children == 1 ? "" : "ren", children == 1 ? "" : "the last is ", path);
    }
    free(r->processes);
    *r = (struct record_heap){0};
}
