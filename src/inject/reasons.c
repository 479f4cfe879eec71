/* reasons.c - Turns a reason for refusal into the message that the user reads, with the process
 * id in place of PID. The texts come from the table in reasons.h. */
#include "inject/reasons.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *why, *instead;
} reasons[] = {
#define REASON(name, why, instead) {why, instead},
    INJECT_REASONS(REASON)
#undef REASON
};

/* text with the number in place of each PID. */
static void put(char *to, size_t room, const char *text, pid_t pid)
{
    size_t used = 0;
    while (*text && used < room) {
        const char *next = strstr(text, "PID");
        const int n = next ? (int)(next - text) : (int)strlen(text);
        used += (size_t)snprintf(to + used, room - used, "%.*s", n, text);
        text += n;
        if (next && used < room) {
            used += (size_t)snprintf(to + used, room - used, "%d", (int)pid);
            text += 3;
        }
    }
}

int reasons_refuse(pid_t pid, enum inject_reason reason, const char *detail, struct error *err)
{
    char instead[384] = "";
    put(instead, sizeof instead, reasons[reason].instead, pid);
    return error_set(err, reason == INJECT_SELF ? ERROR_USAGE : ERROR_UNSUPPORTED,
                     "process %d %s%s%s%s; %s", (int)pid, reasons[reason].why, detail ? " (" : "",
                     detail ? detail : "", detail ? ")" : "", instead);
}
