/* describe.c - Writes what the process says about itself into its PROCESS chunk: command line,
 * program, allocator and settings. It reads /proc by raw system calls and writes into a mapping
 * of its own. It uses no libc state, because it runs before the program's first thread or under
 * the recorder's lock. */
#include "describe.h"

#include <string.h>

#include "arch/page.h"
#include "format/settings.h"
#include "preload/guest/bindings.h"

/* The head of one whose n bytes lie behind it already. Its room holds it, padding included. */
static void put_tlv_head(struct tlvs *t, unsigned tag, size_t n)
{
    const uint32_t length = (uint32_t)n;
    const uint16_t tag16 = (uint16_t)tag;
    const size_t padded = (n + 7) & ~(size_t)7;
    memset(t->at, 0, 8);
    memcpy(t->at, &tag16, 2);
    memcpy(t->at + 4, &length, 4);
    memset(t->at + 8 + n, 0, padded - n);
    t->at += 8 + padded;
}

/* For bytes that come from a file, up to their padding; 0: there is none. */
static size_t room_behind_head(const struct tlvs *t)
{
    const size_t left = (size_t)(t->end - t->at);
    return left > 64 ? left - 16 : 0;
}

void describe_put(struct tlvs *t, unsigned tag, const void *data, size_t n)
{
    if ((size_t)(t->end - t->at) < 8 + ((n + 7) & ~(size_t)7))
        return;
    memcpy(t->at + 8, data, n);
    put_tlv_head(t, tag, n);
}

static void put_file(struct tlvs *t, unsigned tag, const char *path)
{
    long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), r;
    if (fd < 0)
        return;
    const size_t room = room_behind_head(t);
    size_t n = 0;
    while (n < room && (r = sys_read((int)fd, t->at + 8 + n, room - n)) > 0)
        n += (size_t)r;
    if (room)
        put_tlv_head(t, tag, n);
    sys_close((int)fd);
}

/* The settings of allocators, and no others: an environment may be large, and hold secrets. All, or
 * nothing. */
static void put_allocator_settings(struct tlvs *t)
{
    char block[512];
    const long fd = sys_openat(AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    uint8_t *const data = t->at + 8;
    const size_t room = room_behind_head(t);
    size_t n = 0, start = 0, at = 0; /* start: of the variable in data; at: bytes of it that came */
    bool skips = false, fits = room > 0;
    long r;
    while (fits && (r = sys_read((int)fd, block, sizeof block)) > 0)
        for (long i = 0; fits && i < r; i++) {
            const bool ends = !block[i];
            if (!skips) {
                data[n++] = (uint8_t)block[i];
                if ((ends || ++at == MLW_SETTING_BYTES) && !mlw_is_setting((char *)data + start)) {
                    n = start;
                    skips = true;
                }
            }
            if (ends) {
                start = n;
                at = 0;
                skips = false;
            }
            fits = n < room;
        }
    sys_close((int)fd);
    if (fits && r >= 0)
        put_tlv_head(t, MLW_TLV_SETTINGS, start);
}

void describe_process(bool with_environment)
{
    size_t room = RECORDER_DESCRIPTION_BYTES;
    uint8_t *p = (uint8_t *)own_map(room);
    char exe[4096];
    if (!p)
        return;
    struct tlvs t = {p, p + room};
    put_file(&t, MLW_TLV_COMMAND, SELF_COMMAND);
    const size_t n = unwind_program_path(exe, sizeof exe);
    if (n)
        describe_put(&t, MLW_TLV_EXE, exe, n);
    describe_put(&t, MLW_TLV_ALLOCATOR, next_facts.name, strlen(next_facts.name));
    uint32_t page = ARCH_PAGE_BYTES;
    describe_put(&t, MLW_TLV_PAGE_BYTES, &page, 4);
    if (with_environment)
        put_file(&t, MLW_TLV_ENVIRONMENT, "/proc/self/environ");
    else
        put_allocator_settings(&t);
    if (!next_facts.dl_find_object) {
        static const char note[] =
            "stacks: this C library has no _dl_find_object (glibc 2.35 has it); "
            "code that was loaded later cannot be unwound";
        describe_put(&t, MLW_TLV_NOTE, note, sizeof note - 1);
    }
    if (recorder.session->options & MLW_OPT_ROUTES && !recorder.routed) {
        static const char note[] =
            "paths: not recorded, which needs the malloc of a glibc from 2.27 to 2.43";
        describe_put(&t, MLW_TLV_NOTE, note, sizeof note - 1);
    }
    recorder.description = p;
    recorder.description_bytes = (uint32_t)(t.at - p);
}
