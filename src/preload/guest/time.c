/* time.c - the kernel's clocks, by the functions that it maps into every process (vdso), without a
 * system call where the machine's clock can be read. libc's clock_gettime leads there, but a
 * program or a library that it loads may define that name: libfaketime does. */
#include <elf.h>
#include <sys/auxv.h>

#include "preload/guest.h"
#include "preload/guest/module.h"
#include "preload/sys.h"

typedef int gettime(clockid_t, struct timespec *);

static int by_system_call(clockid_t clock, struct timespec *to)
{
    return (int)sys_clock_gettime(clock, to);
}

static gettime *find_gettime(void)
{
    const uint64_t at = getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)at;
    struct dl_phdr_info info = {0};
    struct module m;
    if (!head)
        return by_system_call;
    info.dlpi_phdr = (const Elf64_Phdr *)(at + head->e_phoff);
    info.dlpi_phnum = head->e_phnum;
    info.dlpi_addr = at;
    for (unsigned i = 0; i < info.dlpi_phnum; i++)
        if (info.dlpi_phdr[i].p_type == PT_LOAD) {
            info.dlpi_addr = at + info.dlpi_phdr[i].p_offset - info.dlpi_phdr[i].p_vaddr;
            break;
        }
    const Elf64_Sym *s =
        module_read(&info, &m) ? module_function(&m, "__vdso_clock_gettime", 0) : 0;
    return s ? (gettime *)(info.dlpi_addr + s->st_value) : by_system_call;
}

void guest_gettime(clockid_t clock, struct timespec *to)
{
    static gettime *found;
    gettime *f = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (unlikely(!f)) {
        f = find_gettime();
        __atomic_store_n(&found, f, __ATOMIC_RELAXED);
    }
    if (f(clock, to))
        *to = (struct timespec){0, 0};
}
