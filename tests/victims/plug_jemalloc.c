/* plug_jemalloc.c - a module whose references to jemalloc's own API are bound when it is loaded. */
#include <stddef.h>

void *mallocx(size_t, int);
void *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
size_t sallocx(const void *, int);
void dallocx(void *, int);
void sdallocx(void *, size_t, int);

extern const void *const plug_jemalloc[6];
const void *const plug_jemalloc[6] = {mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx};
