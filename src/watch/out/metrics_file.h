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

/* True if another program has taken its place under the same id. */
bool watch_replaced(const struct watch_run *run, const struct watch_process *p);

/* Appends the metrics of all processes: OpenMetrics, or the text format 0.0.4. -1: no memory. */
int watch_metrics_of(struct buffer *out, const struct watch_run *run, bool open);

struct watch_metrics_file;

/* NULL with *err: it could not be written. path is borrowed. */
struct watch_metrics_file *watch_metrics_open_file(const char *path, struct error *err);
/* Several times a second; writes when it is time. -1 with *err: it cannot be written; said once. */
int watch_metrics_tick(struct watch_metrics_file *f, const struct watch_run *run,
                       struct error *err);
void watch_metrics_close_file(struct watch_metrics_file *f); /* NULL is fine */

#endif
