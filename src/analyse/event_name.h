/* event_name.h - how reports and exports name an event. Constants; any thread. */
#ifndef MALLOW_ANALYSE_EVENT_NAME_H
#define MALLOW_ANALYSE_EVENT_NAME_H

/* How an event is called: as its operation (mlw_op_name), but "realloc-old" and the like for
 * halves. */
const char *event_name(unsigned op);
/* "alloc", "free-temporary", ...: of an enum trace_kind. */
const char *event_kind_name(unsigned kind);
/* "mmapped", ...: of a bit number (0 to 7) of enum mlw_path. */
const char *event_path_name(unsigned bit);

#endif
