/* main.c - mallow-replay: replays one workload once, against the malloc that this process has.
 *
 * A program of its own, linked with libc only, so that the allocator under test is preloaded into
 * nothing else. `mallow replay` and `mallow compare` run it; the arguments are theirs:
 *     mallow-replay FILE [NAME=VALUE]...
 * with order, pace, touch, timing, limit_ns, trim_ns, trim_last, dry, verify, pooled, left_out
 * (bits of pools), mallopt (NUMBER:VALUE, repeated). Prints one JSON object on stdout. Status 0; 1
 * with a line on stderr. Until the figures are taken it calls nothing that allocates. */
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "replay/allocator.h"
#include "replay/engine.h"
#include "replay/execute.h"
#include "replay/measure.h"
#include "replay/said.h"

#define FEW_CALLS 4096u

struct settings {
    struct engine_options engine;
    uint64_t trim_ns;
    bool trim_last; /* once, when the workload is done */
};

static void fail(const char *text)
{
    static const char intro[] = "mallow-replay: ";
    if (write(2, intro, sizeof intro - 1) < 0 || write(2, text, strlen(text)) < 0 ||
        write(2, "\n", 1) < 0)
        _exit(1);
    _exit(1);
}

/* The value behind "name=", or NULL. */
static const char *argument_value(const char *argument, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(argument, name, n) && argument[n] == '=' ? argument + n + 1 : NULL;
}

static int choice(const char *value, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(value, names[i]))
            return i;
    fail("a value that does not exist; see mallow replay --help");
    return -1;
}

/* The signal ends the process. */
static void set_limit(uint64_t ns)
{
    const struct itimerval limit = {
        .it_value = {(time_t)(ns / 1000000000), (suseconds_t)(ns % 1000000000 / 1000) + 1}};
    setitimer(ITIMER_REAL, &limit, NULL);
}

static void parse(struct settings *o, char **arguments)
{
    static const char *const orders[] = {"dependent", "recorded", NULL};
    static const char *const touches[] = {"none", "pages", "bytes", NULL};
    static const char *const timings[] = {"all", "sample", "none", NULL};
    for (; *arguments; arguments++) {
        const char *v;
        if ((v = argument_value(*arguments, "order")))
            o->engine.order = choice(v, orders);
        else if ((v = argument_value(*arguments, "touch")))
            o->engine.touch = choice(v, touches);
        else if ((v = argument_value(*arguments, "timing")))
            o->engine.timing = choice(v, timings);
        else if ((v = argument_value(*arguments, "pace")))
            o->engine.pace = strtod(v, NULL);
        else if ((v = argument_value(*arguments, "dry")))
            o->engine.dry = *v == '1';
        else if ((v = argument_value(*arguments, "verify")))
            o->engine.verify = *v == '1';
        else if ((v = argument_value(*arguments, "pooled")))
            o->engine.pooled = (unsigned)strtoul(v, NULL, 10);
        else if ((v = argument_value(*arguments, "left_out")))
            o->engine.left_out = (unsigned)strtoul(v, NULL, 10);
        else if ((v = argument_value(*arguments, "limit_ns")))
            set_limit(strtoull(v, NULL, 10));
        else if ((v = argument_value(*arguments, "trim_ns")))
            o->trim_ns = strtoull(v, NULL, 10);
        else if ((v = argument_value(*arguments, "trim_last")))
            o->trim_last = *v == '1';
        else if ((v = argument_value(*arguments, "mallopt"))) {
            char *end;
            int parameter = (int)strtol(v, &end, 10);
            if (*end != ':' || !allocator_is_glibc())
                fail("mallopt settings (M_...) are for glibc's malloc");
            if (!mallopt(parameter, (int)strtol(end + 1, NULL, 10)))
                fail("mallopt refused a setting (M_...)");
        } else {
            fail("an argument that does not exist; use mallow replay");
        }
    }
}

/* ---- a signal that ends the replay: in which call ---- */

static void put_line_text(char **at, const char *end, const char *text)
{
    while (*text && *at < end)
        *(*at)++ = *text++;
}

static void put_line_number(char **at, const char *end, uint64_t n)
{
    char digits[21], *p = digits + sizeof digits - 1;
    *p = 0;
    do {
        *--p = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    put_line_text(at, end, p);
}

/* The signal comes again when the handler returns, and then ends the process. */
static void say_where(int number)
{
    struct execute_call call;
    char text[256], *at = text;
    const char *const end = text + sizeof text;
    (void)number;
    if (!execute_under_way(&call))
        return;
    put_line_text(&at, end, REPLAY_WAS_IN "record ");
    put_line_number(&at, end, call.record);
    put_line_text(&at, end, " of thread ");
    put_line_number(&at, end, call.thread);
    put_line_text(&at, end, ", ");
    put_line_text(&at, end,
                  workload_is_call(call.code) ? mlw_op_name(call.code) : "which is no call");
    if (call.sized) {
        put_line_text(&at, end, " of ");
        put_line_number(&at, end, call.size_bytes);
        put_line_text(&at, end, " bytes");
    }
    if (call.alignment) {
        put_line_text(&at, end, " aligned to ");
        put_line_number(&at, end, call.alignment);
    }
    put_line_text(&at, end, "\n");
    if (write(2, text, (size_t)(at - text)) < 0)
        return;
}

static void watch_for_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_handler = say_where, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static uint64_t subtract_or_zero(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void print_call_figures(const struct engine *e, double cycles_per_ns, int timing)
{
    static struct engine_times t;
    bool first = true;
    printf(",\"calls\":{");
    for (unsigned code = 1; code < ENGINE_CODES; code++) {
        memset(&t, 0, sizeof t);
        engine_sum(e, code, &t);
        if (!t.count)
            continue;
        printf("%s\"%s\":{\"count\":%" PRIu64 ",\"failed\":%" PRIu64, first ? "" : ",",
               mlw_op_name(code), t.count, t.failed);
        first = false;
        if (e->nearest[code] != code)
            printf(",\"replaced_by\":\"%s\"", mlw_op_name(e->nearest[code]));
        if (timing != ENGINE_TIMING_NONE)
            printf(",\"timed\":%" PRIu64 ",\"preempted\":%" PRIu64, t.timed, t.preempted);
        if (t.timed)
            printf(",\"mean_cycles\":%.1f,\"p50_ns\":%.1f,\"p99_ns\":%.1f,\"p999_ns\":%.1f,"
                   "\"max_ns\":%.1f",
                   (double)t.cycles / (double)t.timed,
                   (double)engine_percentile(&t, 0.5) / cycles_per_ns,
                   (double)engine_percentile(&t, 0.99) / cycles_per_ns,
                   (double)engine_percentile(&t, 0.999) / cycles_per_ns,
                   (double)t.max_cycles / cycles_per_ns);
        printf("}");
    }
    printf("}");
}

/* Cycles of all calls; with a sample, each function's mean times its count. */
static double call_cycles(const struct engine *e)
{
    static struct engine_times t;
    double sum = 0;
    for (unsigned code = 1; code < ENGINE_CODES; code++) {
        memset(&t, 0, sizeof t);
        engine_sum(e, code, &t);
        if (t.timed)
            sum += (double)t.cycles / (double)t.timed * (double)t.count;
    }
    return sum;
}

static void print_slowest(const struct engine *e, double cycles_per_ns)
{
    static struct engine_slow best[ENGINE_SLOWEST];
    for (uint32_t i = 0; i < e->seat_count; i++)
        for (unsigned k = 0; k < ENGINE_SLOWEST; k++) {
            struct engine_slow s = e->seats[i].slowest[k];
            for (unsigned j = 0; j < ENGINE_SLOWEST; j++)
                if (s.cycles > best[j].cycles) {
                    struct engine_slow lower = best[j];
                    best[j] = s;
                    s = lower;
                }
        }
    printf(",\"slowest\":[");
    for (unsigned i = 0; i < ENGINE_SLOWEST && best[i].cycles; i++)
        printf("%s{\"function\":\"%s\",\"size_bytes\":%" PRIu64 ",\"time_ns\":%.1f}", i ? "," : "",
               mlw_op_name(best[i].code), best[i].size_bytes,
               (double)best[i].cycles / cycles_per_ns);
    printf("]");
}

static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 32)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

struct outcome {
    uint64_t wall_ns, cycles, unexpected;
    double cycles_per_ns;
    struct mallinfo2 info;
    bool has_info;
};

static void print_result(const struct settings *o, const struct engine *e, const struct measure *m,
                         const struct workload *w, const struct outcome *r)
{
    uint64_t own = e->own_bytes, own_mapped = e->own_mapped_bytes;
    uint64_t operations = 0;
    static struct engine_times t;
    for (unsigned code = 1; code < ENGINE_CODES; code++) {
        memset(&t, 0, sizeof t);
        engine_sum(e, code, &t);
        operations += t.count;
    }
    /* The count may be ahead where threads have not yet reported their frees; the plan is exact. */
    int64_t ideal = atomic_load(&e->peak);
    if (e->stages && (uint64_t)ideal > e->stages->limit_bytes)
        ideal = (int64_t)e->stages->limit_bytes;
    uint64_t cpu = subtract_or_zero(m->user_ns + m->system_ns, m->chores_ns);
    uint64_t system_ns = m->system_ns < cpu ? m->system_ns : cpu;
    printf("{\"allocator_file\":");
    print_json_text(allocator_file());
    printf(",\"threads\":%u,\"operations\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"cycles\":%" PRIu64
           ",\"user_ns\":%" PRIu64 ",\"system_ns\":%" PRIu64,
           w->thread_count, operations, r->wall_ns, r->cycles, cpu - system_ns, system_ns);
    if (o->engine.timing != ENGINE_TIMING_NONE) {
        double cycles = call_cycles(e), all = (double)cpu * r->cycles_per_ns;
        if (cycles > all && o->engine.timing == ENGINE_TIMING_SAMPLE)
            cycles = all; /* one slow call in the sample stands for many: no more than there was */
        printf(",\"allocator_cycles\":%.0f,\"allocator_share\":%.4f", cycles,
               all > 0 ? cycles / all : 0);
    }
    printf(",\"cycles_per_ns\":%.4f,\"clock_overhead_cycles\":%" PRIu64, r->cycles_per_ns,
           e->overhead_cycles);
    print_call_figures(e, r->cycles_per_ns, o->engine.timing);
    print_slowest(e, r->cycles_per_ns);
    printf(",\"start_rss_bytes\":%" PRIu64 ",\"peak_rss_bytes\":%" PRIu64
           ",\"end_rss_bytes\":%" PRIu64 ",\"workload_peak_rss_bytes\":%" PRIu64
           ",\"peak_vmsize_bytes\":%" PRIu64 ",\"peak_ideal_rss_bytes\":%" PRIu64
           ",\"peak_rss_exact\":%s,\"own_bytes\":%" PRIu64,
           subtract_or_zero(m->start.rss_bytes, own), subtract_or_zero(m->peak.rss_bytes, own),
           subtract_or_zero(m->end.rss_bytes, own),
           subtract_or_zero(m->peak.rss_bytes, m->start.rss_bytes),
           subtract_or_zero(m->peak.vmsize_bytes, own_mapped), ideal > 0 ? (uint64_t)ideal : 0,
           m->peak_is_exact ? "true" : "false", own);
    printf(",\"page_faults_minor\":%" PRIu64 ",\"page_faults_major\":%" PRIu64
           ",\"unexpected_results\":%" PRIu64 ",\"trims\":%" PRIu64,
           m->minor_faults, m->major_faults, r->unexpected, atomic_load(&m->trims));
    uint64_t sleeps[ENGINE_SLEEPS] = {0};
    for (uint32_t i = 0; i < e->seat_count; i++)
        for (unsigned k = 0; k < ENGINE_SLEEPS; k++)
            sleeps[k] += e->seats[i].sleeps[k];
    printf(",\"stages\":%u,\"sleeps\":{\"block\":%" PRIu64 ",\"stage\":%" PRIu64
           ",\"turn\":%" PRIu64 ",\"thread\":%" PRIu64 "}",
           e->stages ? e->stages->count + 1 : 1, sleeps[ENGINE_SLEEP_BLOCK],
           sleeps[ENGINE_SLEEP_STAGE], sleeps[ENGINE_SLEEP_TURN], sleeps[ENGINE_SLEEP_THREAD]);
    printf(",\"recorded\":{\"peak_live_bytes\":%" PRIu64 ",\"end_live_bytes\":%" PRIu64
           ",\"duration_ns\":%" PRIu64 ",\"unknown_frees\":%" PRIu64 ",\"lost_calls\":%" PRIu64
           ",\"not_replayed\":%" PRIu64 "}",
           w->facts[WORKLOAD_FACT_PEAK_BYTES], w->facts[WORKLOAD_FACT_END_BYTES],
           w->facts[WORKLOAD_FACT_DURATION_NS], w->facts[WORKLOAD_FACT_UNKNOWN_FREES],
           w->facts[WORKLOAD_FACT_LOST_CALLS], w->facts[WORKLOAD_FACT_NOT_REPLAYED]);
    if (r->has_info)
        printf(",\"mallinfo\":{\"arena_bytes\":%zu,\"in_use_bytes\":%zu,\"free_bytes\":%zu,"
               "\"mmapped_bytes\":%zu}",
               r->info.arena, r->info.uordblks, r->info.fordblks, r->info.hblkhd);
    printf(",\"timeline\":[");
    for (uint32_t i = 0; i < m->points; i++) {
        const struct measure_point *k = &m->point[i];
        printf("%s{\"time_ns\":%" PRIu64 ",\"rss_bytes\":%" PRIu64 ",\"vmsize_bytes\":%" PRIu64
               ",\"ideal_bytes\":%" PRIu64 ",\"free_bytes\":",
               i ? "," : "", k->time_ns, subtract_or_zero(k->rss_bytes, own),
               subtract_or_zero(k->vmsize_bytes, own_mapped), k->ideal_bytes);
        if (k->free_bytes == MEASURE_UNKNOWN)
            printf("null}");
        else
            printf("%" PRIu64 "}", k->free_bytes);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct engine e;
    static struct workload w;
    static struct error err;
    static struct settings o = {.engine = {.timing = ENGINE_TIMING_SAMPLE}};
    if (argc < 2)
        fail("usage: mallow-replay FILE [NAME=VALUE]...; mallow replay is the way to run it");
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    parse(&o, argv + 2);
    watch_for_crashes();
    if ((o.trim_ns || o.trim_last) && !allocator_is_glibc())
        fail("malloc_trim is for glibc's malloc");
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_system(&err, "cannot open %s", argv[1]);
        fail(err.text);
    }
    static struct stages stages;
    if (workload_open(fd, &w, &err))
        fail(err.text);
    /* A sample of so few would say nothing. */
    if (o.engine.timing == ENGINE_TIMING_SAMPLE && w.facts[WORKLOAD_FACT_OPERATIONS] < FEW_CALLS)
        o.engine.timing = ENGINE_TIMING_ALL;
    bool staged = w.thread_count > 1 && o.engine.order == ENGINE_DEPENDENT;
    if (staged ? stages_plan(&w, &stages, &err) : workload_check(&w, &err))
        fail(err.text);
    workload_unmap(&w);
    struct measure *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (m == MAP_FAILED) {
        error_memory_for(&err, "the figures of the replay");
        fail(err.text);
    }
    if (engine_init(&e, &w, staged ? &stages : NULL, fd, &o.engine, &err))
        fail(err.text);
    e.own_bytes += sizeof *m;
    e.own_mapped_bytes += sizeof *m;
    e.measure = m;
    if (measure_init(m, engine_live, &e, o.trim_ns, &err))
        fail(err.text);
    engine_prepare(&e);
    struct outcome r = {0};
    /* The clock's rate: here for the pace, and again over the whole run. */
    uint64_t t0 = measure_now_ns(), c0 = engine_clock();
    while (measure_now_ns() - t0 < 20000000)
        ;
    e.cycles_per_ns = (double)(engine_clock() - c0) / (double)(measure_now_ns() - t0);
    if (measure_start(m, &err))
        fail(err.text);
    engine_run(&e);
    if (o.trim_last)
        malloc_trim(0);
    r.wall_ns = measure_now_ns() - m->start_ns;
    r.cycles = engine_clock() - e.start_tsc;
    measure_stop(m);
    r.has_info = allocator_mallinfo(&r.info);
    r.cycles_per_ns = (double)(engine_clock() - c0) / (double)(measure_now_ns() - t0);
    engine_end(&e);
    for (uint32_t i = 0; i < e.seat_count; i++)
        r.unexpected += e.seats[i].unexpected;
    print_result(&o, &e, m, &w, &r);
    if (fflush(stdout) || ferror(stdout))
        fail("cannot write the result");
    workload_close(&w);
    return 0;
}
