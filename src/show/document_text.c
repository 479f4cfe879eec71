/* document_text.c - JSON in memory, then printed or packed; see document_text.h. */
#include "show/document_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "show/html_page.h"

int document_begin(struct document_text *d, struct error *err)
{
    *d = (struct document_text){.json = {.one_line = true}};
    d->json.out = open_memstream(&d->text, &d->bytes);
    if (!d->json.out)
        return error_memory(err);
    json_open_object(&d->json, NULL);
    return 0;
}

static int close_text(struct document_text *d, int status, struct error *err)
{
    json_close_to(&d->json, 0);
    return fclose(d->json.out) && !status ? error_memory(err) : status;
}

int document_end(struct document_text *d, int status, struct error *err)
{
    status = close_text(d, status, err);
    if (!status)
        text_put_json(stdout, d->text);
    free(d->text);
    return status;
}

int document_end_page(struct document_text *d, int status, const char *path, const char *title,
                      const char *kind, struct error *err)
{
    status = close_text(d, status, err);
    if (!status)
        status = html_page_file(path, title, kind, d->text, d->bytes, err);
    free(d->text);
    return status;
}
