/* advise_show.h - what `mallow advise` measured, as text and as JSON. */
#ifndef MALLOW_CLI_ADVISE_SHOW_H
#define MALLOW_CLI_ADVISE_SHOW_H

#include "advise/advise.h"

/* Print to standard output. `path`: the recording's. */
void advise_print_text(const struct advising *a);
void advise_print_json(const struct advising *a, const char *path);

#endif
