/* record_heap.c - see record_heap.h. */
#include "cli/record_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "trust/file.h"

enum { TRIES = 4 };

/* FILE.mlw becomes FILE.mlh. */
static void name_after(const char *output, char path[PATH_MAX])
{
    static const char suffix[] = ".mlw";
    size_t n = strlen(output), end = sizeof suffix - 1;
    if (n > end && !strcmp(output + n - end, suffix))
        n -= end;
    snprintf(path, PATH_MAX, "%.*s.mlh", (int)n, output);
}

/* 0; or the reason. It is in a group of its own: the terminal's interrupt is for the program. */
static int start(struct record_heap *r, pid_t pid)
{
    char target[32];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    const char *const words[] = {"mallow", "heap", "--by", "arena", "-o", r->path, target, NULL};
    snprintf(target, sizeof target, "%d", (int)pid);
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

/* Whether there is none any more; waits for it if that is asked. */
static bool collect(struct record_heap *r, int flags)
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
    *r->refusal = 0;
    if (got > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) {
        r->saved_bytes = r->tried_bytes;
        r->refusals = 0;
    } else {
        if (++r->refusals < TRIES) /* it may have begun, or executed, something just then */
            r->tried_bytes = r->saved_bytes;
        size_t n = r->words < 0 ? 0 : trust_read(r->words, r->refusal, sizeof r->refusal - 1, 0);
        r->refusal[n] = 0;
        r->refusal[strcspn(r->refusal, "\n")] = 0;
        if (!*r->refusal)
            snprintf(r->refusal, sizeof r->refusal, "'mallow heap' ended without a word");
    }
    if (r->words >= 0)
        close(r->words);
    return true;
}

void record_heap_size(void *arg, pid_t pid, uint64_t rss_bytes, const char *output)
{
    struct record_heap *r = arg;
    if (!collect(r, WNOHANG) || rss_bytes <= r->tried_bytes + r->tried_bytes / 4)
        return;
    if (!*r->path)
        name_after(output, r->path);
    r->tried_bytes = rss_bytes;
    int number = start(r, pid);
    if (number) {
        r->helper = 0;
        snprintf(r->refusal, sizeof r->refusal, "cannot run 'mallow heap': %s", strerror(number));
        if (r->words >= 0)
            close(r->words);
    }
}

void record_heap_finish(struct record_heap *r, const struct command *self, bool quiet)
{
    char size[HUMAN_TEXT_BYTES];
    collect(r, 0);
    if (r->saved_bytes && !quiet)
        command_warn(self, "saved the heap, when %s were resident: mallow heap %s",
                     human_size(size, r->saved_bytes), r->path);
    else if (!r->saved_bytes)
        command_warn(self, "the heap could not be saved: %s",
                     *r->refusal ? r->refusal : "the program was never seen running");
}
