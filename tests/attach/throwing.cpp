// throwing.cpp - threads that throw and catch through frames that allocate, while they are attached to.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<bool> stop;
static std::atomic<unsigned long> caught;

struct Guard {
    std::string text = std::string(100, 'g');
    ~Guard() { caught += text.size() == 100; }
};

static void down(int n)
{
    Guard g;
    std::vector<int> v(static_cast<size_t>(n) * 20 + 1);
    if (n == 0)
        throw std::runtime_error("bottom of all of it, " + g.text);
    down(n - 1);
}

static void work()
{
    while (!stop) {
        try {
            down(12);
            std::printf("WRONG nothing was thrown\n");
        } catch (const std::runtime_error &e) {
            if (std::strlen(e.what()) != 121)
                std::printf("WRONG text '%s'\n", e.what());
        }
    }
}

int main()
{
    char line[64];
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(work);
    std::printf("ready\n");
    while (std::fgets(line, sizeof line, stdin) && std::strcmp(line, "quit\n"))
        std::printf("throwing=%lu\n", caught.load());
    stop = true;
    for (auto &t : threads)
        t.join();
    std::printf("bye\n");
}
