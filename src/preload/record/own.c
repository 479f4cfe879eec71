/* own.c - the two files of ours that stay open: the recording, and the shared memory.
 *
 * The program may close any descriptor, and open another file that gets its number: so before each
 * use the descriptor is asked whether it still is our file. The paths come from the environment, of
 * a program that may run with more rights than the users who can write to the directories on the
 * way. So a recording is a regular file of the process's own user with one name, which begins as a
 * recording does, or is empty, or is made by us; never what a link leads to, nor in a directory to
 * which another user's link leads. Opening waits for nothing (a FIFO) and makes no terminal ours.
 * Shared memory is a regular file of the same user's, or root's. */
#include <string.h>

#include "recorder.h"

static bool still_ours(const struct own_file *f)
{
    struct stat st;
    return f->fd >= 0 && !sys_fstat(f->fd, &st) && st.st_dev == f->dev && st.st_ino == f->ino;
}

bool own_take(struct own_file *f, long fd)
{
    struct stat st;
    if (fd < 0)
        return false;
    static const int high[] = {900, 200, 40};
    for (unsigned i = 0; i < sizeof high / sizeof high[0]; i++) {
        long moved = sys_fcntl((int)fd, F_DUPFD_CLOEXEC, high[i]);
        if (moved >= 0) {
            sys_close((int)fd);
            fd = moved;
            break;
        }
    }
    if (sys_fstat((int)fd, &st)) {
        sys_close((int)fd);
        return false;
    }
    f->fd = (int)fd;
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    return true;
}

/* True if rows may be appended to the open file; else why not. */
static const char *judge_output(int fd)
{
    struct stat st;
    uint32_t magic = 0;
    if (sys_fstat(fd, &st))
        return "cannot be opened";
    if (!S_ISREG(st.st_mode) || st.st_uid != (uid_t)sys_geteuid() || st.st_nlink != 1)
        return "is not a regular file of this user's with one name";
    if (st.st_size &&
        (sys_pread64(fd, &magic, sizeof magic, 0) != sizeof magic || magic != MLW_CHUNK_MAGIC))
        return "is a sealed recording, or something else, already (%p in the name makes a file for "
               "each process)";
    return 0;
}

/* recorder.output_path, whatever it is; else why it cannot be opened. */
static const char *open_output_path(bool create, long *fd)
{
    const char *name;
    const long dir = guest_way(recorder.output_path, &name);
    if (dir < 0) {
        *fd = dir;
        return dir == -ELOOP ? "is behind a symbolic link of another user's" : "cannot be opened";
    }
    *fd = sys_openat((int)dir, name, OWN_OUTPUT_FLAGS, 0);
    if (*fd == -ENOENT && create)
        *fd = sys_openat((int)dir, name, OWN_OUTPUT_FLAGS | O_CREAT | O_EXCL, 0666);
    if (*fd == -EEXIST) /* made by another process just now */
        *fd = sys_openat((int)dir, name, OWN_OUTPUT_FLAGS, 0);
    sys_close((int)dir);
    if (*fd >= 0)
        return 0;
    return *fd == -ELOOP ? "is a symbolic link" : "cannot be opened";
}

const char *own_open_output(bool create)
{
    recorder.output.fd = -1;
    long fd;
    const char *why = open_output_path(create, &fd);
    if (why)
        return why;
    why = judge_output((int)fd);
    if (why) {
        sys_close((int)fd);
        recorder.output_path[0] = 0; /* nor later */
        return why;
    }
    if (!own_take(&recorder.output, fd))
        return "cannot be opened";
    const struct mlw_session *s = recorder.session;
    if (s && s->output_inode &&
        (s->output_device != recorder.output.dev || s->output_inode != recorder.output.ino)) {
        sys_close(recorder.output.fd);
        recorder.output.fd = -1;
        return "is another file by now";
    }
    return 0;
}

int process_output_fd(void)
{
    if (still_ours(&recorder.output))
        return recorder.output.fd;
    if (!sys_closed && recorder.output_path[0])
        own_open_output(false);
    return sys_closed ? -1 : recorder.output.fd;
}

int process_memory_fd(void)
{
    struct stat st;
    if (still_ours(&recorder.memory))
        return recorder.memory.fd;
    if (sys_closed || !recorder.session_path[0])
        return -1;
    recorder.memory.fd = -1;
    long fd = sys_openat(AT_FDCWD, recorder.session_path, OWN_MEMORY_FLAGS, 0);
    if (fd < 0)
        return -1;
    if (sys_fstat((int)fd, &st) || !S_ISREG(st.st_mode) ||
        (st.st_uid && st.st_uid != (uid_t)sys_geteuid())) {
        sys_close((int)fd);
        return -1;
    }
    own_take(&recorder.memory, fd);
    return recorder.memory.fd;
}

/* ---- from one program to the next ---- */

static bool handed;

bool own_take_handed(void)
{
    const char *text = guest_setting(MLW_ENV_HANDED);
    struct stat st;
    int fd = 0;
    if (!text || !*text)
        return false;
    for (; *text >= '0' && *text <= '9' && fd < 100000; text++)
        fd = fd * 10 + (*text - '0');
    return !*text && !sys_fstat(fd, &st) && S_ISREG(st.st_mode) && own_take(&recorder.memory, fd);
}

/* True if a program that is executed now can open the shared memory by its path. A process that
 * changed its user may still have rights that the new program has not (setpriv). */
static bool is_within_reach(void)
{
    struct stat st;
    long fd = sys_openat(AT_FDCWD, recorder.session_path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const uid_t user = (uid_t)sys_geteuid();
    bool same = !sys_fstat((int)fd, &st) && st.st_dev == recorder.memory.dev &&
                st.st_ino == recorder.memory.ino && (!user || user == st.st_uid);
    sys_close((int)fd);
    return same;
}

const char *own_hand_on(void)
{
    static char variable[sizeof MLW_ENV_HANDED + 16];
    int fd = sys_closed || recorder.lone ? -1 : process_memory_fd();
    if (fd < 0 || is_within_reach() || sys_fcntl(fd, F_SETFD, 0))
        return 0;
    handed = true;
    memcpy(variable, MLW_ENV_HANDED "=", sizeof MLW_ENV_HANDED);
    *put_number(variable + sizeof MLW_ENV_HANDED, (uint64_t)fd) = 0;
    return variable;
}

void own_not_handed(void)
{
    if (handed && recorder.memory.fd >= 0)
        sys_fcntl(recorder.memory.fd, F_SETFD, FD_CLOEXEC);
    handed = false;
}
