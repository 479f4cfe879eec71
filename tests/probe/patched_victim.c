/* patched_victim.c - a function that is patched in memory, after another that is as its file has
 * it. Calls both, waits for a byte, calls them again and ends with 0 when they answered rightly. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int wanted(int), patched(int);
__asm__(".text\n.p2align 4\n.globl wanted\n.type wanted, @function\nwanted:\n"
        "  mov %edi, %eax\n  inc %eax\n  ret\n.size wanted, . - wanted\n"
        ".p2align 4\n.globl patched\n.type patched, @function\npatched:\n"
        "  mov %edi, %eax\n  inc %eax\n  ret\n.size patched, . - patched\n");

int main(void)
{
    /* The same length, another result: what the file has must not run again. */
    static const uint8_t doubles[] = {0x8d, 0x04, 0x3f, 0xc3}; /* lea (%rdi,%rdi), %eax; ret */
    uint8_t *at = (uint8_t *)(uintptr_t)patched, byte;
    uint8_t *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)4095); // NOLINT
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 1;
    for (unsigned i = 0; i < sizeof doubles; i++)
        ((volatile uint8_t *)at)[i] = doubles[i];
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
    for (int i = 0; i < 2; i++) {
        if (wanted(20) != 21 || patched(20) != 40)
            return 2;
        if (i == 0 && read(STDIN_FILENO, &byte, 1) != 1)
            return 1;
    }
    return 0;
}
