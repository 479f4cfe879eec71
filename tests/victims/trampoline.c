/* trampoline.c - what CPython does with -X perf: calls functions through copies of a trampoline in
 * generated code without unwind tables, and names them in /tmp/perf-PID.map. Takes the path of a
 * script, whose functions the map names, and a number of calls; waits for a letter before them when
 * there is a third argument, and for the end of its input after them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* sub $8,%rsp; call *%rcx; add $8,%rsp; ret, and what fills up 16 bytes */
static const unsigned char code[16] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83,
                                       0xc4, 0x08, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};

typedef void *evaluator(size_t depth, size_t bytes, void *frame);
/* The evaluator comes last, in %rcx. */
typedef void *trampoline(size_t depth, size_t bytes, void *frame, evaluator *to);

static const char *const names[] = {"Parser.row", "Parser.rows", "outer.<locals>.inner"};
#define NAMES (sizeof names / sizeof *names)

static unsigned char *page;
void *volatile keep[1000];

static trampoline *copy(size_t i)
{
    trampoline *t;
    void *at = page + i * sizeof code;
    memcpy(&t, &at, sizeof t);
    return t;
}

/* An interpreter's loop: a register that it saves is no frame pointer. */
__attribute__((noinline)) static void *evaluate(size_t depth, size_t bytes, void *frame)
{
    void *volatile result;
    if (depth == 0)
        result = malloc(bytes);
    else
        result = copy((depth - 1) % NAMES)(depth - 1, bytes, frame, evaluate);
    return result;
}

int main(int argc, char **argv)
{
    char letter;
    if (argc < 3)
        return 2;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!map || page == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < NAMES; i++) {
        memcpy(page + i * sizeof code, code, sizeof code);
        fprintf(map, "%lx %zx py::%s:%s\n", (unsigned long)(page + i * sizeof code), sizeof code,
                names[i], argv[1]);
    }
    if (fclose(map) || mprotect(page, 4096, PROT_READ | PROT_EXEC))
        return 2;
    const size_t calls = (size_t)atoi(argv[2]);
    if (argc > 3 && read(0, &letter, 1) != 1)
        return 2;
    for (size_t i = 0; i < calls && i < sizeof keep / sizeof *keep; i++)
        keep[i] = copy(0)(i % 50, 1000 + i, NULL, evaluate);
    if (argc > 3 && (write(1, "done\n", 5) != 5 || read(0, &letter, 1) != 0))
        return 2;
    return 0;
}
