/* cursor_block.c - the columns of a sealed block, read for a cursor. See cursor_impl.h. */
#include "cursor_impl.h"

static int read_bytes(struct cursor *c, unsigned id, size_t most, struct bytes *to,
                      struct error *err)
{
    return section_read(c->store->fd, &c->head, id, SEAL_PART_BYTES, most, c->z, &c->scratch, to,
                        err);
}

static int read_numbers(struct cursor *c, unsigned id, size_t n, struct numbers *to,
                        struct error *err)
{
    return numbers_load(to, c->store->fd, &c->head, id, n, c->z, &c->scratch, err);
}

static int bad_block(struct error *err)
{
    return error_set(err, ERROR_FORMAT, "a sealed block is not what it should be");
}

static int load_threads(struct cursor *c, struct error *err)
{
    uint32_t n = c->head.block.threads;
    if (read_bytes(c, SEAL_COL_THREADS, (size_t)n * 10, &c->threads_text, err) < 0)
        return -1;
    if (n > c->threads_text.n)
        return bad_block(err);
    if (n > c->thread_cap) {
        uint32_t *of = realloc(c->thread_of, n * sizeof *of);
        if (of)
            c->thread_of = of;
        uint32_t *last = realloc(c->thread_last, n * sizeof *last);
        if (last)
            c->thread_last = last;
        if (!of || !last)
            return no_memory(err);
        c->thread_cap = n;
    }
    struct span s = span_of(c->threads_text.data, c->threads_text.n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t t = span_varint(&s);
        c->thread_of[i] = t < c->image->thread_count ? (uint32_t)t : 0;
        c->thread_last[i] = POISON;
    }
    c->threads = n;
    return s.bad ? bad_block(err) : 0;
}

void cursor_next_argument(struct cursor *c)
{
    uint32_t from = c->argument_event == UINT32_MAX ? 0 : c->argument_event + 1;
    c->argument_event = UINT32_MAX;
    if (!span_left(&c->argument_rest))
        return;
    uint64_t gap = span_varint(&c->argument_rest);
    c->argument_value = span_varint(&c->argument_rest);
    if (!c->argument_rest.bad && gap < c->head.block.events - from)
        c->argument_event = from + (uint32_t)gap;
}

int cursor_load_columns(struct cursor *c, struct error *err)
{
    const struct seal_block *b = &c->head.block;
    uint32_t n = b->events;
    if (read_bytes(c, SEAL_COL_CODE, n, &c->code, err) < 0 || load_threads(c, err))
        return -1;
    if (c->code.n != n || b->reference > SEAL_REFERENCE_DISTANCE)
        return bad_block(err);
    uint32_t allocs = 0, refs = 0, sizes = 0, stacks = 0, size_ops = 0, stack_ops = 0;
    uint32_t by_code[256] = {0};
    for (uint32_t i = 0; i < n; i++)
        by_code[c->code.data[i]]++;
    for (unsigned op = 0; op < 32; op++) {
        size_ops |= (uint32_t)seal_has_size(op) << op;
        stack_ops |= (uint32_t)seal_has_stack(op) << op;
    }
    for (unsigned k = 0; k < 256; k++) {
        unsigned kind = k >> 5, op = k & 31;
        if (!by_code[k])
            continue;
        if (kind == 7 || (op && !mlw_op_fields(op)))
            return bad_block(err);
        sizes += size_ops >> op & 1 ? by_code[k] : 0;
        stacks += stack_ops >> op & 1 ? by_code[k] : 0;
        allocs += kind == TRACE_ALLOC ? by_code[k] : 0;
        refs += kind == TRACE_FREE || kind == TRACE_FREE_INFERRED || kind == SEAL_KIND_TEMP_WRITTEN
                    ? by_code[k]
                    : 0;
    }
    if (allocs != b->allocs)
        return bad_block(err);
    if (c->threads > 1 && read_numbers(c, SEAL_COL_THREAD, n, &c->thread, err))
        return -1;
    if (read_numbers(c, SEAL_COL_REFERENCE, refs, &c->reference, err))
        return -1;
    bool address = wants(c, TRACE_COL_ADDRESS);
    bool usable = address || wants(c, TRACE_COL_USABLE);
    if ((usable || wants(c, TRACE_COL_SIZE)) &&
        read_numbers(c, SEAL_COL_SIZE, sizes, &c->size, err))
        return -1;
    if (wants(c, TRACE_COL_STACK) && read_numbers(c, SEAL_COL_STACK, stacks, &c->stack, err))
        return -1;
    if (wants(c, TRACE_COL_TIME) && read_numbers(c, SEAL_COL_TIME, n, &c->time, err))
        return -1;
    if (usable && read_numbers(c, SEAL_COL_USABLE, allocs, &c->usable, err))
        return -1;
    if (address) {
        if (read_bytes(c, SEAL_COL_ADDRESS, allocs, &c->address, err) < 0 ||
            read_bytes(c, SEAL_COL_FAR, (size_t)allocs * 10, &c->far, err) < 0)
            return -1;
        if (c->address.n != allocs)
            return bad_block(err);
        c->far_rest = span_of(c->far.data, c->far.n);
    }
    if (address || wants(c, TRACE_COL_OTHER_ADDRESS)) {
        if (read_bytes(c, SEAL_COL_OTHER, (size_t)n * 20, &c->other, err) < 0)
            return -1;
        c->other_rest = span_of(c->other.data, c->other.n);
    }
    if (wants(c, TRACE_COL_PATH)) {
        if (read_bytes(c, SEAL_COL_PATH, n, &c->path, err) < 0)
            return -1;
        if (c->path.n && c->path.n != n)
            return bad_block(err);
    }
    if (wants(c, TRACE_COL_ARGUMENT)) {
        if (read_bytes(c, SEAL_COL_ARGUMENT, (size_t)n * 20, &c->argument, err) < 0)
            return -1;
        c->argument_rest = span_of(c->argument.data, c->argument.n);
        c->argument_event = UINT32_MAX;
        cursor_next_argument(c);
    }
    return 0;
}
