/* Writes a small profile, whose every value is known to test_pprof_writer.py, to the file named;
 * with a second argument as many samples more, each in a function of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "export/pprof_write.h"

int main(int argc, char **argv)
{
    struct error err = {0};
    FILE *out = argc > 1 ? fopen(argv[1], "wb") : NULL;
    struct pprof *p = out ? pprof_new(out, &err) : NULL;
    static const uint8_t id[] = {0xde, 0xad, 0xbe, 0xef, 0x01};
    if (!p) {
        fprintf(stderr, "usage: write_pprof FILE [SAMPLES]\n");
        return 2;
    }
    pprof_value_type(p, "inuse_objects", "count");
    pprof_value_type(p, "inuse_space", "bytes");
    pprof_default_type(p, "inuse_space");
    pprof_period(p, "space", "bytes", 524288);
    pprof_time(p, 1700000000000000000u, 1500000000u);
    pprof_comment(p, "a comment");
    uint64_t program = pprof_mapping(p, &(struct pprof_mapping){.start = 0x400000,
                                                                .limit = 0x500000,
                                                                .offset = 0x1000,
                                                                .path = "/bin/program",
                                                                .build_id = id,
                                                                .build_id_bytes = sizeof id,
                                                                .has_names = true,
                                                                .has_files = true,
                                                                .has_lines = true,
                                                                .has_inlined = true});
    uint64_t library = pprof_mapping(
        p,
        &(struct pprof_mapping){.start = 0x7f0000000000, .limit = 0x7f0000010000, .path = "lib"});
    const struct pprof_line inlined[] = {
        {.function = "inner", .file = "a.c", .line = 7},
        {.function = "outer(int)", .system_name = "_Z5outeri", .file = "b.c", .line = 300}};
    const struct pprof_line bad = {.function = "b\xff"
                                               "d",
                                   .line = 0};
    uint64_t places[3] = {pprof_location(p, program, 0x400123, inlined, 2),
                          pprof_location(p, library, 0x7f0000000456, NULL, 0),
                          pprof_location(p, 0, 0xffffffffff600000u, &bad, 1)};
    const struct pprof_label labels[] = {{.key = "thread", .text = "worker"},
                                         {.key = "size", .number = 4096, .number_unit = "bytes"}};
    pprof_sample(p, places, 3, (int64_t[]){2, 1 << 20}, 2, labels, 2);
    pprof_sample(p, places + 1, 1, (int64_t[]){1, 5}, 2, NULL, 0);
    /* Functions that allocate for their callers, by names that a regular expression reads
     * otherwise. */
    const char *const allocating[] = {"operator new[](unsigned long)", "a+b",
                                      "(anonymous namespace)::pool::get(int)", "xmalloc",
                                      "Heap<Key<int> >::make<long>(int)"};
    for (uint64_t i = 0; i < sizeof allocating / sizeof *allocating; i++) {
        const uint64_t at[2] = {
            pprof_location(p, program, 0x400800 + i,
                           &(struct pprof_line){.function = allocating[i]}, 1),
            pprof_location(p, program, 0x400900 + i,
                           &(struct pprof_line){.function = "wants_memory(a+b)", .line = 1}, 1)};
        pprof_drop(p, allocating[i]);
        pprof_keep(p, "wants_memory(a+b)");
        pprof_sample(p, at, 2, (int64_t[]){1, 1 << 24}, 2, NULL, 0);
    }
    for (long i = argc > 2 ? atol(argv[2]) : 0; i > 0; i--) {
        char name[32];
        snprintf(name, sizeof name, "function_%ld", i);
        uint64_t at = pprof_location(p, program, 0x400000 + (uint64_t)i,
                                     &(struct pprof_line){.function = name, .line = 1}, 1);
        pprof_sample(p, &at, 1, (int64_t[]){1, 16}, 2, NULL, 0);
    }
    int status = pprof_finish(p, &err);
    if (fclose(out) || status) {
        fprintf(stderr, "%s\n", status ? err.text : "cannot close");
        return 1;
    }
    return 0;
}
