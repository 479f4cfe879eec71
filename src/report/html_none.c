#include "report/diff.h"
#include "report/document.h"
#include "report/report.h"

static int none(struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     "--html: this mallow was built without the page (-Dhtml=disabled); build it "
                     "with -Dhtml=enabled, which needs node and npm");
}

int report_html(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *options, struct error *err)
{
    (void)out, (void)path, (void)t, (void)symbols, (void)options;
    return none(err);
}

int report_html_document(FILE *out, const char *title, const char *kind, const char *json,
                         size_t json_bytes, struct error *err)
{
    (void)out, (void)title, (void)kind, (void)json, (void)json_bytes;
    return none(err);
}

int diff_html(FILE *out, const struct diff *d, struct symbols *symbols,
              const struct report_options *options, struct error *err)
{
    (void)out, (void)d, (void)symbols, (void)options;
    return none(err);
}
