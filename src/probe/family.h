/* family.h - the functions that programs ask for memory by, and where each has the size. Private.
 */
#ifndef MALLOW_PROBE_FAMILY_H
#define MALLOW_PROBE_FAMILY_H

#include "probe/kind.h"

enum { FAMILY_PLACES_MAX = 64 };

struct family {
    struct place place[FAMILY_PLACES_MAX]; /* cookie: number of the place << 8 | enum sizes_form */
    char *name[FAMILY_PLACES_MAX];         /* the name of the function; owned */
    size_t count;
};

/* Those of the file at path: malloc and its kin, or what --function names. Returns 0, or -1 with
 * *err when there is none; family_release in either case. */
int family_find(const struct probe_options *o, const char *path, struct family *f,
                struct error *err);
void family_release(struct family *f);

#endif
