/* settings.c - what the environment says: the variables of ours. */
#include <string.h>

#include "recorder.h"

uint32_t settings_stacks(void)
{
    const char *v = guest_setting("MALLOW_STACKS");
    if (v && !strcmp(v, "none"))
        return MLW_STACKS_NONE;
    if (v && !strcmp(v, "caller"))
        return MLW_STACKS_CALLER;
    if (v && *v && strcmp(v, "full") != 0)
        process_say(
            "mallow: MALLOW_STACKS is not full, caller or none: stacks are recorded in full\n");
    return MLW_STACKS_FULL;
}

bool setting_on(const char *name)
{
    const char *v = guest_setting(name);
    return v && *v && strcmp(v, "0") != 0;
}

/* Children without `mallow record` that are not to be recorded. The first process of those that
 * have MALLOW_NO_FOLLOW leaves its number there: a process that finds another number is a child
 * after an exec. */
bool settings_leave_out(void)
{
    static const char name[] = "MALLOW_NO_FOLLOW=", number[] = "pid:";
    static char mine[sizeof name + sizeof number + 20];
    extern char **environ;
    if (!setting_on("MALLOW_NO_FOLLOW"))
        return false;
    strcpy(mine, name);
    strcpy(mine + sizeof name - 1, number);
    *put_number(mine + sizeof name + sizeof number - 2, recorder.pid) = 0;
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, name, sizeof name - 1) != 0)
            continue;
        if (!strncmp(*e + sizeof name - 1, number, sizeof number - 1))
            return strcmp(*e, mine) != 0;
        *e = mine;
        break;
    }
    return false;
}

const char *settings_session(void)
{
    return recorder.attached ? recorder.given_session : guest_setting(MLW_ENV_SESSION);
}
