/* screen.c - Handles the keys of the live view, and draws the table, a stack, the processes or
 * the frees. Drawing reads the state of the watch between its rounds. */
#include "watch/live/screen.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/text.h"
#include "watch/live/screen_impl.h"
#include "watch/live/terminal.h"

struct watch_screen *watch_screen_begin(struct watch_view *view, struct watch_run *run,
                                        enum watch_order order, struct error *err)
{
    struct watch_screen *s = calloc(1, sizeof *s);
    if (s) {
        s->out = open_memstream(&s->text, &s->text_bytes);
        s->memory = list_memory_new();
    }
    if (!s || !s->out || !s->memory) {
        watch_screen_end(s);
        error_memory(err);
        return NULL;
    }
    s->view = view;
    s->run = run;
    s->kind = WATCH_OLD;
    s->order = order;
    if (terminal_take(err)) {
        watch_screen_end(s);
        return NULL;
    }
    return s;
}

void watch_screen_end(struct watch_screen *s)
{
    terminal_give_back();
    if (!s)
        return;
    list_memory_free(s->memory);
    if (s->out)
        fclose(s->out);
    free(s->text);
    free(s);
}

void watch_screen_say(struct watch_screen *s, const char *line)
{
    snprintf(s->said, sizeof s->said, "%s", line);
}

/* ---- processes ---- */

struct watch_process *screen_process(struct watch_screen *s)
{
    const uint32_t n = watch_run_count(s->run);
    if (!n)
        return NULL;
    if (s->process >= n)
        s->process = n - 1;
    return watch_run_process(s->run, s->apart || n == 1 ? s->process : 0);
}

static void forget_graph(struct watch_screen *s)
{
    s->moments = 0;
    memset(s->live, 0, sizeof s->live);
    memset(s->rss, 0, sizeof s->rss);
}

/* The figures of this moment, of the processes that are shown. Pages that several of them share
 * count once: which those are takes the kernel long, and at most a twentieth of the time. */
static void look_at_processes(struct watch_screen *s)
{
    const struct watch_process *one = screen_process(s);
    const bool alone = s->apart || watch_run_count(s->run) == 1;
    const uint64_t now_ns = clock_monotonic_ns(), begun_ns = clock_thread_ns();
    const bool asks = !alone && now_ns - s->shared_ns >= 20 * s->shared_took_ns;
    double live = 0;
    uint64_t rss = 0, shares = 0;
    for (uint32_t i = 0; i < watch_run_count(s->run); i++) {
        const struct watch_process *p = watch_run_process(s->run, i);
        if ((s->apart && p != one) || p->life != WATCH_RUNNING)
            continue;
        live += process_footprint(p);
        rss += process_rss(p);
        shares += asks ? process_share(p) : 0;
    }
    if (asks) {
        s->shared_bytes = rss > shares ? rss - shares : 0;
        s->shared_ns = now_ns;
        s->shared_took_ns = clock_thread_ns() - begun_ns;
    }
    if (!alone)
        rss -= rss < s->shared_bytes ? rss : s->shared_bytes;
    if (!one)
        return;
    s->live[s->moments % SCREEN_MOMENTS] = estimate_whole(live);
    s->rss[s->moments % SCREEN_MOMENTS] = rss;
    s->moments++;
    list_memory_advance(s->memory);
}

/* ---- drawing ---- */

static const char table_foot[] =
    "Enter stack  / filter  <> sort  o old  a all  t together  P list  ? help  q quit";

static void put_foot(const struct watch_screen *s, struct buffer *b)
{
    static const char *const feet[] = {
        [SCREEN_TABLE] = table_foot,
        [SCREEN_SITE] = "Up Down scroll  Esc back  ? help",
        [SCREEN_PROCESSES] = "Enter show  t together  Esc back  ? help",
        [SCREEN_FREES] = "Up Down scroll  Tab process  Esc back  ? help",
        [SCREEN_HELP] = "Esc back"};
    const int width = (int)s->columns - 1;
    struct buffer foot = {0};
    if (s->typing)
        buffer_printf(&foot, "filter: %s_", s->filter);
    else
        buffer_append_text(&foot, *s->said ? s->said : feet[s->shown]);
    text_append_printf(b, "%.*s\033[K", width, buffer_text(&foot));
    buffer_release(&foot);
}

/* Lines of the text, each cleared to its end, up to the height of the screen. */
static void flush_screen(struct watch_screen *s)
{
    fflush(s->out);
    struct buffer b = {0};
    const bool scrolls = s->shown == SCREEN_SITE || s->shown == SCREEN_FREES;
    const char *at = s->text, *end_of = s->text + s->text_bytes;
    size_t lines = 0, skip = 0;
    for (const char *p = at; p < end_of; p++)
        lines += *p == '\n';
    if (scrolls) {
        const size_t most = lines + 1 > s->lines ? lines + 1 - s->lines : 0;
        s->scroll = s->scroll < most ? s->scroll : most;
        skip = s->scroll;
    }
    buffer_append_text(&b, "\033[H");
    for (unsigned i = 0; i + 1 < s->lines + skip; i++) {
        const char *next = at < end_of ? memchr(at, '\n', (size_t)(end_of - at)) : NULL;
        if (i >= skip) {
            if (at < end_of)
                buffer_append(&b, at, (size_t)((next ? next : end_of) - at));
            buffer_append_text(&b, "\033[K\r\n");
        }
        at = next ? next + 1 : end_of;
    }
    put_foot(s, &b);
    terminal_write(buffer_text(&b), b.size_bytes);
    buffer_release(&b);
}

static void draw(struct watch_screen *s)
{
    if (terminal_lost()) {
        terminal_give_back();
        watch_run_command(s->run, WATCH_STOP);
    }
    if (!terminal_taken())
        return;
    terminal_size(&s->lines, &s->columns);
    if (fseek(s->out, 0, SEEK_SET) != 0)
        return;
    screen_content(s);
    flush_screen(s);
}

void watch_screen_tick(struct watch_screen *s)
{
    look_at_processes(s);
    draw(s);
}

/* ---- keys ---- */

static void show_view(struct watch_screen *s, enum screen_view view)
{
    s->shown = view;
    s->scroll = 0;
    s->move = 0;
}

/* Down by so many lines or rows. */
static void go(struct watch_screen *s, long by)
{
    if (s->shown == SCREEN_TABLE || s->shown == SCREEN_PROCESSES)
        s->move += by;
    else if (by < 0)
        s->scroll = s->scroll > (size_t)-by ? s->scroll - (size_t)-by : 0;
    else
        s->scroll += (size_t)by;
}

static void sort_by(struct watch_screen *s, int step)
{
    s->order = (enum watch_order)((s->order + WATCH_ORDERS + (unsigned)step) % WATCH_ORDERS);
    watch_view_order(s->view, s->run, s->order);
    s->key = s->at = s->top = 0;
}

static void next_process(struct watch_screen *s, uint32_t step)
{
    const uint32_t n = watch_run_count(s->run);
    s->process = n && s->apart ? (s->process + step) % n : 0;
    s->apart = n > 1;
    s->key = s->at = s->top = 0;
    forget_graph(s);
}

static void together(struct watch_screen *s)
{
    s->apart = !s->apart && watch_run_count(s->run) > 1;
    s->key = s->at = s->top = 0;
    forget_graph(s);
    if (s->shown == SCREEN_PROCESSES)
        show_view(s, SCREEN_TABLE);
}

/* True if the key was part of a filter. */
static bool type(struct watch_screen *s, int key)
{
    size_t n = strlen(s->filter);
    if (!s->typing)
        return false;
    if (key == KEY_ENTER || key == KEY_ESCAPE) {
        s->typing = false;
        if (key == KEY_ESCAPE)
            s->filter[0] = 0;
    } else if (key == KEY_ERASE) {
        while (n && (s->filter[n - 1] & 0xc0) == 0x80)
            n--;
        s->filter[n ? n - 1 : 0] = 0;
    } else if (key >= ' ' && key < 256 && n + 1 < sizeof s->filter) {
        s->filter[n] = (char)key;
        s->filter[n + 1] = 0;
    } else if (key > 256) {
        s->typing = false; /* an arrow: the filter stands */
        return false;
    }
    s->at = s->top = 0;
    return true;
}

static void back(struct watch_screen *s)
{
    if (s->shown == SCREEN_TABLE)
        s->filter[0] = 0;
    show_view(s, SCREEN_TABLE);
}

static void enter_screen(struct watch_screen *s)
{
    if (s->move) /* a row that was not drawn yet */
        draw(s);
    if (s->shown == SCREEN_PROCESSES) {
        s->apart = watch_run_count(s->run) > 1;
        s->key = s->at = s->top = 0;
        forget_graph(s);
        show_view(s, SCREEN_TABLE);
    } else if (s->shown == SCREEN_TABLE && s->drawn) {
        s->key = s->drawn;
        show_view(s, SCREEN_SITE);
    }
}

/* Keys that move; whether it was one. */
static bool move(struct watch_screen *s, int key)
{
    const long page = s->lines > 7 ? (long)s->lines - 7 : 1, all = 1l << 30;
    switch (key) {
    case KEY_UP:
    case 'k': go(s, -1); break;
    case KEY_DOWN:
    case 'j': go(s, 1); break;
    case KEY_PAGE_UP:
    case 'b':
    case 2: go(s, -page); break;
    case KEY_PAGE_DOWN:
    case ' ':
    case 6: go(s, page); break;
    case 'u':
    case 21: go(s, -(page + 1) / 2); break;
    case 'd':
    case 4: go(s, (page + 1) / 2); break;
    case KEY_HOME:
    case 'g': go(s, -all); break;
    case KEY_END:
    case 'G': go(s, all); break;
    default: return false;
    }
    return true;
}

static void command(struct watch_screen *s, int key)
{
    switch (key) {
    case 'm':
        watch_run_command(s->run, WATCH_MARK_KNOWN);
        watch_screen_say(s, "old blocks are known now and no longer reported");
        break;
    case 'r':
        watch_run_command(s->run, WATCH_TELL_OLD);
        watch_screen_say(s, "reported");
        break;
    case 'p':
        watch_run_command(s->run, WATCH_TOGGLE);
        s->paused = !s->paused;
        break;
    case 'q':
        if (s->shown != SCREEN_TABLE) {
            show_view(s, SCREEN_TABLE);
            break;
        }
        /* fall through */
    case KEY_F10: watch_run_command(s->run, WATCH_STOP); break;
    default: break;
    }
}

static void press(struct watch_screen *s, int key)
{
    s->said[0] = 0;
    if (type(s, key) || move(s, key))
        return;
    switch (key) {
    case KEY_ENTER:
    case KEY_RIGHT: enter_screen(s); break;
    case KEY_ESCAPE:
    case KEY_LEFT:
    case KEY_ERASE: back(s); break;
    case '/':
    case '\\':
    case KEY_F3:
    case KEY_F4:
        show_view(s, SCREEN_TABLE);
        s->typing = true;
        break;
    case '<': sort_by(s, -1); break;
    case '>':
    case KEY_F6: sort_by(s, 1); break;
    case 'o':
    case 'a':
        s->kind = key == 'o' ? WATCH_OLD : WATCH_ALL;
        show_view(s, SCREEN_TABLE);
        break;
    case 'f': show_view(s, SCREEN_FREES); break;
    case 'P': show_view(s, SCREEN_PROCESSES); break;
    case 't':
    case KEY_F5: together(s); break;
    case KEY_TAB: next_process(s, 1); break;
    case KEY_BACK_TAB: next_process(s, watch_run_count(s->run) - 1); break;
    case 'h':
    case '?':
    case KEY_F1: show_view(s, s->shown == SCREEN_HELP ? SCREEN_TABLE : SCREEN_HELP); break;
    default: command(s, key); break;
    }
}

void watch_screen_keys(struct watch_screen *s)
{
    int keys[64];
    const size_t n = terminal_keys(keys, sizeof keys / sizeof *keys);
    for (size_t i = 0; i < n; i++)
        press(s, keys[i]);
    draw(s);
}
