/* leak.c - answers requests; forgets to free the name of each session that was refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    char *name;
    char buffer[256];
};

static char *copy_name(const char *name)
{
    char *copy = malloc(64);
    if (copy)
        snprintf(copy, 64, "%s", name);
    return copy;
}

static struct session *open_session(const char *name)
{
    struct session *s = calloc(1, sizeof *s);
    if (s)
        s->name = copy_name(name);
    return s;
}

static void close_session(struct session *s, int refused)
{
    if (!refused)
        free(s->name);
    free(s);
}

int main(void)
{
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "client %d", i);
        struct session *s = open_session(name);
        if (!s)
            return 1;
        close_session(s, i % 10 == 0);
    }
    return 0;
}
