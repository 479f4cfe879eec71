/* keep.c - reads and writes the blocks of the page in the index. */
#include "page/keep.h"

#include <stdlib.h>
#include <string.h>

#include "report/keep.h"

enum { COLUMN_FACTS = 2, COLUMN_PROCESS = 3, COLUMN_MOMENTS = 4 };
enum { FACT_NAMES, FACT_MOMENTS, FACTS };

/* All that the blocks depend on besides names and the recording. */
static uint64_t page_key(const struct report_options *o, const struct html_room *room)
{
    const uint64_t of_options = keep_mix(keep_key(o), room->share_bytes);
    return keep_mix(keep_mix(of_options, room->most_bytes), room->must_fit);
}

/* The digest of the names of all frames. They are looked up apart: in which order frames were first
 * met says which come first among equals. False without memory. */
static bool digest_of(const struct names *names, uint64_t *digest)
{
    struct error ignored;
    struct names *apart = names_again(names, &ignored);
    if (apart)
        *digest = names_digest(apart);
    const bool known = apart && !names_failed(apart);
    names_free(apart);
    return known;
}

static bool take_block(struct trace_kept *k, unsigned column, size_t most, struct html_block *block)
{
    const uint64_t n = trace_kept_count(k, column);
    const uint8_t *data = n && n <= most ? trace_kept_bytes(k, column) : NULL;
    return data && html_block_copy(block, data, (size_t)n) && block->page_bytes <= most;
}

bool html_kept(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               struct html_block *process, struct html_block *moments)
{
    struct trace_kept *k =
        keep_is_plain(o) ? trace_kept_find(t, image, TRACE_KEPT_PAGE, page_key(o, room)) : NULL;
    uint64_t facts[FACTS], digest;
    if (!k)
        return false;
    const bool fits =
        trace_kept_numbers(k, COLUMN_FACTS, facts, FACTS) && digest_of(names, &digest) &&
        digest == facts[FACT_NAMES] && take_block(k, COLUMN_PROCESS, room->most_bytes, process) &&
        (!facts[FACT_MOMENTS] || take_block(k, COLUMN_MOMENTS, room->share_bytes, moments));
    if (!fits) {
        html_block_release(process);
        html_block_release(moments);
    }
    trace_kept_close(k);
    return fits;
}

void html_keep(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               const struct html_block *process, const struct html_block *moments)
{
    struct trace_kept *k =
        keep_is_plain(o) ? trace_kept_new(t, image, TRACE_KEPT_PAGE, page_key(o, room)) : NULL;
    uint64_t facts[FACTS] = {[FACT_MOMENTS] = moments != NULL};
    if (!k)
        return;
    if (!digest_of(names, &facts[FACT_NAMES])) {
        trace_kept_drop(k);
        return;
    }
    trace_kept_put_numbers(k, COLUMN_FACTS, facts, FACTS);
    trace_kept_put_bytes(k, COLUMN_PROCESS, process->data, process->data_bytes);
    if (moments)
        trace_kept_put_bytes(k, COLUMN_MOMENTS, moments->data, moments->data_bytes);
    trace_kept_keep(t, k);
}
