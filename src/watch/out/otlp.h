/* otlp.h - a watched process as profiles of OpenTelemetry. */
#ifndef MALLOW_WATCH_OUT_OTLP_H
#define MALLOW_WATCH_OUT_OTLP_H

#include "export/otlp_write.h"
#include "watch/out/pprof.h"

/* Writes four profiles, one for each value of watch_pprof_types, as a gzipped request. options and
 * sites as of watch_pprof_write (default_type means nothing here). `o` has the attributes of the
 * process; it is freed. */
int watch_otlp_write(struct otlp *o, FILE *out, const struct watch_process *p,
                     const struct watch_sites *sites, struct symbols *symbols,
                     const struct watch_pprof_options *options, struct error *err);

#endif
