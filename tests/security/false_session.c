/* false_session.c - an ordinary process that says of itself that it is recorded.
 *   false_session SESSION OUTPUT [cut] [pid=N] [all] [device=N inode=N]
 * Makes SESSION as libmallow-record.so would, with OUTPUT as the recording and one buffer of bytes
 * of its own choosing; its environment names SESSION. cut: the file loses its memory again and
 * again. pid: the process of the entry, instead of this one. all: says that this is the `mallow
 * record`. Prints its pid when it is ready. `-` as SESSION makes none: the environment names OUTPUT
 * itself. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/row.h"
#include "format/session.h"

static const char text[] = "\nattacker ALL=(ALL) NOPASSWD: ALL\n";

static unsigned long number(int argc, char **argv, const char *name, unsigned long otherwise)
{
    size_t n = strlen(name);
    for (int i = 3; i < argc; i++)
        if (!strncmp(argv[i], name, n))
            return argv[i][n] ? strtoul(argv[i] + n, NULL, 10) : 1;
    return otherwise;
}

static void fill(char *p, int argc, char **argv)
{
    struct mlw_session *s = (void *)p;
    *s = (struct mlw_session){.magic = MLW_SESSION_MAGIC,
                              .version = MLW_SESSION_VERSION,
                              .clock_kind = MLW_CLOCK_MONOTONIC_NS,
                              .parent_pid = number(argc, argv, "all", 0) ? (uint32_t)getpid() : 0,
                              .next_window = 1,
                              .next_process = 1,
                              .output_device = number(argc, argv, "device=", 0),
                              .output_inode = number(argc, argv, "inode=", 0)};
    snprintf(s->output, sizeof s->output, "%s", argv[2]);
    struct mlw_process *e = (void *)(p + mlw_process_offset(0));
    struct stat namespace = {0};
    stat("/proc/self/ns/pid", &namespace);
    *e = (struct mlw_process){.state = MLW_PROC_LIVE,
                              .pid_namespace = namespace.st_ino,
                              .control = MLW_CTL_STARTED,
                              .pid = (uint32_t)number(argc, argv, "pid=", (unsigned long)getpid()),
                              .image = 1,
                              .windows = 1};
    struct mlw_chunk *c = (void *)(p + mlw_window_offset(0));
    unsigned char *row = (void *)(c + 1);
    unsigned short op = MLW_OP_META, bytes = sizeof text - 1;
    memcpy(row, &op, 2);
    row[2] = 99;
    memcpy(row + 3, &bytes, 2);
    memcpy(row + 5, text, bytes);
    *c = (struct mlw_chunk){.magic = MLW_CHUNK_MAGIC,
                            .type = MLW_CHUNK_EVENTS,
                            .header_bytes = sizeof *c,
                            .payload_bytes = 5u + bytes,
                            .image = 1,
                            .pid = (uint32_t)getpid()};
    c->reserved[0] = MLW_SLOT_USED;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (!getenv(MLW_ENV_SESSION)) {
        setenv(MLW_ENV_SESSION, strcmp(argv[1], "-") ? argv[1] : argv[2], 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    if (!strcmp(argv[1], "-")) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
        for (;;)
            pause();
    }
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    off_t bytes = (off_t)mlw_window_offset(1);
    if (fd < 0 || ftruncate(fd, bytes))
        return 1;
    char *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return 1;
    /* By itself, as the library has it: so it is known to be of this session. */
    if (mmap(NULL, MLW_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
             (off_t)mlw_window_offset(0)) == MAP_FAILED)
        return 1;
    fill(p, argc, argv);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (number(argc, argv, "cut", 0)) { /* never touches p again: it may be without memory */
        static char head[4096 + sizeof(struct mlw_process)];
        if (!head[0])
            memcpy(head, p, sizeof head);
        usleep(400);
        if (ftruncate(fd, 0))
            return 1;
        usleep(50);
        if (ftruncate(fd, bytes) || pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
            return 1;
    }
    for (;;)
        pause();
}
