/* victim_held.cc - keeps and leaks blocks in one way, for LeakSanitizer, valgrind and mallow to
 * agree on.
 *
 * Usage: victim_held WAY|all COPIES. Prints "ready BLOCKS BYTES", what it has leaked, and waits for the end
 * of its input. Then it ends without running a destructor: what was true at "ready" still is.
 * Where LeakSanitizer is linked in, that looks before it ends. All that refers to a leaked block
 * runs in a function of its own, below a stack that is wiped afterwards. */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" int __lsan_do_recoverable_leak_check() __attribute__((weak));
extern "C" void *held_by_library(void *block);

static unsigned long leaked_blocks, leaked_bytes;

static char *leak(size_t bytes)
{
    leaked_blocks++;
    leaked_bytes += bytes;
    void *block = calloc(1, bytes);
    __asm__ volatile("" : "+r"(block) : : "memory"); /* the compiler must not leave it out */
    return static_cast<char *>(block);
}

struct ring {
    ring *next, *other;
    char room[200];
};

template <typename T> struct counting { /* std::allocator, and what was leaked with it */
    using value_type = T;
    counting() = default;
    template <typename U> counting(const counting<U> &) {}
    T *allocate(size_t n)
    {
        leaked_blocks++;
        leaked_bytes += n * sizeof(T);
        return static_cast<T *>(malloc(n * sizeof(T)));
    }
    void deallocate(T *p, size_t n)
    {
        leaked_blocks--;
        leaked_bytes -= n * sizeof(T);
        free(p);
    }
    template <typename U> bool operator==(const counting<U> &) const { return true; }
    template <typename U> bool operator!=(const counting<U> &) const { return false; }
};

using text = std::basic_string<char, std::char_traits<char>, counting<char>>;
template <typename T> using sequence = std::vector<T, counting<T>>;
using table = std::unordered_map<int, text, std::hash<int>, std::equal_to<int>, counting<std::pair<const int, text>>>;
using tree = std::map<int, text, std::less<int>, counting<std::pair<const int, text>>>;

template <typename T> static T *leak_new() { return new (leak(sizeof(T))) T(); }

/* --- the ways --- */

static void plain(unsigned n)
{
    static void **kept = static_cast<void **>(calloc(n, sizeof *kept));
    for (unsigned i = 0; i < n; i++) {
        leak(100);
        kept[i] = calloc(1, 100);
    }
}

static void lists(unsigned n) /* that nothing refers to; and one that ends in itself */
{
    for (unsigned i = 0; i < n; i++) {
        ring *first = leak_new<ring>();
        first->next = leak_new<ring>();
        first->next->next = leak_new<ring>();
        first->next->next->next = first->next;
    }
}

static void cycles(unsigned n)
{
    struct owner {
        std::shared_ptr<owner> other;
        char room[64];
    };
    for (unsigned i = 0; i < n; i++) {
        auto a = std::allocate_shared<owner>(counting<owner>());
        auto b = std::allocate_shared<owner>(counting<owner>());
        a->other = b;
        b->other = a;
    }
}

static void containers(unsigned n)
{
    static std::map<int, std::string> *kept = new std::map<int, std::string>;
    static std::deque<std::list<int>> *others = new std::deque<std::list<int>>;
    for (unsigned i = 0; i < n; i++) {
        (*kept)[static_cast<int>(i)] = std::string(100, 'k');
        others->emplace_back(5, 1);
        sequence<text> *v = leak_new<sequence<text>>();
        v->reserve(3);
        for (int k = 0; k < 3; k++)
            v->emplace_back(100, 'l');
        table *t = leak_new<table>();
        tree *m = leak_new<tree>();
        for (int k = 0; k < 5; k++) {
            t->emplace(k, text(50, 'l'));
            m->emplace(k, text(50, 'l'));
        }
    }
}

static void interior(unsigned n) /* the only pointer goes into the middle, or one past the end */
{
    static char **kept = static_cast<char **>(calloc(n, sizeof *kept));
    static char **past = static_cast<char **>(calloc(n, sizeof *past));
    for (unsigned i = 0; i < n; i++) {
        kept[i] = static_cast<char *>(calloc(1, 120)) + 60;
        past[i] = leak(120) + 120;
    }
}

thread_local void **kept_by_thread; /* not static: it is stored */
static pthread_barrier_t reached;

static void *keep_in_thread(void *arg)
{
    unsigned n = *static_cast<unsigned *>(arg);
    kept_by_thread = static_cast<void **>(calloc(n, sizeof *kept_by_thread));
    for (unsigned i = 0; i < n; i++)
        kept_by_thread[i] = calloc(1, 130);
    pthread_barrier_wait(&reached);
    for (;;)
        pause();
    return nullptr;
}

static void threads(unsigned n) /* thread-local data of a thread that lives */
{
    static unsigned copies = n;
    pthread_t id;
    pthread_barrier_init(&reached, nullptr, 2);
    if (pthread_create(&id, nullptr, keep_in_thread, &copies))
        abort();
    pthread_barrier_wait(&reached);
    for (unsigned i = 0; i < n; i++)
        leak(130);
}

static void *wait_with_register(void *arg)
{
    void *block = *static_cast<void **>(arg);
    *static_cast<void **>(arg) = nullptr;
    /* The thread waits for ever, and the block's address is in r12 only. */
    pthread_barrier_wait(&reached);
    __asm__ volatile("mov %0, %%r12\n\txor %0, %0\n"
                     "1:\tmov $34, %%eax\n\tsyscall\n\tjmp 1b" /* pause */
                     : "+r"(block)
                     :
                     : "r12", "rax", "rcx", "r11", "memory");
    return nullptr;
}

static void registers(unsigned n)
{
    static void *handed;
    pthread_t id;
    handed = calloc(1, 140);
    pthread_barrier_init(&reached, nullptr, 2);
    if (pthread_create(&id, nullptr, wait_with_register, &handed))
        abort();
    pthread_barrier_wait(&reached);
    for (unsigned i = 0; i < n; i++)
        leak(140);
}

static void library(unsigned n) /* in the static data of a shared library */
{
    for (unsigned i = 0; i < n; i++) {
        void **block = static_cast<void **>(calloc(1, 150));
        *block = held_by_library(block);
        leak(150);
    }
}

static void mapping(unsigned n) /* in private memory that the program mapped itself */
{
    void *room = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void **at = static_cast<void **>(room);
    for (unsigned i = 0; i < n; i++) {
        at[i] = calloc(1, 160);
        leak(160);
    }
}

static void shared_mapping(unsigned n) /* the same, in memory that is shared with other processes */
{
    void *room = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void **at = static_cast<void **>(room);
    for (unsigned i = 0; i < n; i++) {
        at[i] = calloc(1, 170);
        leak(170);
    }
}

static void hidden(unsigned n) /* a pointer that is not stored as one */
{
    static uintptr_t *kept = static_cast<uintptr_t *>(calloc(n, sizeof *kept));
    for (unsigned i = 0; i < n; i++)
        kept[i] = reinterpret_cast<uintptr_t>(leak(180)) ^ UINTPTR_MAX;
}

/* --- */

static const struct {
    const char *name;
    void (*run)(unsigned n);
} ways[] = {{"plain", plain},         {"lists", lists},
            {"cycles", cycles},       {"containers", containers},
            {"interior", interior},   {"threads", threads},
            {"registers", registers}, {"library", library},
            {"mapping", mapping},     {"shared-mapping", shared_mapping},
            {"hidden", hidden}};

static void __attribute__((noinline)) wipe_stack()
{
    volatile char room[32768];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

static void __attribute__((noinline)) run(const char *name, unsigned n)
{
    for (const auto &way : ways)
        if (!strcmp(name, "all") || !strcmp(way.name, name))
            way.run(n);
}

static void __attribute__((noinline)) wait_for_end()
{
    wipe_stack();
    printf("ready %lu %lu\n", leaked_blocks, leaked_bytes);
    fflush(stdout);
    wipe_stack();
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}

static void __attribute__((noinline)) hold_on_stack() /* in the frame of this function */
{
    void *volatile kept[4] = {};
    for (auto &block : kept)
        block = calloc(1, 9000);
    wait_for_end();
    if (!kept[0])
        abort();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (!strcmp(argv[1], "stack"))
        hold_on_stack();
    run(argv[1], static_cast<unsigned>(atoi(argv[2])));
    wait_for_end();
    if (__lsan_do_recoverable_leak_check)
        __lsan_do_recoverable_leak_check();
    _exit(0);
}
