/* lend.c - Starts a helper process of another user that holds the session's descriptor open, so
 * that processes of that user can reach it. The helper closes all other descriptors, changes its
 * user, drops memory and environment by an exec, and ends with this process. */
#include "record/lend.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_FD = LEND_FD + 1, PATIENCE_MS = 10000, HOLDS = 'h' };

/* ---- in the holder, before it is this program anew ---- */

/* Nothing of ours stays open, and no terminal, into which its user could type. */
static int keep_alone(int fd, int answer)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC),
              session = fcntl(fd, F_DUPFD_CLOEXEC, ANSWER_FD + 1),
              to = fcntl(answer, F_DUPFD_CLOEXEC, ANSWER_FD + 1);
    bool bad = null < 0 || session < 0 || to < 0;
    for (int i = 0; i < LEND_FD && !bad; i++)
        bad = dup2(null, i) < 0;
    bad = bad || dup2(session, LEND_FD) < 0 || dup2(to, ANSWER_FD) < 0 ||
          syscall(SYS_close_range, ANSWER_FD + 1u, ~0u, 0u);
    return bad ? -1 : 0;
}

static int become(const struct trust_credentials *to)
{
    const uid_t user = to->user;
    const gid_t group = to->group;
    return setgroups(0, NULL) || setresgid(group, group, group) || setresuid(user, user, user) ||
                   prctl(PR_SET_PDEATHSIG, SIGKILL) /* a change of user takes it away */
               ? -1
               : 0;
}

static void hold_session(int fd, int answer, const struct trust_credentials *to,
                         const struct limits_before *limits) __attribute__((noreturn));
static void hold_session(int fd, int answer, const struct trust_credentials *to,
                         const struct limits_before *limits)
{
    static char name[] = "mallow", command[] = LEND_COMMAND;
    char *const words[] = {name, command, NULL};
    char *const nothing[] = {NULL};
    const pid_t parent = getppid();
    sigset_t none;
    sigemptyset(&none);
    (void)setsid();
    limits_restore(limits);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    if (chdir("/") || keep_alone(fd, answer) || become(to) || getppid() != parent ||
        sigprocmask(SIG_SETMASK, &none, NULL))
        _exit(errno);
    execve("/proc/self/exe", words, nothing);
    _exit(errno);
}

/* ---- in mallow ---- */

/* Returns the status that it ended with, as wait(2) gives it. */
static int end_holder(struct lent *l)
{
    int status = 0;
    kill(l->holder, SIGKILL);
    while (waitpid(l->holder, &status, 0) < 0 && errno == EINTR)
        ;
    l->holder = 0;
    return status;
}

void lend_end(struct lent *l)
{
    if (l->holder)
        end_holder(l);
}

int lend_begin(struct lent *l, int fd, const struct trust_credentials *to,
               const struct limits_before *limits, struct error *err)
{
    int ends[2];
    char byte = 0;
    *l = (struct lent){0};
    if (pipe2(ends, O_CLOEXEC))
        return error_system(err, "cannot make a pipe");
    l->holder = fork();
    if (!l->holder) {
        close(ends[0]);
        hold_session(fd, ends[1], to, limits);
    }
    const int number = errno;
    close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    const bool holds = l->holder > 0 && poll(&answer, 1, PATIENCE_MS) == 1 &&
                       read(ends[0], &byte, 1) == 1 && byte == HOLDS &&
                       poll(&answer, 1, PATIENCE_MS) == 1 &&
                       read(ends[0], &byte, 1) == 0; /* and has let go of its end */
    close(ends[0]);
    if (holds)
        return 0;
    if (l->holder < 0) {
        l->holder = 0;
        errno = number;
    } else {
        const int status = end_holder(l);
        errno = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EIO;
    }
    return error_system(err, "cannot start a process of user %u that holds the shared memory",
                        (unsigned)to->user);
}

/* ---- the holder ---- */

void lend_main(void)
{
    int death = 0;
    const char byte = HOLDS;
    if (prctl(PR_GET_PDEATHSIG, &death) || death != SIGKILL || write(ANSWER_FD, &byte, 1) != 1)
        return;
    close(ANSWER_FD);
    for (;;)
        pause();
}
