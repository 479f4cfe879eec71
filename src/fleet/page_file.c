/* page_file.c - an answer as a page that is whole when it has its name. */
#include "fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "show/output.h"
#include "show/html_page.h"

enum {
    SITES = 1000,
    SITES_MOST = 1 << 20 /* more than fit into a page: where a search of how many do begins */
};

static int write_page(const char *path, const char *where, const char *kind, const char *json,
                      size_t bytes, struct error *err)
{
    const char *slash = strrchr(where, '/');
    struct output output;
    if (output_open(&output, path, err))
        return -1;
    const int status = html_page_document(output.file, slash && slash[1] ? slash + 1 : where, kind,
                                          json, bytes, err);
    return output_close(&output, status == 0, err) ? -1 : status;
}

static int ask(char **json, size_t *bytes, struct fleet_store *store,
               const struct fleet_selection *of, const struct fleet_question *q, struct error *err)
{
    FILE *f = open_memstream(json, bytes);
    if (!f)
        return error_memory(err);
    const int status = fleet_ask(f, store, of, q, err);
    if (fclose(f) && !status)
        return error_memory(err);
    return status;
}

int fleet_page(const char *path, struct fleet_store *store, const struct fleet_selection *of,
               const struct fleet_question *q, struct error *err)
{
    struct fleet_question asked = *q;
    int status;
    asked.json = asked.page = true;
    asked.top = !q->top ? SITES : q->top < SITES_MOST ? q->top : SITES_MOST;
    for (;; asked.top /= 2) {
        char *json = NULL;
        size_t bytes = 0;
        bool large = false;
        status = ask(&json, &bytes, store, of, &asked, err);
        if (!status) {
            status = write_page(path, q->where, q->what == FLEET_DIFF ? "fleet-diff" : "fleet",
                                json, bytes, err);
            large = status && err->kind == ERROR_UNSUPPORTED && asked.top > 1;
        }
        free(json);
        if (!large)
            return status;
    }
}
