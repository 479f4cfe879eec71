/* write_schema.c - prints docs/NAME.schema.json. */
#include <string.h>

#include "heap/show/columns.h"
#include "report/columns.h"
#include "watch/view/columns.h"

static const struct {
    const char *name, *title;
    const struct schema_part *parts;
} schemas[] = {{"heap", "mallow heap --json", heap_schema},
               {"report", "mallow report --json", report_schema},
               {"watch", "a line of mallow watch --json", watch_schema}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        if (argc == 2 && !strcmp(argv[1], schemas[i].name)) {
            schema_write(stdout, schemas[i].title, schemas[i].parts);
            return 0;
        }
    return 2;
}
