/* doctor_show.h - what `mallow doctor` found, as text and as JSON. */
#ifndef MALLOW_CLI_DOCTOR_SHOW_H
#define MALLOW_CLI_DOCTOR_SHOW_H

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

/* Print to standard output. */
void doctor_print_text(const struct doctor_findings *s);
void doctor_print_json(const struct doctor_findings *s);

#endif
