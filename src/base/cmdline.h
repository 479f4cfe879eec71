/* cmdline.h - by which name a program goes, and its command line as people read it.
 *
 * One answer for reports, watches and exports. A command line is a list of arguments, and may have
 * been written over by the program with a text of its own (setproctitle): a title, which is one
 * argument with nothing behind it. All of it is the program's: it goes to a terminal through
 * text.h. NULL is fine for `exe`, `command` and `comm`. Pure functions; any thread. */
#ifndef MALLOW_BASE_CMDLINE_H
#define MALLOW_BASE_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* The name that the kernel keeps is cut to this, NUL included. */
#define CMDLINE_COMM_BYTES 16

/* The program wrote a text of its own over its arguments. */
bool cmdline_is_title(const char *exe, const char *const *command);

/* The arguments as they stand now, of which some may be missing at the end, are those that the
 * program was started with. */
bool cmdline_is_same(const char *const *now, const char *const *command);

/* The last part of the path by which the program was called: behind a link is a file of another
 * name. Of a title, that of the file `exe`. "?": neither is known. Into the arguments. */
const char *cmdline_name(const char *exe, const char *const *command);

/* The arguments with blanks between them, an empty one as '', but for more than two at the end;
 * brief: without the directory of the program. A title as it is. Appends nothing when there is
 * none. */
void cmdline_append(struct buffer *b, const char *exe, const char *const *command, bool brief);

/* A name that the program gave to itself, in parentheses behind a blank; nothing, where `comm` is
 * none by its arguments as they were and as they stand now (`title`). */
void cmdline_append_comm(struct buffer *b, const char *exe, const char *const *command,
                         const char *const *title, const char *comm);

/* The arguments as `ps` shows them now: of `title` (as they stand now; NULL: as before), with such
 * a name behind them. */
void cmdline_append_now(struct buffer *b, const char *exe, const char *const *command,
                        const char *const *title, const char *comm, bool brief);

/* True: `comm`, as /proc/PID/comm has it without its line end, is a name that the program gave to
 * itself (prctl), neither that of its file, nor one of its first two arguments (a script is the
 * second). */
bool cmdline_is_renamed(const char *comm, const char *exe, const char *const *command);

/* The pieces of `bytes` bytes, each ended by a NUL or by the end, as a list that ends with NULL:
 * free() releases it, with the texts. NULL: no memory. */
const char **cmdline_split(const char *text, size_t bytes);

#endif
