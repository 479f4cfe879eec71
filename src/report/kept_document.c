#include "report/kept_document.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/thread.h"
#include "report/keep.h"
#include "show/layout.h"

enum { COLUMN_FACTS = 2, COLUMN_TEXT = 3 };
enum { FACT_OPTIONS, FACT_NAMES, FACTS };

#define BYTES_MOST  (8u << 20) /* of a document */
#define IMAGES_MOST 128u       /* to look up the names of more takes longer than some reports */

/* A limit needs the figures themselves, which a document does not give back. */
static bool can_be_kept(const struct document *d)
{
    return keep_is_plain(d->o) && !d->o->gate && trace_info(d->t)->image_count <= IMAGES_MOST;
}

static uint64_t key_of(const struct document *d) { return d->json; }

/* How far the local time of the recording is from UTC. */
static long offset_of(uint64_t realtime_ns)
{
    const time_t seconds = (time_t)(realtime_ns / 1000000000u);
    struct tm tm;
    return localtime_r(&seconds, &tm) ? tm.tm_gmtoff : 0;
}

/* Of all that it depends on besides names and the recording. */
static uint64_t sum_of_options(const struct document *d)
{
    const struct report_options *o = d->o;
    const uint64_t numbers[] = {o->select.pid,
                                o->by,
                                o->by_given,
                                o->top,
                                o->depth,
                                o->all_frames,
                                o->frame_table,
                                o->heap,
                                o->columns,
                                o->unicode,
                                o->bold,
                                o->plots,
                                o->numbers,
                                d->symbols != NULL,
                                d->json ? 0
                                        : (uint64_t)offset_of(trace_info(d->t)->start_realtime_ns)};
    uint64_t sum = keep_mix_text(1, d->path);
    sum = keep_mix_text(sum, o->look.source_root);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sum = keep_mix(sum, numbers[i]);
    return sum;
}

/* Of the names of all processes, and of the problems with files of debug information. */
static bool sum_of_names(const struct document *d, uint64_t *sum)
{
    const struct trace_info *info = trace_info(d->t);
    const char *const *problems = NULL;
    bool known = true;
    *sum = 1;
    for (uint32_t i = 0; i < info->image_count && known; i++) {
        struct error ignored;
        struct names *names = names_new(d->symbols, &info->images[i], &ignored);
        if ((known = names != NULL)) {
            names_set_look(names, &d->o->look);
            *sum = keep_mix(*sum, names_digest(names));
            known = !names_failed(names);
        }
        names_free(names);
    }
    const size_t n = d->symbols ? symbols_problems(d->symbols, &problems) : 0;
    uint64_t said = 0; /* in any order */
    for (size_t i = 0; i < n; i++)
        said += keep_mix_text(1, problems[i]);
    *sum = keep_mix(*sum, said);
    return known;
}

/* ---- what may be printed ---- */

/* Bytes of the sequence at s that starts or ends bold text; 0: it is another. */
static size_t bold_bytes(const char *s)
{
    static const char *const known[] = {PAGE_BOLD, PAGE_PLAIN};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(s, known[i], strlen(known[i])))
            return strlen(known[i]);
    return 0;
}

/* Nothing in it commands a terminal, but for what makes text bold where that is asked for. */
static bool is_harmless(const char *text, bool bold)
{
    struct text_shown shown;
    while (*text) {
        if (*text >= ' ' && *text <= '~') {
            text++;
            continue;
        }
        const size_t marked = *text == '\n' ? 1 : bold ? bold_bytes(text) : 0;
        const size_t n = marked ? marked : text_shown(text, &shown);
        if (!marked && shown.escaped)
            return false;
        text += n;
    }
    return true;
}

static bool is_json(const char *text, size_t bytes)
{
    struct json_tokener *parser = json_tokener_new();
    struct json_object *o = NULL;
    bool whole = false;
    if (parser) {
        json_tokener_set_flags(parser, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        o = json_tokener_parse_ex(parser, text, (int)bytes);
        whole = o && json_tokener_get_error(parser) == json_tokener_success;
        json_tokener_free(parser);
    }
    json_object_put(o);
    return whole;
}

static bool may_be_printed(const struct document *d, const char *text, size_t bytes)
{
    return bytes && bytes <= BYTES_MOST && strlen(text) == bytes && text[bytes - 1] == '\n' &&
           is_harmless(text, d->o->bold) && (!d->json || is_json(text, bytes - 1));
}

/* ---- kept before ---- */

/* The part of any image: which one holds it depends on their sizes. */
static struct trace_kept *find(const struct document *d)
{
    struct trace_kept *k = NULL;
    for (uint32_t i = 0; i < trace_info(d->t)->image_count && !k; i++)
        k = trace_kept_find(d->t, i, TRACE_KEPT_DOCUMENT, key_of(d));
    return k;
}

struct check { /* of a text, while names are looked up */
    const struct document *d;
    char *text;
    size_t bytes;
    bool fits;
};

static void *check(void *arg)
{
    struct check *c = arg;
    c->fits = may_be_printed(c->d, c->text, c->bytes);
    return NULL;
}

static bool fits(struct check *c, uint64_t wanted_names)
{
    pthread_t beside;
    uint64_t names;
    const unsigned helper = trace_take_threads(c->d->t, 1);
    const bool two = helper && !thread_start(&beside, check, c);
    const bool same = sum_of_names(c->d, &names) && names == wanted_names;
    if (two)
        pthread_join(beside, NULL);
    else if (same)
        check(c);
    trace_give_threads(c->d->t, helper);
    return same && c->fits;
}

/* A copy of the text, ended by NUL; NULL: it does not hold. */
static char *text_of(struct trace_kept *k, const struct document *d, size_t *bytes)
{
    uint64_t facts[FACTS];
    const uint64_t n = trace_kept_count(k, COLUMN_TEXT);
    if (!n || n > BYTES_MOST || !trace_kept_numbers(k, COLUMN_FACTS, facts, FACTS) ||
        facts[FACT_OPTIONS] != sum_of_options(d))
        return NULL;
    const uint8_t *data = trace_kept_bytes(k, COLUMN_TEXT);
    struct check c = {.d = d, .bytes = (size_t)n, .text = data ? malloc((size_t)n + 1) : NULL};
    if (!c.text)
        return NULL;
    memcpy(c.text, data, (size_t)n);
    c.text[n] = 0;
    *bytes = c.bytes;
    if (fits(&c, facts[FACT_NAMES]))
        return c.text;
    free(c.text);
    return NULL;
}

/* False: none holds, and nothing was printed. */
static bool print_kept(const struct document *d, FILE *out)
{
    struct trace_kept *k = can_be_kept(d) ? find(d) : NULL;
    size_t bytes = 0;
    char *text = k ? text_of(k, d, &bytes) : NULL;
    trace_kept_close(k);
    if (text)
        fwrite(text, 1, bytes, out);
    free(text);
    return text != NULL;
}

/* ---- to be kept ---- */

static void keep(const struct document *d, const char *text, size_t bytes)
{
    uint64_t facts[FACTS] = {[FACT_OPTIONS] = sum_of_options(d)};
    struct trace_kept *k = NULL;
    if (!may_be_printed(d, text, bytes) || !sum_of_names(d, &facts[FACT_NAMES]))
        return;
    for (uint32_t i = 0; i < trace_info(d->t)->image_count && !k; i++)
        k = trace_kept_new(d->t, i, TRACE_KEPT_DOCUMENT, key_of(d));
    if (!k)
        return;
    trace_kept_put_numbers(k, COLUMN_FACTS, facts, FACTS);
    trace_kept_put_bytes(k, COLUMN_TEXT, text, bytes);
    trace_kept_keep(d->t, k);
}

int kept_document_print(const struct document *d, FILE *out, kept_document_writer *write,
                        struct error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    if (print_kept(d, out))
        return 0;
    const bool keeps = can_be_kept(d) && d->o->top <= REPORT_JSON_SITES && trace_keeps(d->t);
    FILE *copy = keeps ? open_memstream(&text, &bytes) : NULL;
    const int status = write(copy ? copy : out, d->path, d->t, d->symbols, d->o, err);
    const bool whole = copy && !ferror(copy) && !status;
    if (copy && !fclose(copy)) {
        fwrite(text, 1, bytes, out);
        if (whole)
            keep(d, text, bytes);
    }
    free(text);
    return status;
}
