/* terminal.c - what the terminal can do, and the progress bar. See terminal.h. */
#include "show/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

bool terminal_draws(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && terminal_draws(fd);
}

unsigned terminal_columns(int fd, unsigned otherwise)
{
    struct winsize size;
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) || size.ws_col < 20)
        return otherwise;
    return size.ws_col;
}

void progress_begin(struct progress *p, const char *label)
{
    *p = (struct progress){.label = label, .next_ns = UINT64_MAX};
    if (isatty(STDERR_FILENO))
        p->next_ns = clock_monotonic_ns() + 300000000; /* quick work needs no bar */
}

void progress_update(void *arg, uint64_t done, uint64_t total)
{
    struct progress *p = arg;
    if (p->next_ns == UINT64_MAX)
        return;
    uint64_t now = clock_monotonic_ns();
    if (now < p->next_ns)
        return;
    p->next_ns = now + 100000000;
    p->shown = true;
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    double part = total ? (double)done / (double)total : 0;
    if (part > 1)
        part = 1;
    size_t full = (size_t)(part * WIDTH);
    memset(bar, '.', WIDTH);
    memset(bar, '#', full);
    bar[WIDTH] = 0;
    text_printf(stderr, "\r%s [%s] %3u%%", p->label, bar, (unsigned)(part * 100));
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
    p->next_ns = UINT64_MAX;
}
