/* symbolise.c - a plain front of src/symbol/ for the tests of this folder.
 *
 * symbolise [-i ID] [-b BIAS] [-p PID] [-d DEBUG_DIR] [-r SYSROOT] [-n] [-R] [-o] [-O] [-T] [PATH]
 *   reads addresses (hex, of the traced program) from standard input, one a line, and prints for
 * each "ADDRESS" and one line "  FUNCTION<TAB>FILE:LINE<TAB>MODULE<TAB>OFFSET[<TAB>inlined]" a
 * frame; then one line "! PROBLEM" for each. -n: names only; -R: return addresses; -O: debuginfod
 * off; -T: time and memory to standard error. Without PATH the addresses are of JIT code of PID.
 * symbolise -D: reads mangled names instead and prints what they mean, "?" when nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "symbol/symbol.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int demangle_all(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        char *text = symbol_demangle(line);
        puts(text ? text : "?");
        free(text);
    }
    free(line);
    return 0;
}

static void print_frames(uint64_t address, const struct symbol_frame *frame, size_t count)
{
    printf("%" PRIx64 "\n", address);
    for (size_t i = 0; i < count; i++)
        printf("  %s\t%s:%u\t%s\t%" PRIu64 "%s\n", frame[i].function ? frame[i].function : "??",
               frame[i].file ? frame[i].file : "??", frame[i].line,
               frame[i].module ? frame[i].module : "-", frame[i].offset,
               frame[i].inlined ? "\tinlined" : "");
}

int main(int argc, char **argv)
{
    struct symbol_options options = {0};
    struct symbol_module module = {0};
    struct error err;
    struct symbol_frame frame[64];
    const char *dir[9] = {NULL};
    const char *const *problem;
    uint8_t id[64];
    size_t dirs = 0, count = 0, room = 0;
    uint64_t *address = NULL;
    uint32_t pid = 0;
    bool is_return = false, timed = false;
    char *line = NULL;
    size_t line_room = 0;
    int c;

    while ((c = getopt(argc, argv, "i:b:p:d:r:nROTD")) != -1) {
        switch (c) {
        case 'i':
            module.build_id = id;
            for (const char *p = optarg; p[0] && p[1] && module.build_id_bytes < sizeof id;
                 p += 2) {
                unsigned byte;
                if (sscanf(p, "%2x", &byte) != 1)
                    return 2;
                id[module.build_id_bytes++] = (uint8_t)byte;
            }
            break;
        case 'b': module.bias = strtoull(optarg, NULL, 16); break;
        case 'p': pid = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'd':
            if (dirs < 8)
                dir[dirs++] = optarg;
            options.search_paths = dir;
            break;
        case 'r': options.sysroot = optarg; break;
        case 'n': options.no_inline = true; break;
        case 'R': is_return = true; break;
        case 'O': options.no_debuginfod = true; break;
        case 'T': timed = true; break;
        case 'D': return demangle_all();
        default: return 2;
        }
    }
    module.path = argv[optind];
    module.end = UINT64_MAX;
    while (getline(&line, &line_room, stdin) > 0) {
        if (count == room) {
            room = room ? room * 2 : 1024;
            address = reallocarray(address, room, sizeof *address);
            if (!address)
                return 1;
        }
        address[count++] = strtoull(line, NULL, 16);
    }
    free(line);
    struct symbols *s = symbols_new(&options, &err);
    if (!s) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int round = 0; round < (timed ? 2 : 1); round++) {
        double begin = now();
        for (size_t i = 0; i < count; i++) {
            size_t n = symbols_lookup(s, module.path ? &module : NULL, pid, address[i], is_return,
                                      frame, 64);
            if (!timed)
                print_frames(address[i], frame, n);
        }
        if (timed) {
            struct rusage use;
            double took = now() - begin;
            getrusage(RUSAGE_SELF, &use);
            fprintf(stderr, "%s: %zu lookups, %.3f s, %.0f/s, peak resident %ld MB\n",
                    round ? "warm" : "cold", count, took, (double)count / took,
                    use.ru_maxrss / 1024);
        }
    }
    size_t problems = symbols_problems(s, &problem);
    for (size_t i = 0; i < problems; i++)
        printf("! %s\n", problem[i]);
    symbols_free(s);
    free(address);
    return 0;
}
