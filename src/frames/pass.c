/* pass.c - one pass over a process of a recording. See pass.h. */
#include "frames/pass.h"

int pass_begin(struct pass *p, struct trace *t, uint32_t image, const struct selection *selection,
               struct symbols *symbols, const struct names_look *look, struct error *err)
{
    *p = (struct pass){.image = &trace_info(t)->images[image]};
    p->names = names_new(symbols, p->image, err);
    if (!p->names)
        return -1;
    if (look)
        names_set_look(p->names, look);
    if (selection_resolve(selection, p->image, p->names, &p->filter, err))
        return -1;
    return model_replay(t, image, &p->filter.filter, &p->model, err);
}

void pass_end(struct pass *p)
{
    selection_release(&p->filter);
    model_free(p->model);
    names_free(p->names);
    *p = (struct pass){.image = p->image};
}
