/* fuzz_import.c - fuzz target: any bytes as a foreign trace, by each reader; what comes out must be
 * a recording. The first byte chooses the reader. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/every.h"
#include "import/import.h"
#include "trace/fuzz.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char in[64], out[64];
    struct import_result result;
    struct error err;
    if (!n)
        return 0;
    snprintf(in, sizeof in, "/tmp/mallow-fuzz-import-%d.in", (int)getpid());
    snprintf(out, sizeof out, "/tmp/mallow-fuzz-import-%d.mlw", (int)getpid());
    FILE *f = fopen(in, "wb");
    if (!f || fwrite(data + 1, 1, n - 1, f) != n - 1 || fclose(f))
        abort();
    err.text[0] = 0;
    int status = import_file(in, (enum import_format)(data[0] & 3), out, &result, &err);
    if (status && !err.text[0])
        abort(); /* an error without a word */
    if (!status) {
        struct trace *t = trace_open(out, NULL, &err);
        struct trace_batch b;
        struct every all = {.trace = t};
        uint64_t calls = 0;
        if (!t)
            abort();
        while (every_next(&all, &b, &err) > 0)
            calls += b.n;
        every_rewind(&all);
        if (result.calls && !calls)
            abort();
        trace_close(t);
    }
    unlink(in);
    unlink(out);
    return 0;
}
