#include "report/report.h"

int report_html(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *options, struct error *err)
{
    (void)out, (void)path, (void)t, (void)symbols, (void)options;
    return error_set(err, ERROR_UNSUPPORTED,
                     "--html: this mallow was built without the page (-Dhtml=disabled); build it "
                     "with -Dhtml=enabled, which needs node and npm");
}
