/* terminal.h - the terminal while a command draws all of it.
 *
 * Owns: the modes of the terminal at standard input and output, the alternate screen and the
 * cursor, and gives them back as they were on every way out: the end, exit(), a fatal signal,
 * Ctrl-Z. Turns bytes into keys. One at a time; one thread. */
#ifndef MALLOW_WATCH_LIVE_TERMINAL_H
#define MALLOW_WATCH_LIVE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A key is a byte, or one of these. */
enum terminal_key {
    KEY_NONE = 0,
    KEY_TAB = '\t',
    KEY_ENTER = '\n',
    KEY_ESCAPE = 27,
    KEY_ERASE = 127,
    KEY_UP = 256,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_HOME,
    KEY_END,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_BACK_TAB,
    KEY_F1,
    KEY_F3,
    KEY_F4,
    KEY_F5,
    KEY_F6,
    KEY_F10
};

/* 0, or -1 with *err when it cannot be had. */
int terminal_take(struct error *err);
/* Also when it was not taken. */
void terminal_give_back(void);
/* True if it is drawn on now: not between Ctrl-Z and going on. */
bool terminal_taken(void);
/* True if there is no one at it any more: it hung up, or who started this process has ended and
 * another one has the terminal. */
bool terminal_lost(void);

void terminal_size(unsigned *lines, unsigned *columns);
/* The keys that were pressed by now; how many were written. It never waits. */
size_t terminal_keys(int *keys, size_t room);
void terminal_write(const char *bytes, size_t n);

#endif
