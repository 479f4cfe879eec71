/* document.c - Prints a JSON tree to standard output, or puts it into a page. Every string
 * passes through text_put_json, which replaces characters that could command a terminal. */
#include "show/document.h"

#include <stdio.h>

#include "base/text.h"
#include "show/html_page.h"

#define PLAIN    (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define INDENTED (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)

void document_print(json_object *json)
{
    text_put_json(stdout, json_object_to_json_string_ext(json, PLAIN));
}

void document_print_indented(json_object *json)
{
    text_put_json(stdout, json_object_to_json_string_ext(json, INDENTED));
}

int document_page(const char *path, const char *title, const char *kind, json_object *json,
                  struct error *err)
{
    size_t n;
    const char *text = json_object_to_json_string_length(json, PLAIN, &n);
    return html_page_file(path, title, kind, text, n, err);
}
