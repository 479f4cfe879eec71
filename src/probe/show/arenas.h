/* arenas.h - what glibc's allocator did inside, as lines and as JSON. Private to report/ but
 * for the line. */
#ifndef MALLOW_PROBE_SHOW_ARENAS_H
#define MALLOW_PROBE_SHOW_ARENAS_H

#include <stdio.h>

#include "base/json.h"
#include "probe/arenas.h"
#include "probe/show/show.h"

/* The closing summary, as the founding script prints it, for each process. */
void probe_arenas_text(FILE *out, const struct probe_result *r);
/* The fields of the document; those of the first process stand at the top. */
void probe_arenas_json(struct json *j, const struct probe_result *r);

#endif
