/* run.c - Starts mallow-replay with an allocator preloaded and settings in its environment, and
 * reads its JSON result. It checks each setting before the start, because glibc ignores a wrong
 * one silently. A result counts only if the chosen library served malloc. */
#include "replay/run.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/system.h"
#include "base/human.h"
#include "glibc/versions.h"
#include "replay/said.h"

extern char **environ;

const char *const replay_allocators[] = {"glibc", "jemalloc", "tcmalloc", "mimalloc", NULL};

static const struct allocator {
    const char *name, *package;
    const char *files[4];
} allocators[] = {
    {"glibc", "libc6", {NULL}},
    {"jemalloc", "libjemalloc2", {"libjemalloc.so.2", "libjemalloc.so", NULL}},
    {"tcmalloc",
     "libtcmalloc-minimal4",
     {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so", NULL}},
    {"mimalloc",
     "libmimalloc2.0",
     {"libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so", NULL}},
};

static const char *const directories[] = {"/usr/local/lib", ("/usr/local/lib/" ARCH_MULTIARCH),
                                          ("/usr/lib/" ARCH_MULTIARCH), "/usr/lib64", "/usr/lib"};

int replay_find_allocator(const char *alloc, char path[PATH_MAX], struct error *err)
{
    if (strchr(alloc, '/')) {
        if (!realpath(alloc, path))
            return error_system(err, "cannot find the allocator %s", alloc);
        return 0;
    }
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
        const struct allocator *a = &allocators[i];
        if (strcmp(a->name, alloc) != 0)
            continue;
        path[0] = 0;
        if (!a->files[0])
            return 0;
        for (size_t f = 0; a->files[f]; f++)
            for (size_t k = 0; k < sizeof directories / sizeof *directories; k++) {
                struct buffer b = {0};
                buffer_printf(&b, "%s/%s", directories[k], a->files[f]);
                bool found = realpath(buffer_text(&b), path) != NULL;
                buffer_release(&b);
                if (found)
                    return 0;
            }
        return error_set(err, ERROR_UNSUPPORTED, "%s is not installed; apt-get install %s", a->name,
                         a->package);
    }
    return error_set(
        err, ERROR_USAGE,
        "unknown allocator '%s'; glibc, jemalloc, tcmalloc, mimalloc, or the path of a "
        "library (with a slash)",
        alloc);
}

static const struct {
    const char *name;
    int number;
} mallopts[] = {{"M_MMAP_THRESHOLD", M_MMAP_THRESHOLD},
                {"M_TRIM_THRESHOLD", M_TRIM_THRESHOLD},
                {"M_TOP_PAD", M_TOP_PAD},
                {"M_MMAP_MAX", M_MMAP_MAX},
                {"M_MXFAST", M_MXFAST},
                {"M_ARENA_MAX", M_ARENA_MAX},
                {"M_ARENA_TEST", M_ARENA_TEST},
                {"M_PERTURB", M_PERTURB}};

/* glibc passes over a name that it does not know, and over the K of 64K: the replay would be of
 * something else than was asked for. GLIBC_TUNABLES=... takes anything. */
static const char *const tunable_names[] = {"arena_max",
                                            "arena_test",
                                            "check",
                                            "hugetlb",
                                            "mmap_max",
                                            "mmap_threshold",
                                            "mxfast",
                                            "perturb",
                                            "tcache_count",
                                            "tcache_max",
                                            "tcache_unsorted_limit",
                                            "top_pad",
                                            "trim_threshold"};

/* This libc has no fastbins, to whose size the setting would apply. */
static int no_fastbins(const char *setting, struct error *err)
{
    return error_set(err, ERROR_USAGE,
                     "'%s' does nothing: glibc %s has no fastbins (2.43 and later have none)",
                     setting, gnu_get_libc_version());
}

static bool has_fastbins(void)
{
    const struct glibc_version *known = glibc_of(glibc_minor(gnu_get_libc_version()));
    return !known || known->fastbins;
}

static int check_tunable(const char *setting, size_t n, struct error *err)
{
    static const char prefix[] = "glibc.malloc.";
    const size_t skip = sizeof prefix - 1;
    const char *value = setting + n + 1;
    uint64_t bytes;
    bool known = strncmp(setting, prefix, skip) != 0;
    for (size_t i = 0; i < sizeof tunable_names / sizeof *tunable_names && !known; i++)
        known = n == skip + strlen(tunable_names[i]) &&
                !strncmp(setting + skip, tunable_names[i], n - skip);
    if (!known)
        return error_set(err, ERROR_USAGE,
                         "unknown tunable '%.*s'; glibc.malloc. arena_max, arena_test, check, "
                         "hugetlb, mmap_max, mmap_threshold, mxfast, perturb, tcache_count, "
                         "tcache_max, tcache_unsorted_limit, top_pad or trim_threshold",
                         (int)n, setting);
    if (n == skip + 6 && !strncmp(setting, "glibc.malloc.mxfast", n) && !has_fastbins())
        return no_fastbins(setting, err);
    char *end;
    strtoull(value, &end, 0);
    if (*value >= '0' && *value <= '9' && !*end)
        return 0;
    if (human_parse_size(value, &bytes))
        return error_set(err, ERROR_USAGE, "glibc does not read '%s'; write '%.*s=%llu'", value,
                         (int)n, setting, (unsigned long long)bytes);
    return error_set(err, ERROR_USAGE, "'%s' is not a number in '%s'", value, setting);
}

enum setting { SETTING_BAD, SETTING_MALLOPT, SETTING_TUNABLE, SETTING_TRIM, SETTING_ENVIRONMENT };

/* For a mallopt, its number and value. */
static enum setting classify(const char *setting, int *number, uint64_t *value, struct error *err)
{
    const char *equals = strchr(setting, '=');
    size_t n = equals ? (size_t)(equals - setting) : 0;
    if (!n) {
        error_set(err, ERROR_USAGE, "a setting is K=V, not '%s'", setting);
        return SETTING_BAD;
    }
    if (!strncmp(setting, "glibc.", 6))
        return check_tunable(setting, n, err) ? SETTING_BAD : SETTING_TUNABLE;
    if (!strcmp(setting, "malloc_trim=end"))
        return SETTING_TRIM;
    if (!strncmp(setting, "M_", 2)) {
        for (size_t i = 0; i < sizeof mallopts / sizeof *mallopts; i++)
            if (strlen(mallopts[i].name) == n && !strncmp(mallopts[i].name, setting, n)) {
                if (!human_parse_size(equals + 1, value) || *value > INT_MAX) {
                    error_set(err, ERROR_USAGE, "'%s' is not a size below 2G in '%s'", equals + 1,
                              setting);
                    return SETTING_BAD;
                }
                *number = mallopts[i].number;
                if (*number == M_MXFAST && !has_fastbins()) {
                    no_fastbins(setting, err);
                    return SETTING_BAD;
                }
                return SETTING_MALLOPT;
            }
        error_set(err, ERROR_USAGE,
                  "unknown mallopt '%.*s'; M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD, "
                  "M_MMAP_MAX, M_MXFAST, M_ARENA_MAX, M_ARENA_TEST or M_PERTURB",
                  (int)n, setting);
        return SETTING_BAD;
    }
    if (strspn(setting, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == n && strncmp(setting, "LD_", 3))
        return SETTING_ENVIRONMENT;
    error_set(err, ERROR_USAGE,
              "'%s' is not a setting; use GLIBC_TUNABLES=..., glibc.malloc.NAME=..., "
              "MALLOC_CONF=..., MIMALLOC_NAME=..., a mallopt M_NAME=... or malloc_trim=end",
              setting);
    return SETTING_BAD;
}

int replay_check_setting(const char *setting, struct error *err)
{
    int number;
    uint64_t value;
    return classify(setting, &number, &value, err) == SETTING_BAD ? -1 : 0;
}

static int find_replay_program(char path[PATH_MAX], struct error *err)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n < 0)
        return error_system(err, "cannot read /proc/self/exe, is /proc mounted?");
    own[n] = 0;
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = 0;
    for (int i = 0; i < 3; i++) {
        struct buffer b = {0};
        if (i == 0)
            buffer_printf(&b, "%s/mallow-replay", own);
        else if (i == 1)
            buffer_printf(&b, "%s/%s/mallow-replay", own, MALLOW_LIBEXEC_RELATIVE);
        else
            buffer_printf(&b, "%s/mallow-replay", MALLOW_LIBEXECDIR);
        bool found = !access(buffer_text(&b), X_OK) && realpath(buffer_text(&b), path);
        buffer_release(&b);
        if (found)
            return 0;
    }
    return error_set(err, ERROR_UNSUPPORTED,
                     "mallow-replay is not found beside mallow in %s, nor in %s", own,
                     MALLOW_LIBEXECDIR);
}

/* Texts separated by NULs, and then the array of them. */
struct texts {
    struct buffer bytes;
    size_t count;
    char **array;
};

static void append_text(struct texts *t, const char *text)
{
    buffer_append(&t->bytes, text, strlen(text) + 1);
    t->count++;
}

static bool finish_texts(struct texts *t)
{
    t->array = calloc(t->count + 1, sizeof *t->array);
    if (!t->array || buffer_failed(&t->bytes))
        return false;
    char *p = t->bytes.data;
    for (size_t i = 0; i < t->count; i++) {
        t->array[i] = p;
        p += strlen(p) + 1;
    }
    return true;
}

static void release_texts(struct texts *t)
{
    buffer_release(&t->bytes);
    free(t->array);
}

/* Settings of the caller's environment would be settings that the result does not show. */
static bool is_allocator_variable(const char *variable)
{
    static const char *const prefixes[] = {"LD_PRELOAD=", "GLIBC_TUNABLES=", "MALLOC_",
                                           "MIMALLOC_",   "TCMALLOC_",       "_RJEM_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

static int describe_request(const struct replay_request *r, const char *program,
                            const char *library, struct texts *arguments, struct texts *environment,
                            struct error *err)
{
    struct buffer text = {0}, tunables = {0};
    append_text(arguments, program);
    append_text(arguments, r->workload);
#define ARGUMENT(...)                                                                              \
    do {                                                                                           \
        buffer_clear(&text);                                                                       \
        buffer_printf(&text, __VA_ARGS__);                                                         \
        append_text(arguments, buffer_text(&text));                                                \
    } while (0)
    ARGUMENT("order=%s", r->order);
    ARGUMENT("touch=%s", r->touch);
    ARGUMENT("timing=%s", r->timing);
    ARGUMENT("pace=%.9g", r->pace);
    ARGUMENT("trim_ns=%" PRIu64, r->trim_every_ns);
    ARGUMENT("dry=%d", r->dry);
    if (r->limit_ns)
        ARGUMENT("limit_ns=%" PRIu64, r->limit_ns);
    if (r->pooled)
        ARGUMENT("pooled=%u", r->pooled);
    if (r->left_out)
        ARGUMENT("left_out=%u", r->left_out);
    for (char **v = environ; *v; v++)
        if (!is_allocator_variable(*v))
            append_text(environment, *v);
    int bad = 0;
    for (size_t i = 0; i < r->setting_count && !bad; i++) {
        int number = 0;
        uint64_t value = 0;
        switch (classify(r->settings[i], &number, &value, err)) {
        case SETTING_BAD: bad = -1; break;
        case SETTING_MALLOPT: ARGUMENT("mallopt=%d:%" PRIu64, number, value); break;
        case SETTING_TUNABLE:
            buffer_printf(&tunables, "%s%s",
                          tunables.size_bytes ? ":" : "GLIBC_TUNABLES=", r->settings[i]);
            break;
        case SETTING_TRIM: ARGUMENT("trim_last=1"); break;
        case SETTING_ENVIRONMENT: append_text(environment, r->settings[i]); break;
        }
    }
#undef ARGUMENT
    if (tunables.size_bytes)
        append_text(environment, buffer_text(&tunables));
    if (*library) {
        buffer_clear(&text);
        buffer_printf(&text, "LD_PRELOAD=%s", library);
        append_text(environment, buffer_text(&text));
    }
    buffer_release(&text);
    buffer_release(&tunables);
    if (bad)
        return -1;
    if (!finish_texts(arguments) || !finish_texts(environment))
        return error_memory(err);
    return 0;
}

static int read_until_end(int fd, struct buffer *into, struct error *err)
{
    char block[1 << 16];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, "cannot read what mallow-replay says");
        if (!n)
            return 0;
        buffer_append(into, block, (size_t)n);
    }
}

static int start_replay_program(char **arguments, char **environment, unsigned processor,
                                struct replay_started *s, struct error *err)
{
    int out[2];
    s->said = memfd_create("mallow-replay-stderr", MFD_CLOEXEC);
    if (s->said < 0)
        return error_system(err, "cannot make a memory file");
    if (pipe2(out, O_CLOEXEC)) {
        close(s->said);
        return error_system(err, "cannot make a pipe");
    }
    s->out = out[0];
    s->pid = fork();
    if (!s->pid) {
        cpu_set_t one;
        CPU_ZERO(&one);
        if (processor) {
            CPU_SET(processor - 1, &one);
            sched_setaffinity(0, sizeof one, &one); /* only a wish */
        }
        dup2(out[1], 1);
        dup2(s->said, 2);
        execve(arguments[0], arguments, environment);
        _exit(127);
    }
    close(out[1]);
    if (s->pid > 0)
        return 0;
    error_system(err, "cannot start mallow-replay");
    close(s->out);
    close(s->said);
    return -1;
}

/* Takes the last line off a text; NULL when there is none. */
static char *take_last_line(char *text)
{
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = 0;
    char *before = strrchr(text, '\n'), *line = before ? before + 1 : text;
    if (before)
        *before = 0;
    return *line && line != text ? line : NULL;
}

/* Why a replay that ended so had no result. */
static int explain_end(int status, int said, struct error *err)
{
    struct buffer text = {0};
    lseek(said, 0, SEEK_SET);
    buffer_append_char(&text, '\n'); /* so that each line has one before it */
    int failed = read_until_end(said, &text, err);
    buffer_append_char(&text, 0);
    if (!failed && buffer_failed(&text))
        failed = error_memory(err);
    char *line = failed ? NULL : take_last_line(text.data);
    const char *in = "";
    if (line && !strncmp(line, REPLAY_WAS_IN, sizeof REPLAY_WAS_IN - 1)) {
        in = line + sizeof REPLAY_SAYS - 2; /* with the blank */
        line = take_last_line(text.data);   /* the allocator's own last words */
    }
    if (line && !strncmp(line, REPLAY_SAYS, sizeof REPLAY_SAYS - 1))
        line += sizeof REPLAY_SAYS - 1;
    if (!failed && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        failed = error_set(err, ERROR_UNSUPPORTED, "the replay exceeded its time limit");
    else if (!failed && WIFSIGNALED(status))
        failed = error_set(err, ERROR_UNSUPPORTED, "the replay was killed by signal %d%s%s%s",
                           WTERMSIG(status), in, line ? ": " : "", line ? line : "");
    else if (!failed)
        failed = error_set(err, ERROR_FORMAT, "%s",
                           line && *line ? line : "mallow-replay failed without a message");
    buffer_release(&text);
    return failed;
}

/* The library that malloc came from, as mallow-replay said it first of all. */
static int check_served(const char *json, const char *library, struct error *err)
{
    static const char key[] = "{\"allocator_file\":\"";
    if (strncmp(json, key, sizeof key - 1) != 0)
        return error_set(err, ERROR_FORMAT, "mallow-replay printed no result");
    const char *from = json + sizeof key - 1, *end = strchr(from, '"');
    char served[PATH_MAX], resolved[PATH_MAX];
    size_t n = end ? (size_t)(end - from) : 0;
    if (n >= sizeof served)
        n = sizeof served - 1;
    memcpy(served, from, n);
    served[n] = 0;
    bool right = *library ? realpath(served, resolved) && !strcmp(resolved, library)
                          : strstr(served, "/libc.so.6") != NULL;
    if (!right)
        return error_set(err, ERROR_UNSUPPORTED, "%s did not serve malloc; %s did",
                         *library ? library : "glibc", served);
    return 0;
}

int replay_start(const struct replay_request *r, struct replay_started *s, struct error *err)
{
    char program[PATH_MAX];
    if (find_replay_program(program, err) || replay_find_allocator(r->alloc, s->library, err))
        return -1;
    struct texts arguments = {0}, environment = {0};
    int failed = describe_request(r, program, s->library, &arguments, &environment, err);
    if (!failed)
        failed = start_replay_program(arguments.array, environment.array, r->processor, s, err);
    release_texts(&arguments);
    release_texts(&environment);
    return failed;
}

int replay_finish(struct replay_started *s, struct buffer *result, struct error *err)
{
    int failed = read_until_end(s->out, result, err), status = 0;
    close(s->out);
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!failed && status)
        failed = explain_end(status, s->said, err);
    close(s->said);
    return failed ? failed : check_served(buffer_text(result), s->library, err);
}
