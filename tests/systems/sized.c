/* sized.c - 100 blocks that free_sized takes and 50 for free_aligned_sized, where the C library has
 * them (2.43). Prints whether it has. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*aligned)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    for (int i = 0; i < 100; i++) {
        void *p = malloc(100);
        if (sized)
            sized(p, 100);
        else
            free(p);
    }
    for (int i = 0; i < 50; i++) {
        void *p = aligned_alloc(64, 128);
        if (aligned)
            aligned(p, 64, 128);
        else
            free(p);
    }
    return puts(sized && aligned ? "has" : "has not") < 0;
}
