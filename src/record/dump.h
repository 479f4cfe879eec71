/* dump.h - a recording of all calls so far, made while the programs go on.
 *
 * Owns: a copy of the raw recording that no flight recorder changes meanwhile, sealed to a file of
 * the caller's. Refuses: to open anything for another user: the file is made with the rights of the
 * caller, in a directory held by descriptor (trust/place.h). One thread. */
#ifndef MALLOW_RECORD_DUMP_H
#define MALLOW_RECORD_DUMP_H

#include "base/error.h"

/* recording: a raw recording, open for reading, that may grow and whose front may be released at
 * any moment. path: as the user typed it. 0, or -1 with *err. */
int dump_recording(int recording, const char *path, struct error *err);

#endif
