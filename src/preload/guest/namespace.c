/* namespace.c - the pid namespace of this process, and the dynamic linker's further ones. See
 * guest.h. */
#include <fcntl.h>
#include <link.h>

#include "preload/guest.h"
#include "preload/sys.h"

uint64_t guest_pid_namespace(void)
{
    char text[64];
    uint64_t v = 0;
    long n = sys_readlinkat(AT_FDCWD, "/proc/self/ns/pid", text, sizeof text);
    for (long i = 0; i < n; i++) /* pid:[4026531836] */
        if (text[i] >= '0' && text[i] <= '9')
            v = v * 10 + (uint64_t)(text[i] - '0');
    return v;
}

/* The linker's list for debuggers, as glibc 2.35 and later have it: with version 2, each element
 * has a word for the next. They are the linker's own, and stay. */
struct listed {
    struct r_debug of;
    const struct listed *next;
};
static const struct listed *first;

/* From the program's first module: the place that debuggers read. */
static int find_first(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const Elf64_Dyn *d = (const Elf64_Dyn *)(info->dlpi_addr + p->p_vaddr);
        for (; p->p_type == PT_DYNAMIC && d->d_tag != DT_NULL; d++)
            if (d->d_tag == DT_DEBUG)
                first = (const struct listed *)d->d_un.d_ptr;
    }
    return 1;
}

void guest_namespaces_begin(void) { dl_iterate_phdr(find_first, 0); }

const struct r_debug *guest_next_namespace(const struct r_debug *before)
{
    const struct listed *n = before ? (const struct listed *)before : first;
    if (!n || __atomic_load_n(&n->of.r_version, __ATOMIC_ACQUIRE) < 2)
        return 0;
    return (const struct r_debug *)__atomic_load_n(&n->next, __ATOMIC_ACQUIRE);
}
