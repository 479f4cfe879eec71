/* paths.c - thousands of random call paths, each compared frame by frame with backtrace(). */
#include <stdlib.h>

#include "calls.h"
#include "host.h"

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 5000;
    host_init();
    for (unsigned i = 0; i < n; i++)
        random_calls(i % 3 ? i / 7 : i, 30); /* some paths come again */
    return host_verdict(n / 2) || host_truncations();
}
