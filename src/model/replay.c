/* replay.c - Feeds all events of one process image to a model, and to an observer or a series if
 * one is given. Without filters it takes the model from the index, or puts it there. */
#include "model/replay.h"

#include "model/keep.h"

int model_replay_observed(struct trace *t, uint32_t image, const struct model_filter *filter,
                          const struct model_observer *observer, struct model **m,
                          struct error *err)
{
    struct trace_batch batch;
    int more = -1;
    struct trace_cursor *c = NULL;
    *m = model_new(&trace_info(t)->images[image], filter, err);
    if (*m && observer)
        model_observe(*m, observer);
    if (*m)
        c = trace_cursor_open_columns(t, image, model_columns() | TRACE_COL_BEGUN, err);
    if (c)
        while ((more = trace_cursor_next(c, &batch, err)) > 0)
            if (model_add(*m, &batch, err)) {
                more = -1;
                break;
            }
    trace_cursor_close(c);
    if (more == 0 && model_finish(*m, err) == 0)
        return 0;
    model_free(*m);
    *m = NULL;
    return -1;
}

int model_replay(struct trace *t, uint32_t image, const struct model_filter *filter,
                 struct model **m, struct error *err)
{
    if (!model_filters(filter) && (*m = model_kept(t, image)))
        return 0;
    if (model_replay_observed(t, image, filter, NULL, m, err))
        return -1;
    if (!model_filters(filter))
        model_keep(*m, t, image);
    return 0;
}

int model_replay_series(struct trace *t, uint32_t image, const struct model_filter *filter,
                        struct series *s, struct error *err)
{
    struct trace_batch batch;
    struct model *m = model_new(&trace_info(t)->images[image], filter, err);
    if (!m)
        return -1;
    if (!series_feeds(m)) {
        model_free(m);
        const int status = model_replay_observed(t, image, filter, series_observer(s), &m, err);
        model_free(m);
        return status;
    }
    int more = -1;
    struct trace_cursor *c = trace_cursor_open_columns(t, image, series_columns(), err);
    while (c && (more = trace_cursor_next(c, &batch, err)) > 0)
        if (series_feed(s, m, &batch, err)) {
            more = -1;
            break;
        }
    trace_cursor_close(c);
    model_free(m);
    return more;
}
