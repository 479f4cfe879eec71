/* export.c - Lists the export formats and runs one of them on a recording. A row names the
 * columns of events that its format reads, so that the others are not decoded. */
#include "export/export.h"

#include "export/job.h"

/* By which events are filtered. */
#define FILTERED (TRACE_COL_THREAD | TRACE_COL_SIZE | TRACE_COL_STACK | TRACE_COL_TIME)

const struct export_format export_formats[] = {
    {"pprof", "profile for go tool pprof and its like: seven values a stack", EXPORT_BINARY, 0,
     export_pprof},
    {"folded", "a line for each call stack, for flamegraph.pl and its like", EXPORT_BY, 0,
     export_folded},
    {"speedscope", "flame graphs for speedscope.app, a profile for each process and figure",
     EXPORT_BY, 0, export_speedscope},
    {"heaptrack", "heaptrack's format 3, for heaptrack_print and heaptrack_gui", EXPORT_ONE_PROCESS,
     FILTERED, export_heaptrack},
    {"ctf", "a directory in the Common Trace Format 1.8, for babeltrace2 and Trace Compass",
     EXPORT_DIRECTORY, TRACE_COL_ALL, export_ctf},
    {"chrome", "heap and resident size over time, for ui.perfetto.dev and chrome://tracing", 0,
     FILTERED | TRACE_COL_USABLE, export_chrome},
    {"massif", "massif's format, for ms_print and massif-visualizer", EXPORT_ONE_PROCESS, 0,
     export_massif},
    {"sqlite", "a database of blocks, calls, stacks and sums, for sqlite3", EXPORT_DATABASE,
     TRACE_COL_ALL, export_sqlite},
    {"hdf5", "a file of columns of numbers, for h5dump, MATLAB, pandas and their like",
     EXPORT_DATABASE, TRACE_COL_ALL, export_hdf5},
    {"series",
     "a row for each of 1000 slices of time: RSS, address space, live heap, chunks by size", 0,
     FILTERED | TRACE_COL_USABLE, export_series},
    {"csv", "a row for each event", 0, TRACE_COL_ALL, export_csv},
    {"mtrace", "records of 64 bytes, as the tracing malloc of glibc's dj/malloc writes them",
     EXPORT_ONE_PROCESS | EXPORT_BINARY, TRACE_COL_ALL, export_mtrace},
    {NULL, NULL, 0, 0, NULL},
};

unsigned export_columns(const struct export_format *f)
{
    return f->columns ? f->columns : model_columns();
}

int export_write(struct trace *t, struct symbols *symbols, const struct export_request *request,
                 struct export_result *result, struct error *err)
{
    struct export_job job = {.out = request->out,
                             .output = request->output,
                             .recording = request->recording,
                             .trace = t,
                             .symbols = symbols,
                             .options = request->options,
                             .result = result};
    *result = (struct export_result){0};
    if (selection_open(&job.selection, &request->options->select, trace_info(t), err))
        return -1;
    int status = request->format->write(&job, err);
    selection_close(&job.selection);
    return status;
}
