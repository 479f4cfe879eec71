/* exchange.c - two names change places, again and again: exchange A B [cut FILE]
 * With `cut`, FILE loses and regains its second half instead. Prints a line when it has begun; ends
 * with its standard input. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_over(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) != 0;
}

static int cut(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &st))
        return 1;
    char *all = malloc((size_t)st.st_size);
    if (!all || pread(fd, all, (size_t)st.st_size, 0) != st.st_size)
        return 1;
    puts("ready");
    fflush(stdout);
    for (off_t at = st.st_size / 2; !is_over(); at = (at * 7 + 4099) % st.st_size) {
        if (ftruncate(fd, at))
            return 1;
        usleep(100);
        if (pwrite(fd, all, (size_t)st.st_size, 0) != st.st_size)
            return 1;
        usleep(100);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "cut"))
        return cut(argv[2]);
    if (argc != 3)
        return 2;
    puts("ready");
    fflush(stdout);
    for (unsigned i = 0; !is_over(); i++) {
        if (renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE))
            return 1;
        usleep(i % 7 * 300); /* so that it does not keep step with what it attacks */
    }
    return 0;
}
