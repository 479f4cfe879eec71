/* otlp_write.h - profiles for OpenTelemetry: the request of its profiles service, gzipped.
 *
 * Owns: the encoding (opentelemetry-proto 1.11, opentelemetry/proto/profiles/v1development, which
 * is experimental: fields have moved in most versions), the tables of the dictionary, whose first
 * entries are empty. One resource with a profile for each type of value. All is kept in memory
 * until the end. Not thread-safe; one struct otlp per request.
 *
 * Failure is sticky: after one, every call does nothing, ids are 0, and otlp_finish says why. */
#ifndef MALLOW_EXPORT_OTLP_WRITE_H
#define MALLOW_EXPORT_OTLP_WRITE_H

#include "export/pprof_write.h"

#define OTLP_PROTO_VERSION "1.11.0"
#define OTLP_PATH          "v1development/profiles" /* the path of the request, below the server's URL */

struct otlp;

struct otlp *otlp_new(struct error *err); /* NULL: no memory */

/* Adds an attribute of the process. Attributes of a key are given once. */
void otlp_attribute(struct otlp *o, const char *key, const char *text);
void otlp_attribute_number(struct otlp *o, const char *key, int64_t number);

/* As pprof_mapping and pprof_location. */
uint64_t otlp_mapping(struct otlp *o, const struct pprof_mapping *m);
uint64_t otlp_location(struct otlp *o, uint64_t mapping, uint64_t address,
                       const struct pprof_line *lines, size_t line_count);
/* Innermost first. Different stacks have different locations. */
uint64_t otlp_stack(struct otlp *o, const uint64_t *locations, size_t count);

struct otlp_profile {
    const char *type, *unit;
    const char *period_type, *period_unit;
    int64_t period;
    uint64_t time_ns, duration_ns; /* since 1970 */
};

/* Begins a profile, to which samples belong until the next one begins. */
void otlp_profile(struct otlp *o, const struct otlp_profile *p);
void otlp_sample(struct otlp *o, uint64_t stack, int64_t value);

/* Writes the request, if `out` is not NULL, and frees it. 0, or -1 with *err. */
int otlp_finish(struct otlp *o, FILE *out, struct error *err);

/* True if an answer of status 200 says that profiles were rejected. */
bool otlp_rejected(const void *answer, size_t bytes);

#endif
