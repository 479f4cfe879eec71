/* target.c - what live processes and cores have in common; see target.h. */
#include "remote/target.h"

#include "arch/page.h"
#include "base/array.h"
#include "base/proc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 256, ADDRESS_BITS = ARCH_ADDRESS_BITS };

struct target *target_new(void)
{
    struct target *t = calloc(1, sizeof *t);
    if (t)
        t->own_bytes = UINT64_MAX;
    return t;
}

void target_close(struct target *t)
{
    if (!t)
        return;
    if (t->ops)
        t->ops->close(t);
    for (size_t i = 0; i < t->file_count; i++)
        free(t->files[i]);
    free(t->files);
    index_release(&t->file_index);
    free(t->regions);
    free(t->threads);
    free(t->pages);
    free(t->note);
    free(t);
}

static uint64_t hash_of(const char *path)
{
    uint64_t h = 14695981039346656037u;
    for (; *path; path++)
        h = (h ^ (uint8_t)*path) * 1099511628211u;
    return h;
}

uint32_t target_file(struct target *t, const char *path)
{
    const uint64_t hash = hash_of(path);
    size_t at = INDEX_START;
    for (uint32_t i; (i = index_next(&t->file_index, hash, &at)) != INDEX_NONE;)
        if (!strcmp(t->files[i], path))
            return i;
    if (t->file_count >= TARGET_NO_FILE || !ARRAY_ROOM(t->files, t->file_count + 1, t->file_room))
        return TARGET_NO_FILE;
    char *copy = strdup(path);
    if (!copy || !index_add(&t->file_index, hash, (uint32_t)t->file_count)) {
        free(copy);
        return TARGET_NO_FILE;
    }
    t->files[t->file_count] = copy;
    return (uint32_t)t->file_count++;
}

int target_add_region(struct target *t, struct target_region r)
{
    if (r.start >= r.end || r.end > (uint64_t)1 << ADDRESS_BITS)
        return 0;
    if (t->region_count >= TARGET_REGIONS_MAX) {
        t->cut_regions = true;
        return 0;
    }
    if (!ARRAY_ROOM(t->regions, t->region_count + 1, t->region_room))
        return -1;
    if (r.file && !(r.flags & REGION_SHARED) &&
        !strncmp(r.file, PROC_HUGE_PAGES, sizeof PROC_HUGE_PAGES - 1)) {
        r.flags |= REGION_HUGE;
        r.file = NULL;
    }
    const char *before = t->region_count ? t->regions[t->region_count - 1].file : NULL;
    if (r.file && before && !strcmp(r.file, before)) {
        r.file = before;
    } else if (r.file) {
        const uint32_t kept = target_file(t, r.file);
        if (kept == TARGET_NO_FILE)
            return -1;
        r.file = t->files[kept];
    }
    t->regions[t->region_count++] = r;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct target_region *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end == y->end ? 0 : x->end < y->end ? -1 : 1;
}

void target_regions_done(struct target *t)
{
    size_t sorted = 1; /* as the kernel gives them */
    while (sorted < t->region_count && t->regions[sorted - 1].start < t->regions[sorted].start)
        sorted++;
    if (sorted < t->region_count)
        qsort(t->regions, t->region_count, sizeof *t->regions, by_start);
    size_t kept = 0;
    uint64_t until = 0;
    for (size_t i = 0; i < t->region_count; i++) {
        struct target_region r = t->regions[i];
        if (r.end <= until)
            continue;
        if (r.start < until) {
            r.offset += until - r.start;
            r.start = until;
        }
        until = r.end;
        t->regions[kept++] = r;
    }
    t->region_count = kept;
}

struct target_thread *target_add_thread(struct target *t, uint32_t tid)
{
    if (t->thread_count >= TARGET_THREADS_MAX) {
        t->cut_threads = true;
        return NULL;
    }
    if (!ARRAY_ROOM(t->threads, t->thread_count + 1, t->thread_room))
        return NULL;
    struct target_thread *thread = &t->threads[t->thread_count++];
    *thread = (struct target_thread){.tid = tid};
    return thread;
}

void target_note(struct target *t, const char *format, ...)
{
    char *text = NULL, *both = NULL;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0)
        return;
    if (t->note && asprintf(&both, "%s; %s", t->note, text) >= 0) {
        free(text);
        text = both;
    }
    free(t->note);
    t->note = text;
}

bool target_refers(const struct target_region *r)
{
    static const char *const memory[] = {"/memfd:", "/dev/shm/",  "/dev/zero",
                                         "/SYSV",   "/secretmem", PROC_HUGE_PAGES};
    if (r->flags & REGION_SPECIAL)
        return false;
    if (!r->file)
        return true;
    if (!(r->flags & REGION_SHARED))
        return r->flags & REGION_WRITE;
    if (strstr(r->file, "/mallow-") || strstr(r->file, ":mallow-"))
        return false; /* our libraries note addresses there: that holds nothing alive */
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (!strncmp(r->file, memory[i], strlen(memory[i])))
            return true;
    return false;
}

size_t target_read(struct target *t, uint64_t address, void *into, size_t bytes)
{
    if (address >> ADDRESS_BITS || !bytes)
        return 0;
    return t->ops->read(t, address, into, bytes);
}

/* Notes that the page cannot be read, if it should be there. A core has said so already. */
static void note_unread(struct target *t, uint64_t address, uint64_t bytes)
{
    const struct target_region *r = target_region_at(t, address);
    if (t->source == TARGET_CORE || !r || !target_refers(r) ||
        target_page(t, address) == RESIDENT_NOT)
        return;
    t->unread += bytes;
    t->unread_at = address;
}

size_t target_read_past(struct target *t, uint64_t address, void *into, size_t bytes)
{
    size_t done = target_read(t, address, into, bytes), have = done;
    while (done < bytes) {
        const uint64_t at = address + done, next = (at | (TARGET_PAGE_BYTES - 1)) + 1;
        const size_t left = bytes - done, hole = next - at < left ? (size_t)(next - at) : left;
        note_unread(t, at, hole);
        memset((uint8_t *)into + done, 0, hole);
        done += hole;
        const size_t got = target_read(t, address + done, (uint8_t *)into + done, bytes - done);
        done += got;
        have = got ? done : have;
    }
    return have;
}

uint64_t target_next(struct target *t, uint64_t at, uint64_t end)
{
    return t->ops->next && at < end ? t->ops->next(t, at, end) : at;
}

bool target_get(struct target *t, uint64_t address, void *into, size_t bytes)
{
    return target_read(t, address, into, bytes) == bytes;
}

void target_forget(struct target *t)
{
    free(t->pages);
    t->pages = NULL;
}

bool target_knows_pages(const struct target *t) { return t->knows_pages; }

enum resident_state target_page(struct target *t, uint64_t address)
{
    return t->ops->page && !(address >> ADDRESS_BITS) ? t->ops->page(t, address) : RESIDENT_HERE;
}

/* The page's bytes, or NULL. */
static const struct target_page *page_of(struct target *t, uint64_t address)
{
    if (!t->pages && !(t->pages = calloc(PAGES, sizeof *t->pages)))
        return NULL;
    uint64_t page = address & ~(uint64_t)(TARGET_PAGE_BYTES - 1);
    struct target_page *p = &t->pages[page / TARGET_PAGE_BYTES % PAGES];
    if (p->page != page + 1) {
        p->page = page + 1;
        p->bytes = (uint32_t)target_read(t, page, p->data, TARGET_PAGE_BYTES);
    }
    return p;
}

bool target_peek(struct target *t, uint64_t address, uint64_t *word)
{
    uint64_t within = address % TARGET_PAGE_BYTES;
    if (address >> ADDRESS_BITS)
        return false;
    if (within > TARGET_PAGE_BYTES - sizeof *word)
        return target_read(t, address, word, sizeof *word) == sizeof *word;
    const struct target_page *p = page_of(t, address);
    if (!p || within + sizeof *word > p->bytes)
        return false;
    memcpy(word, p->data + within, sizeof *word);
    return true;
}

size_t target_text(struct target *t, uint64_t address, char *text, size_t room)
{
    size_t n = 0;
    if (address >> ADDRESS_BITS)
        return 0;
    while (n + 1 < room) {
        uint64_t at = address + n;
        const struct target_page *p = page_of(t, at);
        uint64_t within = at % TARGET_PAGE_BYTES;
        if (!p || within >= p->bytes)
            break;
        uint8_t c = p->data[within];
        if (!c) {
            text[n] = 0;
            return n;
        }
        if (c < 0x20 || c > 0x7e)
            break;
        text[n++] = (char)c;
    }
    text[0] = 0;
    return 0;
}

const struct target_region *target_region_at(const struct target *t, uint64_t address)
{
    size_t low = 0, high = t->region_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < t->region_count && t->regions[low].start <= address)
        return &t->regions[low];
    return NULL;
}
