/* dump_window.c - Sums up the records of a stretch of time and prints them as one line. A record
 * that lies beyond the window closes it first. */
#include "report/dump_window.h"

static void add(struct window_figure *f, uint64_t v)
{
    f->least = f->count && f->least < v ? f->least : v;
    f->most = f->count && f->most > v ? f->most : v;
    f->sum += (double)v;
    f->count++;
}

static uint64_t mean(const struct window_figure *f)
{
    return f->count ? (uint64_t)(f->sum / (double)f->count + 0.5) : 0;
}

void dump_window_title(const struct dump_window *w, struct lines *out)
{
    if (!w->json)
        lines_put(out, "        seconds     records    size: least      mean          most"
                       "   live: least          mean          most\n");
}

static void put_text(const struct window_figure *f, struct lines *out)
{
    const uint64_t values[] = {f->least, mean(f), f->most};
    for (int i = 0; i < 3; i++)
        if (f->count) {
            lines_char(out, ' ');
            lines_number(out, values[i], 13);
        } else {
            lines_put(out, "             -");
        }
}

static void put_json(const char *name, const struct window_figure *f, struct lines *out)
{
    lines_put(out, ",\"");
    lines_put(out, name);
    lines_put(out, "\":");
    if (!f->count) {
        lines_put(out, "null");
        return;
    }
    lines_put(out, "{\"least\":");
    lines_number(out, f->least, 0);
    lines_put(out, ",\"mean\":");
    lines_number(out, mean(f), 0);
    lines_put(out, ",\"most\":");
    lines_number(out, f->most, 0);
    lines_char(out, '}');
}

static void write(const struct dump_window *w, struct lines *out)
{
    const uint64_t time_ns = w->number * w->width_ns;
    char text[32];
    if (w->json) {
        lines_put(out, "{\"time_ns\":");
        lines_number(out, time_ns, 0);
        lines_put(out, ",\"window_ns\":");
        lines_number(out, w->width_ns, 0);
        lines_put(out, ",\"records\":");
        lines_number(out, w->records, 0);
        put_json("size_bytes", &w->size, out);
        put_json("live_bytes", &w->live, out);
        lines_put(out, "}\n");
        return;
    }
    lines_number(out, time_ns / 1000000000u, 5);
    const int n = snprintf(text, sizeof text, ".%09u", (unsigned)(time_ns % 1000000000u));
    lines_bytes(out, text, (size_t)n);
    lines_number(out, w->records, 12);
    put_text(&w->size, out);
    put_text(&w->live, out);
    lines_char(out, '\n');
}

void dump_window_end(struct dump_window *w, struct lines *out)
{
    if (w->records)
        write(w, out);
    w->records = 0;
    w->size = w->live = (struct window_figure){0};
}

void dump_window_add(struct dump_window *w, struct lines *out, uint64_t time_ns, bool sized,
                     uint64_t size_bytes, bool settled)
{
    const uint64_t number = time_ns / w->width_ns;
    if (number != w->number)
        dump_window_end(w, out);
    w->number = number;
    w->records++;
    if (sized)
        add(&w->size, size_bytes);
    if (settled)
        add(&w->live, w->live_bytes);
}
