/* draft.c - Collects the text of a block and estimates its compressed size from an eighth of it.
 * A thread compresses the samples while the caller writes. */
#include "page/draft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <zlib.h>

#include "base/drain.h"
#include "base/large.h"
#include "show/html_pack.h"

#define OUT_BYTES ((size_t)64 << 10)

#define GUESSED_LEAST ((size_t)8 << 20)   /* bytes of a text: of a shorter one nothing is guessed */
#define SAMPLE_BYTES  ((size_t)128 << 10) /* in a row; several times what deflate looks back */
#define SAMPLE_STEP   (8 * SAMPLE_BYTES)  /* in each of these the middle is compressed */

#define PARTS 8u /* samples that wait for the thread */

/* The samples are one stream: each but the first finds text like its own before it. */
struct html_draft_guess {
    z_stream z;
    bool made, beside;
    size_t next, sampled; /* where the next sample begins; bytes of all */
    struct drain *drain;  /* NULL: the caller compresses */
    unsigned char *parts; /* [PARTS * SAMPLE_BYTES] */
    char out[OUT_BYTES];  /* the FILE to write to */
};

/* ---- the guess ---- */

static void compress_some(z_stream *z, const void *data, size_t bytes, int flush)
{
    unsigned char out[4096];
    z->next_in = (unsigned char *)(uintptr_t)data; /* zlib only reads it */
    z->avail_in = (uInt)bytes;
    do {
        z->next_out = out;
        z->avail_out = sizeof out;
        (void)deflate(z, flush);
    } while (!z->avail_out);
}

static void take_part(void *arg, unsigned part)
{
    struct html_draft_guess *g = arg;
    compress_some(&g->z, g->parts + part * SAMPLE_BYTES, SAMPLE_BYTES, Z_NO_FLUSH);
}

static void begin_guess(struct html_draft_guess *g)
{
    g->made = deflateInit(&g->z, Z_DEFAULT_COMPRESSION) == Z_OK;
    g->parts = g->made && g->beside ? malloc(PARTS * SAMPLE_BYTES) : NULL;
    if (g->parts)
        g->drain = drain_open(PARTS, take_part, g);
    g->next = SAMPLE_STEP / 2;
}

static void add_sample(struct html_draft_guess *g, const char *sample)
{
    if (g->drain)
        memcpy(g->parts + drain_next(g->drain) * SAMPLE_BYTES, sample, SAMPLE_BYTES);
    else
        compress_some(&g->z, sample, SAMPLE_BYTES, Z_NO_FLUSH);
    g->sampled += SAMPLE_BYTES;
    g->next += SAMPLE_STEP;
}

/* Takes what the text, which has grown, has in samples. */
static void follow_text(struct html_draft *d)
{
    struct html_draft_guess *g = d->guess;
    if (d->bytes < GUESSED_LEAST)
        return;
    if (!g->next)
        begin_guess(g);
    while (g->made && g->next + SAMPLE_BYTES <= d->bytes)
        add_sample(g, d->text + g->next);
}

static size_t end_guess(struct html_draft_guess *g, size_t text_bytes)
{
    drain_close(g->drain);
    g->drain = NULL;
    if (!g->made)
        return 0;
    compress_some(&g->z, NULL, 0, Z_FINISH);
    return html_block_takes(
        (size_t)((double)g->z.total_out / (double)g->sampled * (double)text_bytes));
}

static void free_guess(struct html_draft_guess *g)
{
    if (!g)
        return;
    drain_close(g->drain);
    if (g->made)
        (void)deflateEnd(&g->z);
    free(g->parts);
    free(g);
}

/* ---- the text ---- */

static ssize_t append(void *cookie, const char *data, size_t n)
{
    struct html_draft *d = cookie;
    if (!LARGE_ROOM(d->text, d->bytes + n, d->room))
        return 0;
    memcpy(d->text + d->bytes, data, n);
    d->bytes += n;
    follow_text(d);
    return (ssize_t)n;
}

int html_draft_open(struct html_draft *d, bool beside, struct error *err)
{
    memset(d, 0, sizeof *d);
    d->guess = calloc(1, sizeof *d->guess);
    d->out = d->guess ? fopencookie(d, "w", (cookie_io_functions_t){.write = append}) : NULL;
    if (!d->out) {
        html_draft_release(d);
        return error_memory_for(err, "the page");
    }
    d->guess->beside = beside;
    (void)setvbuf(d->out, d->guess->out, _IOFBF, OUT_BYTES);
    return 0;
}

int html_draft_close(struct html_draft *d, struct error *err)
{
    const bool failed = ferror(d->out);
    const int closed = fclose(d->out);
    d->out = NULL;
    if (failed || closed)
        return error_memory_for(err, "the page");
    d->guess_bytes = d->guess->next ? end_guess(d->guess, d->bytes) : 0;
    return 0;
}

void html_draft_release(struct html_draft *d)
{
    if (d->out)
        (void)fclose(d->out);
    free_guess(d->guess);
    free(d->text);
    memset(d, 0, sizeof *d);
}
