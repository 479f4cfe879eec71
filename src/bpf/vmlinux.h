/* vmlinux.h - the kernel's types, as far as the programs of this directory look into them.
 *
 * Owns: names of fields, not their places: each access is relocated by libbpf to the running
 * kernel's own layout (CO-RE), so a struct here lists only the fields that are read. The build
 * therefore does not depend on the kernel of the machine that builds. */
#ifndef MALLOW_BPF_VMLINUX_H
#define MALLOW_BPF_VMLINUX_H

#include <linux/bpf.h>
#include <linux/types.h>

#define __VMLINUX_H__ /* libbpf's headers then use the kernel's names of registers */

#ifdef __bpf__
#define RELOCATED __attribute__((preserve_access_index))
#else
#define RELOCATED
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef __kernel_size_t size_t;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* Fixed by the interface to user space: not relocated. */
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
    unsigned long orig_ax, ip, cs, flags, sp, ss;
};

struct bpf_perf_event_data {
    struct pt_regs regs;
    u64 sample_period;
    u64 addr;
};

typedef struct {
    int counter;
} atomic_t;

typedef struct {
    s64 counter;
} atomic64_t;

struct signal_struct {
    atomic_t live;
    int group_exit_code;
    unsigned int flags;
} RELOCATED;

struct percpu_counter {
    s64 count;
    s32 *counters;
} RELOCATED;

struct task_struct;

struct mm_struct {
    unsigned long start_code, end_code, start_brk, brk, start_stack, arg_start, arg_end;
    struct task_struct *owner;
    struct percpu_counter rss_stat[4];
} RELOCATED;

/* Before Linux 6.2. */
struct mm_rss_stat___before {
    atomic64_t count[4];
} RELOCATED;

struct mm_struct___before {
    struct mm_rss_stat___before rss_stat;
} RELOCATED;

struct return_instance {
    unsigned long orig_ret_vaddr;
    struct return_instance *next;
} RELOCATED;

struct uprobe_task {
    struct return_instance *return_instances;
} RELOCATED;

typedef struct {
    u32 val;
} kuid_t;

struct cred {
    kuid_t uid;
} RELOCATED;

struct task_struct {
    struct uprobe_task *utask;
    const struct cred *cred;
    int pid, tgid, exit_code;
    u64 start_time;
    struct mm_struct *mm;
    struct signal_struct *signal;
    struct task_struct *group_leader, *real_parent;
    char comm[16];
} RELOCATED;

struct super_block {
    u32 s_dev;
} RELOCATED;

struct inode {
    struct super_block *i_sb;
    unsigned long i_ino;
} RELOCATED;

struct qstr {
    const unsigned char *name;
} RELOCATED;

struct dentry {
    struct qstr d_name;
} RELOCATED;

struct path {
    struct dentry *dentry;
} RELOCATED;

struct file {
    struct inode *f_inode;
    struct path f_path;
} RELOCATED;

struct linux_binprm {
    const char *filename;
} RELOCATED;

struct vm_area_struct {
    unsigned long vm_start, vm_end, vm_pgoff, vm_flags;
    struct mm_struct *vm_mm;
    struct file *vm_file;
} RELOCATED;

struct kmem_cache {
    const char *name;
    unsigned int size, object_size;
    void *cpu_sheaves; /* since Linux 6.18 */
} RELOCATED;

struct bpf_array {
    void *pptrs[0];
} RELOCATED;

enum vm_event_item { PSWPIN, PSWPOUT, PGMAJFAULT, SWPIN_ZERO };

#endif
