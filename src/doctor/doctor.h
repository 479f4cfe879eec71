/* doctor.h - what works on this machine and of a program, with the commands that fix what does not.
 *
 * Owns: the order of the facts and how they are printed; the facts are those of inspect/, probe/,
 * push/, heap/ and watch/. Changes nothing that outlives the call. One thread. */
#ifndef MALLOW_DOCTOR_DOCTOR_H
#define MALLOW_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "inspect/inspect.h"
#include "inspect/machine.h"
#include "probe/caps.h"

enum { DOCTOR_REASONS = 12 };

/* All that was found, so that text and JSON say the same. */
struct doctor_findings {
    struct machine_fact facts[MACHINE_FACTS_MAX + PROBE_CAPS_MAX + 3];
    size_t fact_count;
    bool works; /* nothing essential is missing */
    bool has_program;
    struct inspect program;
    enum inspect_verdict verdict;
    struct inspect_reason reasons[DOCTOR_REASONS];
    size_t reason_count;
};

/* Fills s, which is all zero: the facts of this machine, and of `program` (NULL: none), found as
 * the shell would. recordings: also tries the probes that recording uses, which takes a while. -1
 * with *err: there is no such program. */
int doctor_find(struct doctor_findings *s, const char *program, bool recordings, struct error *err);

/* True if recording works here, and of the program, if there is one. */
bool doctor_passes(const struct doctor_findings *s);

/* Print to standard output. The text is colored and wrapped where that is a terminal. */
void doctor_print_text(const struct doctor_findings *s);
void doctor_print_json(const struct doctor_findings *s);

#endif
