/* blocks.c - Stores the blocks of a heap in the order of their addresses. Each 4 KiB page has
 * bits for the 16-byte granules where blocks begin, and the number of its first block. A lookup
 * therefore reads the page and counts bits. After blocks_done nothing changes, so any thread may
 * look up. */
#include "heap/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "base/invariant.h"
#include "heap/spill.h"

enum { DIRECTORY = 1 << 17, TABLE = 1 << 18, HEADER_BYTES = 16 };

/* Makes the arrays of blocks' facts larger; they have the same room. */
static int more_blocks(struct blocks *b)
{
    size_t addresses = b->room, granules = b->room, kinds = b->room;
    if (!SPILL_ROOM(b->address, b->count + (size_t)1, addresses) ||
        !SPILL_ROOM(b->granules, addresses, granules) || !SPILL_ROOM(b->kind, addresses, kinds))
        return -1;
    b->room = addresses;
    return 0;
}

/* Makes the page of an address, and those between it and the last that are part of a block. */
static struct blocks_page *make_page(struct blocks *b, uint64_t address)
{
    uint64_t page = address >> ARCH_PAGE_SHIFT;
    if (!b->directory && !(b->directory = calloc(DIRECTORY, sizeof *b->directory)))
        return NULL;
    uint32_t **table = &b->directory[page >> 18];
    if (!*table && !(*table = calloc(TABLE, sizeof **table)))
        return NULL;
    uint32_t *slot = &(*table)[page & (TABLE - 1)];
    if (*slot)
        return &b->pages[*slot - 1];
    if (b->page_count + 1 >= UINT32_MAX || !SPILL_ROOM(b->pages, b->page_count + 1, b->page_room))
        return NULL;
    struct blocks_page *made = &b->pages[b->page_count];
    *made = (struct blocks_page){.before = b->count};
    *slot = (uint32_t)++b->page_count;
    return made;
}

int blocks_add(struct blocks *b, uint64_t header, uint64_t bytes, enum block_kind kind)
{
    if (b->count >= BLOCKS_MAX || header & 15 || header >> ARCH_ADDRESS_BITS ||
        bytes >> ARCH_ADDRESS_BITS || (header + bytes) >> ARCH_ADDRESS_BITS)
        return -1;
    INVARIANT(!b->count || header >= b->address[b->count - 1] - HEADER_BYTES);
    if (b->count == b->room && more_blocks(b))
        return -1;
    struct blocks_page *page = make_page(b, header);
    if (!page)
        return -1;
    unsigned granule = (unsigned)(header >> 4 & 255);
    page->starts[granule / 64] |= (uint64_t)1 << granule % 64;
    uint64_t granules = bytes / BLOCK_GRANULE;
    b->address[b->count] = header + HEADER_BYTES;
    b->granules[b->count] = granules > UINT32_MAX ? UINT32_MAX : (uint32_t)granules;
    b->kind[b->count] = (uint8_t)kind;
    b->count++;
    if (kind == BLOCK_GAP)
        return 0;
    for (uint64_t at = (header | (ARCH_PAGE_BYTES - 1)) + 1; at < header + bytes;
         at += ARCH_PAGE_BYTES)
        if (!make_page(b, at))
            return -1;
    if (!b->high || header < b->low)
        b->low = header;
    if (header + bytes > b->high)
        b->high = header + bytes;
    return 0;
}

void blocks_set_kind(struct blocks *b, uint32_t block, enum block_kind kind)
{
    INVARIANT(block < b->count);
    b->kind[block] = (uint8_t)kind;
}

void blocks_done(struct blocks *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (!blocks_is_used(b, i))
            continue;
        uint64_t header = b->address[i] - HEADER_BYTES;
        unsigned granule = (unsigned)(header >> 4 & 255);
        struct blocks_page *page = make_page(b, header);
        if (page)
            page->used[granule / 64] |= (uint64_t)1 << granule % 64;
    }
}

void blocks_release(struct blocks *b)
{
    for (size_t i = 0; b->directory && i < DIRECTORY; i++)
        free(b->directory[i]);
    free(b->directory);
    spill_free(b->pages);
    spill_free(b->address);
    spill_free(b->granules);
    spill_free(b->kind);
    *b = (struct blocks){0};
}

/* How many blocks begin on the page at or before the granule. */
static unsigned started(const struct blocks_page *page, unsigned granule)
{
    unsigned n = 0, word = granule / 64;
    for (unsigned i = 0; i < word; i++)
        n += (unsigned)__builtin_popcountll(page->starts[i]);
    return n + (unsigned)__builtin_popcountll(page->starts[word] &
                                              (~(uint64_t)0 >> (63 - granule % 64)));
}

uint32_t blocks_covering(const struct blocks *b, uint64_t address)
{
    const struct blocks_page *page = blocks_page_of(b, address);
    if (!page)
        return BLOCK_NONE;
    uint64_t n = page->before + started(page, (unsigned)(address >> 4 & 255));
    if (!n)
        return BLOCK_NONE;
    uint32_t block = (uint32_t)(n - 1);
    if (b->kind[block] == BLOCK_GAP ||
        address - (b->address[block] - HEADER_BYTES) >= blocks_whole_bytes(b, block))
        return BLOCK_NONE;
    return block;
}

uint32_t blocks_pointed_on(const struct blocks *b, const struct blocks_page *page, uint64_t value)
{
    /* Seen from 16 bytes lower, what the program has of a block begins with its header and ends
     * 8 bytes before the next one. `page` is that of value - 16. */
    uint64_t shifted = value - HEADER_BYTES;
    unsigned granule = (unsigned)(shifted >> 4 & 255), word = granule / 64;
    uint64_t mask = ~(uint64_t)0 >> (63 - granule % 64);
    uint64_t here = page->starts[word] & mask;
    if (here) { /* the common case: it begins in this kilobyte */
        unsigned last = 63 - (unsigned)__builtin_clzll(here);
        if (!(page->used[word] >> last & 1))
            return BLOCK_NONE;
    }
    uint64_t n = page->before + started(page, granule);
    if (!n)
        return BLOCK_NONE;
    uint32_t block = (uint32_t)(n - 1);
    if (!here && !blocks_is_used(b, block))
        return BLOCK_NONE;
    if ((shifted & 8 || !here) && value - b->address[block] >= blocks_bytes(b, block))
        return BLOCK_NONE;
    return block;
}

uint32_t blocks_pointed(const struct blocks *b, uint64_t value)
{
    const struct blocks_page *page = blocks_page_of(b, value - HEADER_BYTES);
    return page ? blocks_pointed_on(b, page, value) : BLOCK_NONE;
}
