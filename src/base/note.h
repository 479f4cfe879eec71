/* note.h - how code below cli/ says a line to the user while it goes on: it does not print, it asks
 * its caller to. Any thread of the caller's choice. */
#ifndef MALLOW_BASE_NOTE_H
#define MALLOW_BASE_NOTE_H

struct note {
    void (*line)(void *arg, const char *text); /* one line without its end; NULL: no one listens */
    void *arg;
};

/* The line, formatted as by text_printf and cut at 1,023 bytes. */
void note_line(const struct note *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
