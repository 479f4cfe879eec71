/* unseen.h - ways past the preloaded recorder in a process, and how a recording names them.
 *
 * A note of an image (MLW_TLV_NOTE) that begins with MLW_UNSEEN_NOTE is one such statement:
 * "not seen (REASON): MODULE" or "not seen (REASON, DETAIL): MODULE". Readers that do not know it
 * show it as they show other notes. Refuses: any include. */
#ifndef MALLOW_FORMAT_UNSEEN_H
#define MALLOW_FORMAT_UNSEEN_H

#define MLW_UNSEEN_NOTE "not seen ("

/* clang-format off */
/* X(name, reason, fact, loss, remedy). A detail stands behind the fact. */
#define MLW_UNSEEN(X) \
    X(NAMESPACE, "namespace", \
      "it was loaded into a namespace of its own (dlmopen), with another C library and another heap", \
      "the calls there are not recorded", \
      "load it with dlopen") \
    X(OWN_ALLOCATOR, "own-allocator", \
      "it brings an allocator of its own", \
      "what goes through that is not recorded", \
      "build it for the system's allocator") \
    X(OWN_MALLOC, "own-malloc", \
      "it brings a malloc of its own, as of a static C library", \
      "what goes through that is not recorded", \
      "link it with the shared C library") \
    X(BINDINGS, "bindings", \
      "the kernel refused to have its symbols changed", \
      "calls of modules that bind to it directly (RTLD_DEEPBIND, dlsym on its handle) are not recorded", \
      "record the process from outside: 'mallow record -p PID --how probe'") \
    X(BETWEEN, "wrapper", \
      "another library stands between the recorder and some of its functions", \
      "calls of modules that bind to it directly (RTLD_DEEPBIND, dlsym on its handle) are not recorded", \
      "preload one allocator, with all of its functions") \
    X(JEMALLOC, "jemalloc-api", \
      "its own functions (mallocx, sdallocx, ...) could not be led to the recorder", \
      "calls of them may be missing", \
      "record the process from outside: 'mallow record -p PID --how probe'") \
    X(LIBC_BEHIND, "libc-behind", \
      "another allocator stands before its malloc, and something called that directly", \
      "those calls are not recorded", \
      "start it without the other allocator")
/* clang-format on */

enum mlw_unseen {
#define MLW_UNSEEN_NAME(name, reason, ...) MLW_UNSEEN_##name,
    MLW_UNSEEN(MLW_UNSEEN_NAME)
#undef MLW_UNSEEN_NAME
        MLW_UNSEEN_COUNT
};

/* The beginning of the note of a reason that is a literal; the module follows. */
#define MLW_UNSEEN_BEGIN(reason) MLW_UNSEEN_NOTE reason "): "

/* The module of LIBC_BEHIND. */
#define MLW_UNSEEN_LIBC "libc.so.6"

#endif
