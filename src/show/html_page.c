/* html_page.c - Writes the head, style and script of a page around its data blocks. The content
 * security policy admits only this script and this style, so text from a recording never runs. A
 * page that would exceed HTML_PAGE_BYTES is an error. */
#include "show/html_page.h"

#include "show/html_assets.h"
#include "show/html_pack.h"
#include "show/output.h"

#define SPARE_BYTES 20000u

size_t html_page_room(void)
{
    const size_t fixed = html_script_bytes + html_style_bytes + SPARE_BYTES;
    return fixed < HTML_PAGE_BYTES ? HTML_PAGE_BYTES - fixed : 0;
}

void html_page_begin(FILE *out, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '",
          out);
    /* Only this script and this style: what a recording holds never runs, however it got there. */
    fprintf(out, "%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'\">\n",
            html_script_hash, html_style_hash);
    fputs("<meta name=\"generator\" content=\"mallow " MALLOW_VERSION "\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    html_text(out, title);
    fputs(" - mallow</title>\n<style>", out);
    fwrite(html_style, 1, html_style_bytes, out);
    fputs("</style>\n</head>\n<body>\n<div id=\"page\"><noscript>This page needs JavaScript. The "
          "same command without --html prints its contents as text.</noscript></div>\n",
          out);
}

void html_page_end(FILE *out)
{
    fputs("<script>", out);
    fwrite(html_script, 1, html_script_bytes, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

int html_page_document(FILE *out, const char *title, const char *kind, const char *json,
                       size_t json_bytes, struct error *err)
{
    struct html_block block;
    if (html_block_pack(&block, json, json_bytes, 0, err))
        return -1;
    int status = 0;
    if (block.page_bytes > html_page_room())
        status = error_set(err, ERROR_UNSUPPORTED,
                           "the page would take %zu bytes; the limit is %u. --json has no limit",
                           block.page_bytes, HTML_PAGE_BYTES);
    if (!status) {
        html_page_begin(out, title);
        html_block_write(out, kind, &block);
        html_page_end(out);
    }
    html_block_release(&block);
    return status;
}

int html_page_file(const char *path, const char *title, const char *kind, const char *text,
                   size_t bytes, struct error *err)
{
    struct output output;
    if (output_open(&output, path, err))
        return -1;
    int status = html_page_document(output.file, title, kind, text, bytes, err);
    return output_close(&output, status == 0, err) ? -1 : status;
}
