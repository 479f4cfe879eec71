/* fuzz_segment.c - any bytes as the shared memory of a watched process: an error or a sound
 * picture, never harm.
 *
 * For libFuzzer: -DFUZZ_LIBRARY. With its own main: fuzz-segment SEED COUNT reads COUNT damaged
 * copies of a small segment that it makes itself, the same for the same seed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch/sites.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold of whatever was read. */
static void check(struct watch_process *p)
{
    struct error err;
    struct watch_sites sites;
    struct mlw_watch_error e;
    struct watch_choice choice = {.older_than_ns = 1000};
    process_drain(p);
    process_check(p);
    if (process_look(p, &err))
        abort(); /* there is memory */
    for (uint32_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].stack > p->stacks.image.stacks)
            abort();
    for (uint32_t i = 1; i <= p->stacks.image.stacks; i++)
        if (p->stacks.nodes[i].parent >= i ||
            p->stacks.nodes[i].module > p->stacks.image.module_count)
            abort();
    for (int order = WATCH_BY_BYTES; order <= WATCH_BY_ELSEWHERE; order++) {
        choice.order = (enum watch_order)order;
        if (sites_of(&sites, p, &choice, &err) || sites_reported(&sites, p, &choice, &err))
            abort();
        for (uint32_t i = 0; i < sites.count; i++) {
            struct estimate_interval in = estimate_bytes_interval(&sites.items[i].chosen);
            if (!(in.low <= in.high) || sites.items[i].chosen.samples > p->block_count)
                abort();
        }
        sites_free(&sites);
    }
    for (uint64_t n = 0; n < 4; n++)
        if (segment_error(&p->segment, n, &e) == SEGMENT_WHOLE) {
            stacks_node(&p->stacks, &p->segment, &e.access);
            stacks_node(&p->stacks, &p->segment, &e.release);
        }
    age_choose(&p->lifetimes);
}

static char path[] = "/dev/shm/fuzz-segment-XXXXXX";

static void remove_directory(void)
{
    char file[64];
    snprintf(file, sizeof file, "%s/segment", path);
    unlink(file);
    rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int dir = -1, fd = -1;
    struct watch_process *p;
    struct inner none = {.was_read = true}; /* no process of another pid namespace is seen */
    struct error err;
    if (dir < 0) { /* one file, rewritten, as that of a process is */
        const struct trust_rule own = {.what = "the directory"};
        if (!mkdtemp(path) || (dir = trust_directory(AT_FDCWD, path, &own, &err)) < 0 ||
            (fd = openat(dir, "segment", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0 ||
            atexit(remove_directory))
            abort();
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (process_open(&p, dir, "segment", &none, &err) == 0) {
        /* It loses its end, and is another one, while it is read. */
        if (size % 5 == 0 && ftruncate(fd, (off_t)(size / 2)))
            abort();
        if (size % 7 == 0 && pwrite(fd, data, size / 3, (off_t)(size / 3)) < 0)
            abort();
        check(p);
        process_close(p);
    }
    return 0;
}

#ifndef FUZZ_LIBRARY
enum { MODULES = 2, SITES = 4, SAMPLES = 16, FREES = 8, ERRORS = 2 };

static struct {
    union {
        struct mlw_watch head;
        uint8_t page[4096];
    };
    struct mlw_watch_module modules[MODULES];
    struct mlw_watch_site sites[SITES];
    struct mlw_watch_sample samples[SAMPLES];
    struct mlw_watch_free frees[FREES];
    struct mlw_watch_error errors[ERRORS];
} sound;

#define AT(table) (uint32_t) offsetof(__typeof__(sound), table)

static void make(void)
{
    sound.head = (struct mlw_watch){.magic = MLW_WATCH_MAGIC,
                                    .version = MLW_WATCH_VERSION,
                                    .state = MLW_WATCH_LIVE,
                                    .pid = 1,
                                    .start_ns = 1,
                                    .modules = MODULES,
                                    .module_offset = AT(modules),
                                    .sites = SITES,
                                    .site_offset = AT(sites),
                                    .samples = SAMPLES,
                                    .sample_offset = AT(samples),
                                    .frees = FREES,
                                    .free_offset = AT(frees),
                                    .errors = ERRORS,
                                    .error_offset = AT(errors),
                                    .samples_used = SAMPLES,
                                    .next_free = 5,
                                    .next_error = 1,
                                    .command = "a\0b"};
    for (uint32_t i = 0; i < MODULES; i++)
        sound.modules[i] = (struct mlw_watch_module){
            .version = 2, .start = 4096, .end = 8192, .build_id_bytes = 20, .path = "/lib/x"};
    for (uint32_t i = 0; i < SITES; i++) {
        sound.sites[i] = (struct mlw_watch_site){.version = 2, .weight = 100, .stack.frames = 3};
        for (uint64_t f = 0; f < 3; f++)
            sound.sites[i].stack.frame[f] = (f % 3) << 48 | (4096 + i * 16 + f);
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        sound.samples[i] = (struct mlw_watch_sample){.version = 2,
                                                     .flags = MLW_WATCH_SAMPLE_LIVE,
                                                     .size = 100,
                                                     .weight = 1000,
                                                     .time_ns = 5,
                                                     .site = i % SITES,
                                                     .site_version = 2};
    for (uint32_t i = 0; i < FREES; i++)
        sound.frees[i] = (struct mlw_watch_free){
            .version = 2, .number = i, .size = 10, .weight = 20, .allocated_ns = 1, .freed_ns = 9};
    for (uint32_t i = 0; i < ERRORS; i++)
        sound.errors[i] =
            (struct mlw_watch_error){.version = 2, .number = i, .access = sound.sites[0].stack};
}

int main(int argc, char **argv)
{
    uint64_t rng = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    static uint8_t bytes[sizeof sound];
    make();
    LLVMFuzzerTestOneInput((const uint8_t *)&sound, sizeof sound);
    for (unsigned long n = 0; n < count; n++) {
        memcpy(bytes, &sound, sizeof sound);
        size_t size = sizeof sound;
        for (unsigned i = 0; i < 1 + n % 40; i++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            size_t at = (rng >> 33) % (i % 2 ? 512 : sizeof sound); /* the head more often */
            bytes[at] = i % 3 ? (uint8_t)(rng >> 24) : rng >> 24 & 1 ? 0xff : 0;
        }
        if (n % 7 == 0)
            size = (rng >> 40) % sizeof sound;
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("fuzz-segment: %lu damaged segments did no harm\n", count);
    return 0;
}
#endif
