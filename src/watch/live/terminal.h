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

/* Takes the terminal. Returns 0, or -1 with *err. */
int terminal_take(struct error *err);
/* Gives the terminal back; harmless if it was not taken. Async-signal-safe. */
void terminal_give_back(void);
/* True while the terminal is taken: false between Ctrl-Z and continuing. */
bool terminal_taken(void);
/* True if no user is at the terminal any more: it hung up, or the process that started this one
 * has ended and another one has the terminal. */
bool terminal_lost(void);

void terminal_size(unsigned *lines, unsigned *columns);
/* Reads the keys that were pressed so far, without waiting. Returns how many. */
size_t terminal_keys(int *keys, size_t room);
void terminal_write(const char *bytes, size_t n);

#endif
