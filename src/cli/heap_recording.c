/* heap_recording.c - see heap_recording.h. */
#include "cli/heap_recording.h"

#include "record/control.h"

struct trace *heap_recording_open(void *arg, uint32_t pid, bool live, struct error *err)
{
    struct heap_recording *o = arg;
    struct error ignored; /* its recorder may have ended: then all is in the file */
    if (live && pid)
        control_run((pid_t)pid, CONTROL_SYNC, NULL, NULL, &ignored);
    o->trace = view_open(o->path, 0, 0, 0, err);
    return o->trace;
}

int heap_recording_names(struct heap_recording *o, const struct heap *h, struct error *err)
{
    const struct trace_image *image = o->trace ? &trace_info(o->trace)->images[heap_facts(h)->image]
                                               : heap_samples_image(&o->samples);
    if (!image)
        return 0;
    o->symbols = view_symbols(o->view, err);
    if (o->symbols)
        o->names = names_new(o->symbols, image, err);
    if (o->names)
        names_set_look(o->names, &o->view->look);
    return o->names ? 0 : -1;
}

void heap_recording_close(struct heap_recording *o)
{
    names_free(o->names);
    symbols_free(o->symbols);
    trace_close(o->trace);
    heap_samples_release(&o->samples);
}
