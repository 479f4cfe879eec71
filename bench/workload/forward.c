/* forward.c - a library that only forwards malloc and free: what any interposing costs, the floor
 * of the watch table. */
#include <dlfcn.h>

void *forward_malloc, *forward_free;

/* Whoever allocates before the constructor has run is not served: the workloads do not. */
__attribute__((constructor)) static void begin(void)
{
    forward_malloc = dlsym(RTLD_NEXT, "malloc");
    forward_free = dlsym(RTLD_NEXT, "free");
}

#define FORWARD(name)                                                                              \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n.p2align 5\n" #name ":\n"        \
            "  mov forward_" #name "@GOTPCREL(%rip), %rax\n  jmp *(%rax)\n"                        \
            ".size " #name ", .-" #name "\n")
FORWARD(malloc);
FORWARD(free);
