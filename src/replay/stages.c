/* stages.c - see stages.h.
 *
 * Within a stage threads may be anywhere between its beginning and its end. The sum of live bytes
 * is then at most what it was at the stage's beginning, and each thread's own highest rise since. A
 * stage ends before that could pass the recorded peak by more than the slack; and one ends where
 * the recording had its peak, so that the replay has it too. */
#include "replay/stages.h"

#include <sys/mman.h>

#include "arch/page.h"

#define SLACK_SHARE 64u /* the peak may be passed by one part in this */

struct rise { /* a thread's rise in the current stage */
    int64_t sum, most;
    uint32_t stage;
};

struct planner {
    struct stages *stages;
    struct rise *rises; /* by thread */
    uint64_t place, live_bytes, peak_bytes, base_bytes, slack_bytes, risen_bytes;
    uint32_t stage;
    bool peak_seen;
    uint32_t peak_cut; /* the index of the cut at the peak, when peak_seen */
};

static void *map_stage_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* When there are too many, every second goes, but not the peak's; stages are longer from then on.
 */
static void thin_stages(struct planner *p)
{
    struct stages *s = p->stages;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (i % 2 || (p->peak_seen && i == p->peak_cut)) {
            if (p->peak_seen && i == p->peak_cut)
                p->peak_cut = kept;
            s->cuts[kept++] = s->cuts[i];
        }
    s->count = kept;
    p->slack_bytes *= 2;
}

static void cut(struct planner *p, uint64_t place)
{
    struct stages *s = p->stages;
    if (s->count == STAGES_MAX)
        thin_stages(p);
    s->cuts[s->count++] = place;
    p->stage++;
    p->risen_bytes = 0;
}

static void visit_event(void *arg, const struct workload_event *e)
{
    struct planner *p = arg;
    int64_t change = (int64_t)(e->live_bytes - p->live_bytes);
    struct rise *r = &p->rises[e->thread];
    if (r->stage != p->stage)
        *r = (struct rise){.stage = p->stage};
    uint64_t more = r->sum + change > r->most ? (uint64_t)(r->sum + change - r->most) : 0;
    if (more && p->base_bytes + p->risen_bytes + more > p->peak_bytes + p->slack_bytes) {
        cut(p, p->place);
        p->base_bytes = p->live_bytes;
        *r = (struct rise){.stage = p->stage};
        more = change > 0 ? (uint64_t)change : 0;
    }
    r->sum += change;
    p->risen_bytes += more;
    if (more)
        r->most = r->sum;
    p->live_bytes = e->live_bytes;
    p->place++;
    if (!p->peak_seen && p->live_bytes == p->peak_bytes) {
        cut(p, p->place);
        p->peak_seen = true;
        p->peak_cut = p->stages->count - 1;
        p->base_bytes = p->live_bytes;
    }
}

int stages_plan(const struct workload *w, struct stages *stages, struct error *err)
{
    *stages = (struct stages){.map_bytes = STAGES_MAX * sizeof *stages->cuts};
    size_t rises_bytes = w->thread_count * sizeof(struct rise) + 1;
    struct planner p = {.stages = stages, .peak_bytes = w->facts[WORKLOAD_FACT_PEAK_BYTES]};
    p.slack_bytes = p.peak_bytes / SLACK_SHARE;
    p.rises = map_stage_memory(rises_bytes);
    stages->cuts = map_stage_memory(stages->map_bytes);
    if (!p.rises || !stages->cuts)
        return error_memory_for(err, "the plan of a replay of %u threads", w->thread_count);
    int bad = workload_visit(w, visit_event, &p, err);
    munmap(p.rises, rises_bytes);
    stages->limit_bytes = p.peak_bytes + p.slack_bytes;
    size_t used = (stages->count * sizeof *stages->cuts + ARCH_PAGE_BYTES - 1) &
                  ~(size_t)(ARCH_PAGE_BYTES - 1);
    if (used < stages->map_bytes)
        munmap((char *)stages->cuts + used, stages->map_bytes - used);
    stages->map_bytes = used;
    return bad;
}
