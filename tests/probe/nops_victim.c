/* nops_victim.c - functions that begin with a nop of five bytes, or of another length, called CALLS
 * times each. Prints the first byte of each as it stands in memory, and the mappings that the
 * kernel made for probes. It does not fork: where such a nop has become a call, a child
 * could crash. */
#include <stdio.h>
#include <string.h>

enum { CALLS = 1000 };

#define FUNCTION(name, bytes)                                                                      \
    void name(void);                                                                               \
    __asm__(".text\n.p2align 5\n.globl " #name "\n.type " #name ", @function\n" #name              \
            ":\n.byte " bytes "\nret\n.size " #name ", . - " #name "\n")

FUNCTION(nop_five, "0x0f, 0x1f, 0x44, 0, 0");
FUNCTION(nop_five_short, "0x66, 0x0f, 0x1f, 0x40, 0");
FUNCTION(nop_four, "0x0f, 0x1f, 0x40, 0");
FUNCTION(nop_six, "0x66, 0x0f, 0x1f, 0x44, 0, 0");

int main(void)
{
    void (*const function[])(void) = {nop_five, nop_five_short, nop_four, nop_six};
    char line[512];
    for (size_t n = 0; n < sizeof function / sizeof *function; n++) {
        for (int i = 0; i < CALLS; i++)
            function[n]();
        printf("%02x\n", *(const volatile unsigned char *)function[n]);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[uprobes"))
            printf("%s", strstr(line, "[uprobes"));
    return 0;
}
