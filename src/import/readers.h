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
/* The text that mtrace(3) of glibc writes; import_mtrace calls it. */
int import_mtrace_text(const char *path, struct rows *r, struct import_result *result,
                       uint64_t *end_ns, struct error *err);
/* True: this is a first line of such a text. */
bool import_is_mtrace_text(const char *line);
int import_perf(const char *path, struct rows *r, struct import_result *result, uint64_t *end_ns,
                struct error *err);

#endif
