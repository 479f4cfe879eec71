/* kinds_library.c - a library with data that its file does not hold. */
#include <stddef.h>

static char data[20 << 20];

void *kinds_library_data(size_t *bytes);
void *kinds_library_data(size_t *bytes)
{
    *bytes = sizeof data;
    return data;
}
