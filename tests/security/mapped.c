/* mapped.c - maps a file as code, and puts something else where its name leads: mapped FILE
 * The file is removed; FILE, and FILE with the words that /proc adds to it, are FIFOs from then on.
 * Allocates now and then. Prints its pid when it has begun; ends with its standard input. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char named[4096];
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &st) ||
        mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        return 1;
    snprintf(named, sizeof named, "%s (deleted)", argv[1]);
    if (unlink(argv[1]) || mkfifo(argv[1], 0644) || mkfifo(named, 0644))
        return 1;
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN}; poll(&in, 1, 10) == 0;)
        free(malloc(1000));
    return 0;
}
