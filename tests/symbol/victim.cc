// victim.cc - return addresses whose names are known. Each line printed is
// "LABEL RETURN_ADDRESS PROGRAM_START"; the test knows the chain of functions and lines of each
// label from the marks at the ends of the lines here.
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" char __executable_start;

extern "C" __attribute__((noinline)) int probe(const char *label)
{
    std::printf("%s %lx %lx\n", label, (unsigned long)__builtin_return_address(0),
                (unsigned long)&__executable_start);
    return rand();
}

static inline __attribute__((always_inline)) int leaf(const char *label)
{
    return probe(label) + 1; // mark leaf
}

static inline __attribute__((always_inline)) int middle(const char *label)
{
    return leaf(label) * 3; // mark middle
}

namespace shop
{
struct Till {
    int total;
    __attribute__((noinline)) explicit Till(int start)
        : total(start + probe("ctor")) // mark ctor
    {
        total++;
    }
    __attribute__((always_inline)) int add(int n)
    {
        return total += n + middle("method"); // mark method
    }
};

template <class T> __attribute__((noinline)) T doubled(T value)
{
    Till till(2);
    return value + static_cast<T>(till.add(3)); // mark template
}
} // namespace shop

namespace
{
struct Hidden {
    int seed;
    __attribute__((always_inline)) int peek()
    {
        return seed + probe("hidden"); // mark hidden
    }
};
} // namespace

__attribute__((noinline)) int outer(int n)
{
    Hidden hidden = {n};
    int sum = middle("plain"); // mark plain
    sum += hidden.peek();      // mark peeking
    return sum * n;
}

__attribute__((noinline, cold)) void rare()
{
    std::fprintf(stderr, "cold\n");
}

__attribute__((noinline)) int splits(int n)
{
    if (__builtin_expect(n > 100, 0)) {
        rare();
        int r = probe("cold"); // mark cold
        if (r == n)
            std::abort();
        std::exit(0);
    }
    return n + 1;
}

int main(int argc, char **)
{
    int sum = outer(argc);
    sum += (int)shop::doubled<long>(argc);
    sum += splits(argc) ? 0 : 1;
    splits(argc + 1000);
    return sum == 42;
}
