/* djmalloc_record.h - the records of a raw trace of glibc's branch dj/malloc, for its readers and
 * writers. The first record says whose trace it is: DJ_MAGIC with the pointer DJ_MAGIC_POINTER and
 * the size of a pointer. */
#ifndef MALLOW_WORKLOAD_DJMALLOC_RECORD_H
#define MALLOW_WORKLOAD_DJMALLOC_RECORD_H

#include <stdint.h>

#define DJ_MAGIC_POINTER 0x1234u

enum djmalloc_type {
    DJ_UNUSED,
    DJ_MALLOC,
    DJ_CALLOC,
    DJ_FREE,
    DJ_REALLOC,
    DJ_MEMALIGN,
    DJ_VALLOC,
    DJ_PVALLOC,
    DJ_POSIX_MEMALIGN,
    DJ_MAGIC = 255
};

/* In word 1, above the type: what the call did. */
#define DJ_PATH_SBRK 0x800u
#define DJ_PATH_MMAP 0x1000u
/* A realloc that did its work by malloc and free, which have records of their own. */
#define DJ_PATH_IS_PARTS 0x4000u

struct djmalloc_record {
    int32_t thread;
    uint32_t type_path; /* type in the low 8 bits */
    uint64_t ptr1;      /* the block released or resized; of posix_memalign the error code */
    uint64_t ptr2;      /* the block allocated; 0: failed */
    uint64_t size;      /* requested */
    uint64_t size2; /* in the memalign family the alignment, else the bytes of the block in ptr1 */
    uint64_t size3; /* bytes of the block in ptr2 as the allocator counts them */
    uint64_t pad[2];
};
_Static_assert(sizeof(struct djmalloc_record) == 64, "a record is 64 bytes");

#endif
