/* notes_victim.S - a library with all of glibc's static probes memory_*, in the order of
 * test_arenas.py, whose arguments take every form that compilers write. */

/* A note as sys/sdt.h makes it, for a nop that stands here. */
.macro probe name, arguments, semaphore=0
990:    nop
        .pushsection .note.stapsdt, "", "note"
        .balign 4
        .4byte 992f - 991f, 994f - 993f, 3
991:    .asciz "stapsdt"
992:    .balign 4
993:    .8byte 990b
        .8byte _.stapsdt.base
        .8byte \semaphore
        .asciz "libc"
        .asciz "memory_\name"
        .asciz "\arguments"
994:    .balign 4
        .popsection
.endm

        .pushsection .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
        .weak _.stapsdt.base
        .hidden _.stapsdt.base
_.stapsdt.base: .space 1
        .size _.stapsdt.base, 1
        .popsection

        .section .probes, "aw", "progbits"
used:   .2byte 0
        .type used, @object
        .size used, 2
        .globl notes_used
notes_used:
        .2byte 0

        .data
        .balign 8
places: .quad 65536, 266240, 4096, -9
        .type places, @object
        .size places, 32

        .text
        .globl run_notes
        .type run_notes, @function
run_notes:
        push %rbp
        mov %rsp, %rbp
        push %rbx
        sub $40, %rsp
        movabs $0x7f1000000000, %rax
        movabs $0xdead00021000, %rcx
        probe heap_new, "8@%rax 4@%ecx"
        movabs $0x7f1004000000, %rdx
        mov %rdx, 8(%rsp)
        movq $200704, 24(%rsp)
        mov $2, %esi
        probe heap_new, "8@8(%rsp) 8@8(%rsp,%rsi,8)"
        mov $139264, %r11d
        probe heap_more, "8@%rax -4@%r11d"
        probe heap_less, "8@%rax 8@$135168"
        mov %rdx, -16(%rbp)
        probe heap_free, "8@-16(%rbp) 8@$0x31000"
        lea 48(%rax), %r8
        probe arena_new, "8@%r8 8@$136", used
        probe arena_reuse, "8@%r8 8@$0"
        lea 8(%rsp), %rdi
        mov %r8, (%rdi)
        probe arena_reuse_free_list, "8@(%rdi)"
        probe arena_reuse_wait, "8@%rdi 8@%r8 8@$0"
        probe arena_retry, "8@$77 8@%r8"
        probe sbrk_more, "8@%rax 8@8+places(%rip)"
        probe sbrk_less, "8@%rax 8@places+16(%rip)"
        probe sbrk_more, "8@$0 8@$1048576"
        mov $0x12345, %ebx
        probe malloc_retry, "2@%bx"
        probe realloc_retry, "1@%bl 8@%r8"
        movw $-2, (%rsp)
        probe memalign_retry, "-2@(%rsp) 2@0(%rsp)"
        probe calloc_retry, "-8@24+places(%rip)"
        mov $1, %r9d
        probe tcache_double_free, "8@%r8 8@-8(%rsp,%r9,8)"
        probe mallopt, "-4@$-3 -4@$262144"
        probe mallopt_free_dyn_thresholds, "8@16+places-16(%rip) 8@$131072"
        probe mallopt_mxfast, "8@$-1 8@$128"
        probe mallopt_trim_threshold, "8@$500000 8@$131072 -4@$0"
        probe mallopt_top_pad, "-4@$7 8@$0 -4@$1"
        probe mallopt_mmap_threshold, "%rax 8@$65536 -4@%r9d"
        probe mallopt_mmap_max, "-4@$9 -4@$65536 -4@$1"
        probe mallopt_perturb, "-4@%r9d -4@$0"
        probe mallopt_arena_test, "8@$2 8@16+places(%rip)"
        probe mallopt_arena_max, "8@$4 8@$0"
        probe tunable_tcache_max_bytes, "8@$1032 8@$1040"
        probe tunable_tcache_count, "8@$7 8@$7"
        probe tunable_tcache_unsorted_limit, "8@$0 8@$3"
        movzwl used(%rip), %eax
        add $40, %rsp
        pop %rbx
        pop %rbp
        ret
        .size run_notes, . - run_notes
        .section .note.GNU-stack, "", @progbits
