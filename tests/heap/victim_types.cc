// victim_types.cc - objects of known classes, in known numbers, held by known variables. With an
// argument, the last one is made 300 ms or more after the others.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace zoo {
struct Animal {
    virtual ~Animal() {}
    virtual int legs() const = 0;
    long weight = 0;
};
struct Bird : Animal {
    int legs() const override { return 2; }
    char feathers[100] = {};
};
template <typename T> struct Cage : Animal {
    int legs() const override { return 0; }
    T inside;
    Animal *guest = nullptr;
};
struct Both : Bird, std::enable_shared_from_this<Both> {};
} // namespace zoo

namespace {
struct Hidden : zoo::Animal {
    int legs() const override { return 8; }
};
} // namespace

std::vector<zoo::Animal *> birds;
static std::vector<zoo::Animal *> *cages;
std::shared_ptr<zoo::Both> both;
zoo::Animal *hidden;

int main(int argc, char **)
{
    using clock = std::chrono::steady_clock;
    cages = new std::vector<zoo::Animal *>;
    for (int i = 0; i < 700; i++)
        birds.push_back(new zoo::Bird);
    for (int i = 0; i < 300; i++) {
        auto *c = new zoo::Cage<int>;
        c->guest = new zoo::Bird;
        cages->push_back(c);
    }
    both = std::make_shared<zoo::Both>();
    for (auto made = clock::now(); argc > 1 && clock::now() - made < std::chrono::milliseconds(300);)
        ;
    hidden = new Hidden;
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
