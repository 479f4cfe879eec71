/* generated.c - calls malloc from code that is in no file, as a just-in-time compiler's is: at
 * 0x20000000. Allocates at each line of its input; prints its pid, and a line for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *volatile kept;

static void allocate(void) { kept = malloc(100000); }

int main(void)
{
    /* push rbp; mov rbp, rsp; mov rax, imm64; call rax; pop rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
                            0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
    void (*f)(void) = allocate, (*run)(void);
    char *at = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED)
        return 77;
    memcpy(code + 6, &f, sizeof f);
    memcpy(at, code, sizeof code);
    memcpy(&run, &at, sizeof run);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (getchar() == '\n') {
        run();
        puts("done");
        fflush(stdout);
    }
    return 0;
}
