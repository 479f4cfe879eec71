/* fuzz_main.c - replays files through a fuzz target, where no fuzzer is linked. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        static uint8_t data[1 << 22];
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        size_t n = fread(data, 1, sizeof data, f);
        fclose(f);
        LLVMFuzzerTestOneInput(data, n);
    }
    return 0;
}
