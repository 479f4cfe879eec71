/* encodings_table.c - reads an encoding a line, in hexadecimal, and prints 1 where a probe may
 * stand on it, else 0. With an argument: prints the classes of encodings that the table allows, one
 * a line, as a prefix, "rex" or "-", the opcode, and for an opcode with a ModRM byte what stands in
 * it. */
#include <stdio.h>
#include <string.h>

#include "arch/uprobe.h"

/* What is a prefix, or leads to the other table. */
static bool is_none(unsigned opcode)
{
    return opcode == 0x0f || opcode == 0x64 || opcode == 0x66 || opcode == 0xf2 || opcode == 0xf3 ||
           (opcode & 0xf0) == 0x40;
}

static void print_classes(void)
{
    static const uint8_t prefixes[] = {0,    0x64, 0x65, 0x66, 0xf2, 0xf3,
                                       0x26, 0x2e, 0x36, 0x3e, 0xf0, 0x67};
    for (size_t p = 0; p < sizeof prefixes; p++)
        for (unsigned rex = 0; rex < 17; rex++)
            for (unsigned escape = 0; escape < 2; escape++)
                for (unsigned opcode = 0; opcode < 256; opcode++)
                    for (unsigned modrm = 0; modrm < 256; modrm++) {
                        uint8_t code[ARCH_INSTRUCTION_BYTES] = {0};
                        size_t n = 0;
                        if (!escape && is_none(opcode))
                            continue;
                        if (prefixes[p])
                            code[n++] = prefixes[p];
                        if (rex)
                            code[n++] = (uint8_t)(0x3f + rex);
                        if (escape)
                            code[n++] = 0x0f;
                        code[n++] = (uint8_t)opcode;
                        code[n] = (uint8_t)modrm;
                        if (arch_uprobe_right(code, sizeof code))
                            printf("%02x %s %s%02x %u %s\n", prefixes[p], rex ? "rex" : "-",
                                   escape ? "0f" : "", opcode, modrm >> 3 & 7,
                                   modrm >> 6 == 3          ? "register"
                                   : (modrm & 0xc7) == 0x05 ? "relative"
                                                            : "memory");
                    }
}

int main(int argc, char **argv)
{
    char line[64];
    (void)argv;
    if (argc > 1) {
        print_classes();
        return 0;
    }
    while (fgets(line, sizeof line, stdin)) {
        uint8_t code[ARCH_INSTRUCTION_BYTES];
        unsigned byte;
        size_t n = 0;
        while (n < sizeof code && sscanf(line + n * 2, "%2x", &byte) == 1)
            code[n++] = (uint8_t)byte;
        printf("%d\n", arch_uprobe_right(code, n));
    }
    return 0;
}
