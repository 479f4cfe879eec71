/* readers.h - one function for each foreign format; see import.h. */
#ifndef MALLOW_IMPORT_READERS_H
#define MALLOW_IMPORT_READERS_H

#include "import/import.h"
#include "import/rows.h"

/* Each reads the whole file into r; *end_ns is when the process ended. */
int import_heaptrack(const char *path, struct rows *r, struct import_result *result,
                     uint64_t *end_ns, struct error *err);
int import_mtrace(const char *path, struct rows *r, struct import_result *result, uint64_t *end_ns,
                  struct error *err);
int import_perf(const char *path, struct rows *r, struct import_result *result, uint64_t *end_ns,
                struct error *err);

#endif
