/* event_name.c - Names events, the bits of a call's path, and kinds of events, for the dump and
 * the exports. */
#include "analyse/event_name.h"

#include "trace/trace.h"

const char *event_name(unsigned op)
{
    switch (mlw_op_class(op)) {
    case MLW_CLASS_RESIZE_OLD: return "realloc-old";
    case MLW_CLASS_REMAP_OLD: return "mremap-old";
    case MLW_CLASS_UNMAP_UNDO: return "munmap-failed";
    default: return mlw_op_name(op);
    }
}

const char *event_path_name(unsigned bit)
{
    static const char *const names[8] = {"failed",    "mmapped",  "non-main",  "sbrk",
                                         "arena-new", "heap-new", "heap-grew", "nested"};
    return bit < 8 ? names[bit] : "?";
}

const char *event_kind_name(unsigned kind)
{
    static const char *const names[] = {"alloc",        "free",          "free-temporary",
                                        "free-unknown", "free-inferred", "other"};
    return kind <= TRACE_OTHER ? names[kind] : "?";
}
