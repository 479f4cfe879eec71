#include "page/source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trust/file.h"
#include "trust/place.h"

#define ITEMS_MAX  500u       /* excerpts */
#define FILES_MAX  200u       /* read for them */
#define FILE_BYTES (1u << 20) /* the largest file; larger ones are no sources */
#define AROUND     3u         /* lines before and behind */
#define LINE_BYTES 200u       /* the most of a line; the rest is left out */

struct source { /* a file that was read, or could not be */
    const char *file;
    char *text; /* NULL: it could not */
};

struct reader {
    int root; /* directory */
    const char *root_path;
    struct source files[FILES_MAX];
    size_t count;
};

/* The path below the root: without "." and "..", nor the root before it; "" when it is elsewhere.
 */
static void below(const struct reader *r, const char *file, struct buffer *out)
{
    const size_t root = strlen(r->root_path);
    buffer_clear(out);
    for (const char *p = file; *p;) {
        const size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (out->size_bytes && out->data[--out->size_bytes] != '/')
                ;
        } else if (n && !(n == 1 && p[0] == '.')) {
            buffer_append_char(out, '/');
            buffer_append(out, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (buffer_failed(out) || !out->size_bytes) {
        buffer_clear(out);
        return;
    }
    out->data[out->size_bytes] = 0;
    size_t skip = 1; /* a relative name is one of the root */
    if (file[0] == '/') {
        const bool inside = !strncmp(out->data, r->root_path, root) && out->data[root] == '/';
        skip = inside ? root + 1 : out->size_bytes;
    }
    memmove(out->data, out->data + skip, out->size_bytes - skip + 1);
    out->size_bytes -= skip;
}

/* The text of a file; NULL when it cannot be had. */
static const char *source_text(struct reader *r, const char *file)
{
    static const struct trust_rule any = {
        .what = "the source", .owners = TRUST_ANYBODY, .follow = true, .most_bytes = FILE_BYTES};
    struct buffer path = {0};
    struct error ignored; /* a source that is not here is no fault */
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->files[i].file, file))
            return r->files[i].text;
    if (r->count == FILES_MAX)
        return NULL;
    struct source *s = &r->files[r->count++];
    *s = (struct source){file, NULL};
    below(r, file, &path);
    const int fd =
        path.size_bytes ? trust_open_below(r->root, buffer_text(&path), &any, &ignored) : -1;
    if (fd >= 0) {
        size_t bytes;
        s->text = trust_read_whole(fd, FILE_BYTES, &bytes, &ignored);
        close(fd);
    }
    buffer_release(&path);
    return s->text;
}

static void write_lines(struct json *j, const char *text, unsigned first, unsigned end)
{
    unsigned line = 1;
    json_open_array(j, "lines");
    for (const char *p = text; *p && line < end; line++) {
        size_t n = strcspn(p, "\n"), shown = n;
        if (line >= first) {
            char cut[LINE_BYTES + 1];
            while (shown && (shown > LINE_BYTES || ((unsigned char)p[shown] & 0xc0) == 0x80))
                shown--; /* never within a character */
            memcpy(cut, p, shown);
            cut[shown] = 0;
            json_text(j, NULL, cut);
        }
        p += n + (p[n] == '\n');
    }
    json_close_array(j);
}

/* False: the file is not there, or has no such line. */
static bool write_item(struct json *j, struct reader *r, const struct name_frame *f, uint32_t frame)
{
    if (!f->file || !*f->file || !f->line)
        return false;
    const char *text = source_text(r, f->file), *at = text;
    for (unsigned line = 1; at && line < f->line; line++)
        at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    if (!at || !*at)
        return false;
    const unsigned first = f->line > AROUND ? f->line - AROUND : 1;
    json_open_object(j, NULL);
    json_number(j, "frame", frame);
    json_number(j, "line", f->line);
    json_number(j, "first", first);
    write_lines(j, text, first, f->line + AROUND + 1);
    json_close_object(j);
    return true;
}

struct wish {
    float weight; /* as a call site */
    uint32_t id;
};

static int by_weight(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int html_sources(struct json *j, const struct page_sites *sites, const struct names *names,
                 const uint32_t *number, const char *root, struct error *err)
{
    if (!root) {
        json_null(j, "sources");
        return 0;
    }
    struct reader *r = calloc(1, sizeof *r);
    struct wish *wishes = malloc(((size_t)sites->frame_ids + 1) * sizeof *wishes);
    uint32_t n = 0;
    if (!r || !wishes) {
        free(r);
        free(wishes);
        return error_memory_for(err, "the sources on the page");
    }
    r->root_path = root;
    r->root = trust_directory(AT_FDCWD, *root ? root : "/",
                              &(struct trust_rule){.owners = TRUST_ANYBODY, .follow = true}, err);
    if (r->root < 0) {
        free(r);
        free(wishes);
        return -1;
    }
    for (uint32_t id = 0; id < sites->frame_ids; id++)
        if (number[id + 1])
            wishes[n++] = (struct wish){sites->site_weight[id + 1], id};
    qsort(wishes, n, sizeof *wishes, by_weight);
    json_open_object(j, "sources");
    json_text(j, "root", root);
    json_open_array(j, "items");
    for (uint32_t i = 0, shown = 0; i < n && shown < ITEMS_MAX; i++)
        shown += write_item(j, r, names_frame(names, wishes[i].id), number[wishes[i].id + 1] - 1);
    json_close_array(j);
    json_close_object(j);
    for (size_t i = 0; i < r->count; i++)
        free(r->files[i].text);
    close(r->root);
    free(r);
    free(wishes);
    return 0;
}
