// cxx.cpp - every operator new and delete, exceptions through frames that allocate, thread_local
// destructors that allocate. Each `new` is one call of the allocator below, never two.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "apart.h"


static void *volatile keep[1000];

struct alignas(64) Wide {
    char bytes[192];
};

// 20 x new, 20 x new[], 20 nothrow of each, 20 aligned of each, each released by the delete that
// belongs to it (sized where there is one): 120 blocks. Then 3 leaks of 4000 B.
APART static void operators()
{
    const std::nothrow_t &quiet = std::nothrow;
    for (int i = 0; i < 20; i++) {
        void *p = keep[0] = ::operator new(100);
        if (i & 1)
            ::operator delete(p);
        else
            ::operator delete(p, static_cast<std::size_t>(100));
        p = keep[0] = ::operator new[](101);
        if (i & 1)
            ::operator delete[](p);
        else
            ::operator delete[](p, static_cast<std::size_t>(101));
        p = keep[0] = ::operator new(102, quiet);
        ::operator delete(p, quiet);
        p = keep[0] = ::operator new[](103, quiet);
        ::operator delete[](p, quiet);
        p = keep[0] = ::operator new(192, std::align_val_t(64));
        if (i & 1)
            ::operator delete(p, std::align_val_t(64));
        else
            ::operator delete(p, static_cast<std::size_t>(192), std::align_val_t(64));
        Wide *w = new Wide[2]; // 384 B
        keep[0] = w;
        delete[] w;
    }
    for (int i = 0; i < 3; i++)
        keep[i] = ::operator new(4000);
}

struct Owner {
    char *p;
    explicit Owner(size_t n) : p(static_cast<char *>(malloc(n))) {}
    ~Owner() { free(p); }
};

APART static int down(int n)
{
    Owner o(500);
    keep[1] = o.p;
    if (n == 0)
        throw std::runtime_error("the bottom was reached, and this text is long");
    return down(n - 1) + 1;
}

// 100 throws from 30 frames deep, each frame owning a block of 500 B that unwinding frees.
APART static void exceptions()
{
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            keep[2] = reinterpret_cast<void *>(static_cast<long>(down(29)));
        } catch (const std::exception &e) {
            caught += static_cast<int>(strlen(e.what()) > 3);
        }
    }
    printf("caught %d\n", caught);
}

struct AtThreadEnd {
    char *p = nullptr;
    ~AtThreadEnd()
    {
        for (int i = 0; i < 5; i++)
            free(keep[3] = malloc(700));
        free(p);
    }
};
static thread_local AtThreadEnd at_thread_end;

// 20 threads, each with a thread_local whose destructor makes 5 blocks of 700 B; one of 701 B each
// lives until then.
APART static void tls()
{
    for (int i = 0; i < 20; i++)
        std::thread([] { at_thread_end.p = static_cast<char *>(malloc(701)); }).join();
}

// new that cannot be had: bad_alloc, and the new-handler is asked.
static int asked;
APART static void refused()
{
    std::set_new_handler([] {
        if (++asked == 3)
            std::set_new_handler(nullptr);
    });
    volatile size_t huge = PTRDIFF_MAX - 100;
    try {
        keep[4] = ::operator new(huge);
    } catch (const std::bad_alloc &) {
        printf("bad_alloc after %d\n", asked);
    }
    asked = 0;
    std::set_new_handler([] {
        if (++asked == 2)
            std::set_new_handler(nullptr);
    });
    printf("nothrow: %d", ::operator new(huge, std::nothrow) == nullptr);
    printf(" after %d\n", asked);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        std::string m = argv[i];
        if (m == "operators")
            operators();
        else if (m == "exceptions")
            exceptions();
        else if (m == "tls")
            tls();
        else if (m == "refused")
            refused();
        else
            return 2;
    }
    return 0;
}
