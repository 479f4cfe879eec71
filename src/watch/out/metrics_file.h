/* metrics_file.h - the metrics of watched processes in a file, for the textfile collector of
 * Prometheus's node exporter, and by HTTP.
 *
 * Owns: which processes have metrics; the file, which is whole whenever it is read, and goes with
 * the watch: a figure of a process that nothing watches would be shown as of now. One thread. */
#ifndef MALLOW_WATCH_OUT_METRICS_FILE_H
#define MALLOW_WATCH_OUT_METRICS_FILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "watch/run.h"

/* True if another program image of the same process has taken its place. */
bool watch_replaced(const struct watch_run *run, const struct watch_process *p);

/* Appends the metrics of all processes: OpenMetrics, or the text format 0.0.4. -1: no memory. */
int watch_metrics_of(struct buffer *out, const struct watch_run *run, bool open);

struct watch_metrics_file;

/* Creates the file. path must stay valid. Returns NULL with *err if it cannot be written. */
struct watch_metrics_file *watch_metrics_open_file(const char *path, struct error *err);
/* Writes the file when it is due; call it several times a second. It returns -1 with *err once
 * if the file cannot be written. */
int watch_metrics_tick(struct watch_metrics_file *f, const struct watch_run *run,
                       struct error *err);
void watch_metrics_close_file(struct watch_metrics_file *f); /* NULL is fine */

#endif
