/* metrics.h - watched processes as metrics for Prometheus. */
#ifndef MALLOW_WATCH_OUT_METRICS_H
#define MALLOW_WATCH_OUT_METRICS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "watch/process.h"

#define WATCH_METRICS_TYPE      "text/plain; version=0.0.4; charset=utf-8"
#define WATCH_METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Appends the metrics of `count` processes, as their latest process_look found them, labeled with
 * pid and program: OpenMetrics when `open`, else the text format 0.0.4. Sizes of live blocks are
 * estimates. */
void watch_metrics(struct buffer *out, struct watch_process *const *processes, size_t count,
                   bool open);

/* True if an Accept header prefers OpenMetrics to the text format. accept may be NULL. */
bool watch_metrics_open(const char *accept);

#endif
