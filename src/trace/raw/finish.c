/* finish.c - an index whose chunks are all there: sorted, and one chosen of several copies. See
 * raw.h. */
#include "raw.h"

#include "carried.h"

static int by_stream(const void *a, const void *b)
{
    const struct raw_stream *x = *(struct raw_stream *const *)a,
                            *y = *(struct raw_stream *const *)b;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* Finished copies before interim ones, then longer before shorter. */
static int by_chunk(const void *a, const void *b)
{
    const struct raw_chunk *x = a, *y = b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->interim != y->interim)
        return x->interim < y->interim ? -1 : 1;
    if (x->payload_bytes != y->payload_bytes)
        return x->payload_bytes > y->payload_bytes ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_clock(const void *a, const void *b)
{
    const struct mlw_clock_pair *x = a, *y = b;
    return x->clock < y->clock ? -1 : x->clock > y->clock;
}

static int by_resident(const void *a, const void *b)
{
    const struct mlw_resident *x = a, *y = b;
    return x->clock < y->clock ? -1 : x->clock > y->clock;
}

static int by_split(const void *a, const void *b)
{
    const struct mlw_split *x = a, *y = b;
    return x->clock < y->clock ? -1 : x->clock > y->clock;
}

static void sort_array(void *a, size_t n, size_t size, int (*f)(const void *, const void *))
{
    if (n > 1)
        qsort(a, n, size, f);
}

/* Records of the kernel go to the images of that time. */
static int assign_kernel(struct raw *r, struct error *err)
{
    struct kernel_image *at = calloc(r->image_count + 1, sizeof *at);
    if (!at)
        return error_memory_for(err, "indexing the recording");
    for (size_t i = 0; i < r->image_count; i++) {
        const struct raw_image *im = &r->images[i];
        at[i] = (struct kernel_image){
            .pid = im->pid,
            .index = (uint32_t)i,
            .start = im->start_clock ? im->start_clock : im->first_clock,
            .end = im->end_how == MLW_END_EXEC && im->end_clock ? im->end_clock : UINT64_MAX};
    }
    kernel_assign(&r->kernel, at, r->image_count);
    free(at);
    return 0;
}

static uint64_t sum_of_chunks(const struct raw_stream *st, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n && i < st->held; i++)
        sum = (sum ^ st->chunk[i].offset) * 0x9e3779b97f4a7c15u;
    return sum;
}

/* Orders the chunks of a stream, chooses among copies, and counts gaps. False without memory. */
static bool finish_stream(struct raw *r, struct raw_stream *st)
{
    bool sorted = true;
    const uint64_t read = sum_of_chunks(st, st->chunks);
    if (st->copies && !ARRAY_ROOM(st->chunk, (size_t)st->held + st->copies, st->chunk_room))
        return false;
    if (st->copies)
        memcpy(st->chunk + st->held, st->copy, st->copies * sizeof *st->copy);
    st->held += st->copies;
    st->copies = 0;
    for (uint32_t i = 1; i < st->held && sorted; i++)
        sorted = by_chunk(&st->chunk[i - 1], &st->chunk[i]) <= 0;
    if (!sorted)
        qsort(st->chunk, st->held, sizeof *st->chunk, by_chunk);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < st->held; i++) {
        const struct raw_chunk *c = &st->chunk[i];
        if (kept && st->chunk[kept - 1].sequence == c->sequence)
            continue; /* a lesser copy of the same buffer */
        if (!carried_is_released(st, c->sequence, c->payload_bytes))
            st->chunk[kept++] = *c;
    }
    st->held = kept;
    r->odd |= st->chunks > kept || sum_of_chunks(st, st->chunks) != read;
    st->chunks = kept;
    st->hidden = false;
    uint64_t calls = st->skip_calls;
    if (kept) {
        st->first_clock = st->chunk[0].base_clock;
        if (!st->skips && r->images[st->image].carried) /* its beginning is released */
            calls = st->chunk[0].first_call;
    }
    for (uint32_t i = 0; i < kept; i++) {
        const struct raw_chunk *k = &st->chunk[i];
        if (k->first_call > calls)
            st->gap_calls += k->first_call - calls;
        if (k->first_call + k->calls > calls || !st->skips)
            calls = k->first_call + k->calls;
    }
    return true;
}

int raw_sort_streams(struct raw *r, struct error *err)
{
    const size_t n = r->stream_count;
    if (!ARRAY_ROOM(r->streams, n + 1, r->streams_cap))
        return error_memory_for(err, "indexing the recording");
    if (n)
        memcpy(r->streams, r->met, n * sizeof *r->streams);
    sort_array(r->streams, n, sizeof *r->streams, by_stream);
    for (size_t i = 0; i < n;) {
        const uint32_t image = r->streams[i]->image;
        struct raw_image *im = &r->images[image];
        im->first_stream = (uint32_t)i;
        im->streams = im->threads = 0;
        for (; i < n && r->streams[i]->image == image; i++) {
            struct raw_stream *st = r->streams[i];
            const bool same = im->streams && st->thread == r->streams[i - 1]->thread;
            im->threads += !same;
            st->index = (uint32_t)i;
            st->thread_index = im->threads - 1;
            st->hidden = st->thread_index != st->thread;
            im->streams++;
        }
    }
    return 0;
}

void raw_sort_pairs(struct raw *r)
{
    sort_array(r->pairs, r->pair_count, sizeof *r->pairs, by_clock);
}

void raw_finish_image(struct raw *r, uint32_t image)
{
    struct raw_image *im = &r->images[image];
    sort_array(im->residents, im->resident_count, sizeof *im->residents, by_resident);
    sort_array(im->splits, im->split_count, sizeof *im->splits, by_split);
    if (im->resident_count)
        raw_see_clock(im, im->residents[im->resident_count - 1].clock);
}

int raw_finish(struct raw *r, struct error *err)
{
    if (carried_choose(r, err) || raw_sort_streams(r, err))
        return -1;
    for (size_t i = 0; i < r->stream_count; i++)
        if (!finish_stream(r, r->streams[i]))
            return error_memory_for(err, "indexing the recording");
    for (size_t i = 0; i < r->image_count; i++)
        raw_finish_image(r, (uint32_t)i);
    raw_find_parents(r);
    r->growing = false;
    raw_sort_pairs(r);
    return assign_kernel(r, err);
}

bool raw_image_is_whole(const struct raw *r, uint32_t image)
{
    const struct raw_image *im = &r->images[image];
    for (uint32_t i = 0; i < im->streams; i++) {
        const struct raw_stream *st = r->streams[im->first_stream + i];
        if (st->hidden || st->chunks != st->held)
            return false;
        for (uint32_t k = 0; k < st->copies; k++)
            if (st->copy[k].sequence >= st->chunks)
                return false;
    }
    return true;
}
