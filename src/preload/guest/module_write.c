/* module_write.c - Changes words of loaded modules, and makes their pages writable for that time
 * only. Other threads may read a word meanwhile, so each changes by one atomic store. The only
 * system call is mprotect, made directly. */
#include "arch/page.h"
#include "preload/guest/module.h"
#include "preload/sys.h"

#define PAGE ARCH_PAGE_BYTES

/* How the loader has left the page of a word of the module; -1: not its memory. */
static int protection(const struct dl_phdr_info *info, uint64_t at)
{
    int now = -1;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && at - start < p->p_memsz)
            now = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
                  (p->p_flags & PF_X ? PROT_EXEC : 0);
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type == PT_GNU_RELRO && at >= (start & ~(PAGE - 1)) && at < (end & ~(PAGE - 1)))
            return now & ~PROT_WRITE;
    }
    return now;
}

void module_close(struct module_pages *p)
{
    if (p->end && sys_mprotect((void *)p->start, p->end - p->start, p->was))
        p->failed = true;
    p->end = 0;
}

bool module_open(struct module_pages *p, const struct dl_phdr_info *info, uint64_t start,
                 uint64_t end)
{
    if (p->end && start >= p->start && end <= p->end)
        return true;
    const int was = protection(info, start);
    if (was < 0)
        return false;
    module_close(p);
    if (was & PROT_WRITE)
        return true;
    const uint64_t first = start & ~(PAGE - 1), bytes = ((end + PAGE - 1) & ~(PAGE - 1)) - first;
    if (sys_mprotect((void *)first, bytes, was | PROT_READ | PROT_WRITE))
        return false;
    p->start = first;
    p->end = first + bytes;
    p->was = was;
    return true;
}

void module_write(struct module_pages *p, const struct dl_phdr_info *info, uint64_t at,
                  uint64_t value)
{
    if (at % sizeof value || !module_open(p, info, at, at + sizeof value)) {
        p->failed = true;
        return;
    }
    __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    p->changed++;
}
