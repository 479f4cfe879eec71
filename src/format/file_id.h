/* file_id.h - what identifies a file that has no build-id, where a build-id would stand.
 *
 * Owns: its bytes, in rows of modules and in the tables of watched programs. Two files that differ
 * have equal ones only when they are equally long and were changed at the same nanosecond, or were
 * given that time. Sealing adds a sum over the contents, where the recorder had the file. Headers
 * only, no libc. */
#ifndef MALLOW_FORMAT_FILE_ID_H
#define MALLOW_FORMAT_FILE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MLW_FILE_ID_MAGIC 0x3144492d454c4946u /* "FILE-ID1" */

struct mlw_file_id { /* 24 bytes; a build-id of a linker does not begin so */
    uint64_t magic;
    uint64_t size_bytes;
    uint64_t mtime_ns; /* since 1970 */
};
_Static_assert(sizeof(struct mlw_file_id) == 24, "no holes");

#define MLW_FILE_ID_SUMMED 0x3244492d454c4946u /* "FILE-ID2" */

struct mlw_file_id_summed { /* in sealed recordings */
    struct mlw_file_id id;  /* its magic is MLW_FILE_ID_SUMMED */
    uint64_t sum;           /* src/symbol/contents.h */
};

/* True: the bytes are one of the two, and not a build-id; sum 0: it is not known. */
static inline __attribute__((always_inline, unused)) bool
mlw_file_id_read(const uint8_t *bytes, size_t n, struct mlw_file_id_summed *id)
{
    if (n != sizeof id->id && n != sizeof *id)
        return false;
    id->sum = 0;
    __builtin_memcpy(id, bytes, n);
    return id->id.magic == (n == sizeof *id ? MLW_FILE_ID_SUMMED : MLW_FILE_ID_MAGIC);
}

#endif
