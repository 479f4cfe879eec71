#include "cli/watch_screen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/text.h"

#define ENTER "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

enum view { VIEW_OLD, VIEW_ALL, VIEW_FREES, VIEW_HELP };

struct watch_screen {
    struct watch_view *view;
    struct watch_run *run;
    struct watch_options options;
    enum view shown;
    uint32_t process; /* index */
    bool paused;
    char said[160];
    char *text; /* the text drawn */
    size_t text_bytes;
    FILE *out;
};

/* ---- the terminal ---- */

static struct termios before;
static volatile sig_atomic_t taken, changed;

static void give_back(void)
{
    if (!taken)
        return;
    taken = 0;
    ssize_t ignored = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    (void)ignored;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void take(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    ssize_t ignored = write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
    (void)ignored;
    taken = 1;
}

static void on_signal(int number);

/* Neither of stopping and going on interrupts the other. */
static void listen_to(int number)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaddset(&act.sa_mask, SIGTSTP);
    sigaddset(&act.sa_mask, SIGCONT);
    sigaction(number, &act, NULL);
}

/* Only what may be done in a handler: write, tcsetattr, sigaction, raise. */
static void on_signal(int number)
{
    int kept = errno;
    if (number == SIGWINCH) {
        changed = 1;
    } else if (number == SIGCONT) {
        take();
        changed = 1;
    } else { /* SIGTSTP, or our own crash. A stop that could not be undone does not happen. */
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigset_t one;
        give_back();
        sigaction(number, &standard, NULL);
        sigemptyset(&one);
        sigaddset(&one, number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(number);
        sigprocmask(SIG_BLOCK, &one, NULL);
        listen_to(number);
        take();
        changed = 1;
    }
    errno = kept;
}

struct watch_screen *watch_screen_begin(struct watch_view *view, struct watch_run *run,
                                        const struct watch_options *options, struct error *err)
{
    static bool registered;
    struct watch_screen *s = calloc(1, sizeof *s);
    if (s)
        s->out = open_memstream(&s->text, &s->text_bytes);
    if (!s || !s->out) {
        free(s);
        error_memory(err);
        return NULL;
    }
    s->view = view;
    s->run = run;
    s->options = *options;
    if (tcgetattr(STDIN_FILENO, &before)) {
        error_system(err, "cannot use the terminal");
        watch_screen_end(s);
        return NULL;
    }
    if (!registered)
        registered = !atexit(give_back);
    for (const int *n =
             (const int[]){SIGTSTP, SIGCONT, SIGWINCH, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, 0};
         *n; n++)
        listen_to(*n);
    take();
    return s;
}

void watch_screen_end(struct watch_screen *s)
{
    give_back();
    if (!s)
        return;
    fclose(s->out);
    free(s->text);
    free(s);
}

void watch_screen_say(struct watch_screen *s, const char *line)
{
    snprintf(s->said, sizeof s->said, "%s", line);
}

/* ---- its content ---- */

static struct watch_process *current(struct watch_screen *s)
{
    uint32_t n = watch_run_count(s->run);
    if (!n)
        return NULL;
    if (s->process >= n)
        s->process = n - 1;
    return watch_run_process(s->run, s->process);
}

static void head(struct watch_screen *s, const struct watch_process *p, unsigned columns)
{
    char up[HUMAN_TEXT_BYTES], now[HUMAN_TEXT_BYTES], peak[HUMAN_TEXT_BYTES],
        period[HUMAN_TEXT_BYTES], dropped[64] = "";
    struct page page = {.out = s->out, .columns = columns, .unicode = true};
    struct buffer line = {0};
    uint64_t n = watch_dropped(p);
    human_duration(up, p->time_ns > p->start_ns ? p->time_ns - p->start_ns : 0);
    human_size(now, estimate_whole(process_footprint(p)));
    human_size(peak, estimate_whole(p->high_water_bytes));
    human_size(period, watch_period(p, true));
    if (n)
        snprintf(dropped, sizeof dropped, ", %llu samples dropped", (unsigned long long)n);
    buffer_printf(&line, "%s [%d]  %sup %s  heap about %s, peak %s  one sample in %s%s",
                  watch_process_name(p), (int)p->pid, s->paused ? "PAUSED  " : "", up, now, peak,
                  period, dropped);
    fputs("\033[1m", s->out);
    page_line(&page, &line);
    fputs("\033[0m", s->out);
    buffer_release(&line);
}

static const char *signed_size(char out[HUMAN_TEXT_BYTES + 1], double bytes)
{
    if (bytes < 1 && bytes > -1)
        return strcpy(out, ".");
    out[0] = bytes < 0 ? '-' : '+';
    human_size(out + 1, estimate_whole(bytes < 0 ? -bytes : bytes));
    return out;
}

static void row(struct watch_screen *s, const struct watch_rows *rows, const struct watch_row *r,
                unsigned columns)
{
    const struct watch_site *site = &r->site;
    struct page page = {.out = s->out, .columns = columns, .unicode = true};
    struct buffer b = {0};
    char text[HUMAN_TEXT_BYTES + 1];
    page_right(&b, human_size(text, estimate_whole(site->chosen.bytes)), 10);
    page_right(&b, signed_size(text, site->growth_bytes), 11);
    page_right(&b, human_count(text, estimate_whole(site->chosen.blocks)), 11);
    page_right(&b, human_duration(text, site->oldest_ns), 9);
    buffer_append_text(&b, "  ");
    if (r->first < r->count)
        page_frame(&page, &b, names_frame(rows->names, r->frames[r->first]),
                   columns > 60 ? (columns - 43) * 2 / 3 : 24);
    if (r->first + 1 < r->count) {
        buffer_append_text(&b, " < ");
        page_frame(&page, &b, names_frame(rows->names, r->frames[r->first + 1]), 0);
    }
    page_line(&page, &b);
    buffer_release(&b);
}

static void table(struct watch_screen *s, struct watch_process *p, unsigned lines, unsigned columns)
{
    struct watch_report r;
    struct watch_rows rows;
    struct error err = {0};
    char age[HUMAN_TEXT_BYTES], total[HUMAN_TEXT_BYTES];
    enum watch_kind kind = s->shown == VIEW_OLD ? WATCH_OLD : WATCH_ALL;
    if (watch_run_report(s->run, p, kind,
                         kind == WATCH_OLD ? REPORTED_SCREEN_OLD : REPORTED_SCREEN_ALL, &r, &err) ||
        watch_view_rows(s->view, &r, &rows, &err)) {
        text_printf(s->out, "%s\n", err.text);
        watch_report_free(&r);
        return;
    }
    head(s, p, columns);
    human_size(total, estimate_whole(rows.total.bytes));
    if (kind == WATCH_OLD)
        text_printf(s->out, "%s in blocks older than %s%s, %zu call sites\n", total,
                    human_duration(age, r.older_than_ns),
                    !r.automatic       ? ""
                    : r.choice.most_ns ? " (by the program's lifetimes)"
                                       : " (until its lifetimes are known)",
                    rows.count);
    else
        text_printf(s->out, "%s live, %zu call sites\n", total, rows.count);
    text_printf(s->out, "\033[7m%10s%11s%11s%9s  %-*s\033[0m\n", "BYTES", "GROWTH", "BLOCKS",
                "OLDEST", columns > 43 ? (int)columns - 43 : 0, "CALL SITE");
    for (size_t i = 0; i < rows.count && i + 4 < lines; i++)
        row(s, &rows, &rows.items[i], columns);
    watch_rows_free(&rows);
    watch_report_free(&r);
}

static void frees(struct watch_screen *s, struct watch_process *p, unsigned columns)
{
    struct watch_report r;
    struct error err = {0};
    if (watch_run_report(s->run, p, WATCH_FREES, REPORTED_SCREEN_ALL, &r, &err)) {
        text_printf(s->out, "%s\n", err.text);
    } else {
        head(s, p, columns);
        watch_view_retarget(s->view, s->out, columns);
        if (watch_view_report(s->view, &r, false, &err))
            text_printf(s->out, "%s\n", err.text);
    }
    watch_report_free(&r);
}

static const char help_text[] = "o  blocks that are old          a  all that are live\n"
                                "k  mark the old ones as known   f  the latest frees\n"
                                "b  order by bytes               g  order by growth\n"
                                "t  order by age                 s  order by bytes x seconds held\n"
                                "Tab  the next process           Space  stop and start sampling\n"
                                "r  a report of old blocks, where reports go\n"
                                "q  end the watch (the program goes on)\n";

/* Lines of the text, each cleared to its end, up to the height of the screen. */
static void flush_screen(struct watch_screen *s, unsigned lines, unsigned columns)
{
    fflush(s->out);
    struct buffer b = {0};
    buffer_append_text(&b, "\033[H");
    const char *at = s->text, *end_of = s->text + s->text_bytes;
    for (unsigned i = 0; i + 1 < lines; i++) {
        const char *next = at < end_of ? memchr(at, '\n', (size_t)(end_of - at)) : NULL;
        if (at < end_of)
            buffer_append(&b, at, (size_t)((next ? next : end_of) - at));
        buffer_append_text(&b, "\033[K\r\n");
        at = next ? next + 1 : end_of;
    }
    const char *foot = *s->said ? s->said
                                : "o old  a all  k known  f frees  b g t s order  Tab process  "
                                  "Space pause  ? help  q quit";
    text_append_printf(&b, "%.*s\033[K", (int)columns - 1, foot);
    const char *bytes = buffer_text(&b);
    for (size_t n = b.size_bytes; n;) {
        ssize_t w = write(STDOUT_FILENO, bytes, n);
        if (w < 0 && errno != EINTR)
            break;
        bytes += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
    buffer_release(&b);
}

void watch_screen_draw(struct watch_screen *s)
{
    struct winsize size;
    unsigned lines = 24, columns = 80;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 4 && size.ws_col > 20) {
        lines = size.ws_row;
        columns = size.ws_col;
    }
    if (!taken)
        return;
    changed = 0;
    rewind(s->out);
    struct watch_process *p = current(s);
    if (s->shown == VIEW_HELP)
        fputs(help_text, s->out);
    else if (!p)
        fputs("waiting for the first sampled allocation\n", s->out);
    else if (s->shown == VIEW_FREES)
        frees(s, p, columns);
    else
        table(s, p, lines, columns);
    flush_screen(s, lines, columns);
}

/* ---- keys ---- */

static void press(struct watch_screen *s, char key)
{
    s->said[0] = 0;
    switch (key) {
    case 'o': s->shown = VIEW_OLD; break;
    case 'a': s->shown = VIEW_ALL; break;
    case 'f': s->shown = VIEW_FREES; break;
    case 'h':
    case '?': s->shown = s->shown == VIEW_HELP ? VIEW_OLD : VIEW_HELP; break;
    case 'k':
        watch_run_command(s->run, WATCH_MARK_KNOWN);
        watch_screen_say(s, "old blocks are known now and no longer reported");
        break;
    case 'r': watch_run_command(s->run, WATCH_TELL_OLD); break;
    case ' ':
        watch_run_command(s->run, WATCH_TOGGLE);
        s->paused = !s->paused;
        break;
    case '\t':
        s->process = watch_run_count(s->run) ? (s->process + 1) % watch_run_count(s->run) : 0;
        break;
    case 'b': watch_view_order(s->view, s->run, WATCH_BY_BYTES); break;
    case 'g': watch_view_order(s->view, s->run, WATCH_BY_GROWTH); break;
    case 't': watch_view_order(s->view, s->run, WATCH_BY_AGE); break;
    case 's': watch_view_order(s->view, s->run, WATCH_BY_TIME); break;
    case 'q': watch_run_command(s->run, WATCH_STOP); break;
    default: break;
    }
}

void watch_screen_keys(struct watch_screen *s)
{
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
    for (ssize_t i = 0; i < n; i++)
        press(s, keys[i]);
    watch_screen_draw(s);
}
