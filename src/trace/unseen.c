/* unseen.c - what a recording does not hold; see trace.h. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *reason, *fact, *loss, *remedy;
} table[] = {
#define ROW(name, reason, fact, loss, remedy) {reason, fact, loss, remedy},
    MLW_UNSEEN(ROW)
#undef ROW
};

void trace_unseen_note(enum mlw_unseen reason, const char *detail, const char *module,
                       char note[TRACE_UNSEEN_BYTES])
{
    snprintf(note, TRACE_UNSEEN_BYTES, MLW_UNSEEN_NOTE "%s%s%s): %s", table[reason].reason,
             detail ? ", " : "", detail ? detail : "", module);
}

bool trace_unseen_read(const char *note, const char **reason, const char **module,
                       char text[TRACE_UNSEEN_BYTES])
{
    const size_t head = strlen(MLW_UNSEEN_NOTE);
    const char *end = strncmp(note, MLW_UNSEEN_NOTE, head) != 0 ? NULL : strstr(note + head, "): ");
    if (!end)
        return false;
    note += head;
    const size_t n = strcspn(note, ",)");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strlen(table[i].reason) != n || strncmp(note, table[i].reason, n) != 0)
            continue;
        const char *detail = note + n;
        const int detail_bytes = (int)(end - detail);
        *reason = table[i].reason;
        *module = end + 3;
        snprintf(text, TRACE_UNSEEN_BYTES, "%.500s%s%s%.*s: %s; %s", *module, **module ? ": " : "",
                 table[i].fact, detail_bytes < 80 ? detail_bytes : 80, detail, table[i].loss,
                 table[i].remedy);
        return true;
    }
    return false;
}
