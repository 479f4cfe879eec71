/* write_schema.c - prints docs/heap.schema.json. */
#include "heap/show/columns.h"

int main(void)
{
    schema_write(stdout, "mallow heap --json", heap_schema);
    return 0;
}
