/* diff.c - Writes the page of a diff. It halves the number of call sites until the page fits its
 * bound. */
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#include "show/html_pack.h"
#include "show/html_page.h"

#define SITES_MAX 4000u

/* The document with at most `top` call sites, packed. */
static int pack_diff(struct html_block *block, const struct diff *d, struct symbols *symbols,
                     struct report_options options, uint64_t top, struct error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *f = open_memstream(&text, &text_bytes);
    if (!f)
        return error_system(err, "memory for the page");
    options.top = top;
    diff_json(f, d, symbols, &options);
    int status = fclose(f) ? error_system(err, "memory for the page")
                           : html_block_pack(block, text, text_bytes, 0, err);
    free(text);
    return status;
}

int diff_html(FILE *out, const struct diff *d, struct symbols *symbols,
              const struct report_options *options, struct error *err)
{
    struct html_block block;
    uint64_t top = options->top && options->top < SITES_MAX ? options->top : SITES_MAX;
    for (;; top /= 2) {
        if (pack_diff(&block, d, symbols, *options, top, err))
            return -1;
        if (block.page_bytes <= html_page_room() || top <= 1)
            break;
        html_block_release(&block);
    }
    const char *slash = strrchr(d->now.path, '/');
    html_page_begin(out, slash ? slash + 1 : d->now.path);
    html_block_write(out, "diff", &block);
    html_page_end(out);
    html_block_release(&block);
    return 0;
}
