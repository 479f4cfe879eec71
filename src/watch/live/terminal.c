/* terminal.c - Takes the terminal and gives it back on every way out, fatal signals and stops
 * included. The signal handler uses only async-signal-safe calls. Escape sequences become keys,
 * and an incomplete one waits for its rest. */
#include "watch/live/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t taken;
static bool hung_up;
static pid_t parent;

/* Not stopped for it (SIGTTOU) when another process has the terminal by now. */
static void set_modes(const struct termios *modes)
{
    sigset_t one, kept;
    sigemptyset(&one);
    sigaddset(&one, SIGTTOU);
    sigprocmask(SIG_BLOCK, &one, &kept);
    tcsetattr(STDIN_FILENO, TCSADRAIN, modes);
    sigprocmask(SIG_SETMASK, &kept, NULL);
}

void terminal_give_back(void)
{
    if (!taken)
        return;
    taken = 0;
    ssize_t ignored = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    (void)ignored;
    set_modes(&before);
}

static void take_terminal(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    set_modes(&raw);
    ssize_t ignored = write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
    (void)ignored;
    taken = 1;
}

static void on_signal(int number);

/* Neither of stopping and going on interrupts the other. */
static void listen_to(int number)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaddset(&act.sa_mask, SIGTSTP);
    sigaddset(&act.sa_mask, SIGCONT);
    sigaction(number, &act, NULL);
}

/* Only what may be done in a handler: write, tcsetattr, sigaction, raise. */
static void on_signal(int number)
{
    int kept = errno;
    if (number == SIGCONT) {
        take_terminal();
    } else if (number != SIGWINCH) { /* which wakes the loop, and that is all */
        /* SIGTSTP, or our own crash. A stop that could not be undone does not happen. */
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigset_t one;
        terminal_give_back();
        sigaction(number, &standard, NULL);
        sigemptyset(&one);
        sigaddset(&one, number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(number);
        sigprocmask(SIG_BLOCK, &one, NULL);
        listen_to(number);
        take_terminal();
    }
    errno = kept;
}

int terminal_take(struct error *err)
{
    static const int signals[] = {SIGTSTP, SIGCONT, SIGWINCH, SIGSEGV,
                                  SIGBUS,  SIGABRT, SIGFPE,   SIGILL};
    static bool registered;
    if (tcgetattr(STDIN_FILENO, &before))
        return error_system(err, "cannot use the terminal");
    if (!registered)
        registered = !atexit(terminal_give_back);
    parent = getppid();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        listen_to(signals[i]);
    take_terminal();
    return 0;
}

bool terminal_taken(void) { return taken; }

bool terminal_lost(void)
{
    return hung_up || (getppid() != parent && tcgetpgrp(STDIN_FILENO) != getpgrp());
}

void terminal_size(unsigned *lines, unsigned *columns)
{
    struct winsize size;
    *lines = 24;
    *columns = 80;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 4 && size.ws_col > 20) {
        *lines = size.ws_row;
        *columns = size.ws_col < 1000 ? size.ws_col : 1000;
    }
}

void terminal_write(const char *bytes, size_t n)
{
    while (n) {
        ssize_t w = write(STDOUT_FILENO, bytes, n);
        if (w < 0 && errno != EINTR)
            break;
        bytes += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
}

/* ---- keys ---- */

/* Sequences behind an escape, as xterm, the Linux console, tmux and screen send them. */
static const struct {
    const char *bytes;
    int key;
} sequences[] = {
    {"[A", KEY_UP},       {"OA", KEY_UP},       {"[B", KEY_DOWN},       {"OB", KEY_DOWN},
    {"[C", KEY_RIGHT},    {"OC", KEY_RIGHT},    {"[D", KEY_LEFT},       {"OD", KEY_LEFT},
    {"[H", KEY_HOME},     {"OH", KEY_HOME},     {"[1~", KEY_HOME},      {"[7~", KEY_HOME},
    {"[F", KEY_END},      {"OF", KEY_END},      {"[4~", KEY_END},       {"[8~", KEY_END},
    {"[5~", KEY_PAGE_UP}, {"[Z", KEY_BACK_TAB}, {"[6~", KEY_PAGE_DOWN}, {"OP", KEY_F1},
    {"[11~", KEY_F1},     {"[[A", KEY_F1},      {"OR", KEY_F3},         {"[13~", KEY_F3},
    {"[[C", KEY_F3},      {"OS", KEY_F4},       {"[14~", KEY_F4},       {"[[D", KEY_F4},
    {"[15~", KEY_F5},     {"[[E", KEY_F5},      {"[17~", KEY_F6},       {"[21~", KEY_F10},
};

/* The key at bytes[0..n), n > 0; *used: how many bytes it has. 0: more bytes are needed. */
static int take_key(const unsigned char *bytes, size_t n, size_t *used)
{
    *used = 1;
    if (bytes[0] == '\r')
        return KEY_ENTER;
    if (bytes[0] == 8)
        return KEY_ERASE;
    if (bytes[0] != KEY_ESCAPE || n == 1 || (bytes[1] != '[' && bytes[1] != 'O'))
        return bytes[0]; /* an escape alone comes alone */
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        const size_t length = strlen(sequences[i].bytes);
        if (n > length && !memcmp(bytes + 1, sequences[i].bytes, length)) {
            *used = 1 + length;
            return sequences[i].key;
        }
    }
    size_t end = 2; /* one that is not known: to its final byte */
    while (end < n && (bytes[end] < '@' || bytes[end] > '~' || (end == 2 && bytes[end] == '[')))
        end++;
    *used = end < n ? end + 1 : 0;
    return KEY_NONE;
}

size_t terminal_keys(int *keys, size_t room)
{
    static unsigned char bytes[64];
    static size_t have; /* the beginning of a key */
    if (have == sizeof bytes)
        have = 0;
    const ssize_t n = read(STDIN_FILENO, bytes + have, sizeof bytes - have);
    hung_up |= n < 0 && errno == EIO;
    have += n > 0 ? (size_t)n : 0;
    size_t count = 0, at = 0, used = 1;
    while (at < have && count < room) {
        const int key = take_key(bytes + at, have - at, &used);
        if (!used)
            break;
        at += used;
        if (key != KEY_NONE)
            keys[count++] = key;
    }
    memmove(bytes, bytes + at, have - at);
    have -= at;
    return count;
}
