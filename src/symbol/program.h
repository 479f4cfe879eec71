/* program.h - the file of a program, of a library, or of their debug information.
 *
 * Owns: how a file is opened that is to be read as ELF. Anyone may own such a file, and may
 * truncate it or put something else in its place meanwhile (src/trust/file.h): only regular files
 * are opened, opening does not block, and reading does not fault. Paths may be links, and those of
 * /proc/PID.
 *
 * Descriptors are closed on exec and belong to the caller. -1 with *err as trust/file.h says. Any
 * thread. */
#ifndef MALLOW_SYMBOL_PROGRAM_H
#define MALLOW_SYMBOL_PROGRAM_H

#include <stdbool.h>

#include "base/error.h"

typedef struct Dwarf Dwarf; /* libdw's */

/* To be read with pread and ELF_C_READ, and never to be mapped. */
int program_open(const char *path, struct error *err);

/* The same for libraries that map what they read (libdw, libdwfl): takes over fd and returns fd
 * itself, or a sealed copy in memory of another user's file. -1 also of an ELF file with more than
 * 65,536 sections. */
int program_to_map(int fd, struct error *err);

/* True if the bytes of what program_to_map returned come from another user. By itself libdw opens
 * files that debug information names, any file by its path: split units (.dwo), and the shared file
 * of dwz. Another user's debug information may not have it do so. */
bool program_is_of_another(int fd);

/* True if using this debug information has libdw open the shared file that it names, if the reader
 * gives it none. Split units are opened only for readers that ask for them. */
bool program_leads_elsewhere(Dwarf *dwarf);

#endif
