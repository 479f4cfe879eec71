// names.cpp - memory that a C++ developer knows by the line that asked for it, through the standard
// library. Truth: tests/truth/test_names.py finds the lines by the words behind "SITE".
#include <coroutine>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "apart.h"


void *volatile keep[16];

struct Task {
    struct promise_type {
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};

namespace app
{

APART void grow_vector(int n)
{
    auto *v = new std::vector<long>;
    for (int i = 0; i < n; i++)
        v->push_back(i); // SITE vector
    keep[0] = v;
}

APART void grow_string(int n)
{
    auto *s = new std::string;
    for (int i = 0; i < n; i++)
        *s += "eight of"; // SITE string
    keep[1] = s;
}

APART void fill_map(int n)
{
    auto *m = new std::map<int, std::vector<std::string>>;
    for (int i = 0; i < n; i++)
        (*m)[i]; // SITE map
    keep[2] = m;
}

APART void fill_table(int n)
{
    auto *m = new std::unordered_map<int, long>;
    for (int i = 0; i < n; i++)
        m->emplace(i, i); // SITE table
    keep[3] = m;
}

APART void call(const std::function<void(size_t)> &f) { f(70000); }

template <class T> APART void share(const T &value)
{
    auto *p = new std::shared_ptr<T>;
    *p = std::make_shared<T>(value); // SITE shared
    keep[4] = p;
}

APART Task coroutine(int n)
{
    std::vector<char> before(n); // SITE before
    co_await std::suspend_always{};
    std::vector<char> after(2 * n); // SITE after
    keep[5] = after.data();
    co_await std::suspend_always{};
}

struct Big {
    char bytes[50000];
};

} // namespace app

int main()
{
    app::grow_vector(10000);
    app::grow_string(10000);
    app::fill_map(1000);
    app::fill_table(1000);
    app::call([](size_t n) {
        keep[6] = new std::vector<char>(n); // SITE lambda
    });
    app::share(app::Big{});
    Task task = app::coroutine(30000); // SITE coroutine
    task.handle.resume();
    task.handle.resume();
    std::thread t([] {
        keep[7] = new std::string(90000, 'x'); // SITE thread
    });
    t.join();
    char c;
    if (getenv("STAY") && read(0, &c, 1) < 0)
        return 1;
    return 0;
}
