// victim_containers.cc - containers whose nodes others point at, too. Prints "ready ITERATOR LOST"; waits for the end of
// its input.
//
// names: 1,000 nodes with a string each. orders: 500 nodes with a block each. *inside: a set of 200 in a block.
// lines: 300 strings. figures: a vector of 5,000. queue: a deque of 1,000. table: a hash table of 300 strings.
// stale: pointers to nodes of all three, as iterators and memory that was not cleared have them.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

struct Holder {
    long number = 7;
    std::set<long> numbers;
};

std::map<int, std::string> names;
std::list<void *> orders;
std::vector<std::string> lines;
std::vector<long> figures;
std::deque<long> queue;
std::unordered_map<int, std::string> table;
Holder *inside;
const void **stale;

int main()
{
    inside = new Holder;
    for (int i = 0; i < 1000; i++)
        names[i * 7919 % 1000] = "a name that does not fit into the string itself";
    for (int i = 0; i < 500; i++)
        orders.push_back(calloc(1, 72));
    for (int i = 0; i < 200; i++)
        inside->numbers.insert(i * 31 % 200);
    for (int i = 0; i < 300; i++) {
        lines.push_back("a line that does not fit into the string itself");
        table[i] = "something else that does not fit into the string itself";
    }
    figures.assign(5000, 77);
    for (long i = 0; i < 1000; i++)
        queue.push_back(i);
    stale = static_cast<const void **>(calloc(100, sizeof *stale));
    for (int i = 0; i < 30; i++) {
        stale[i] = &*names.find(i * 30);
        stale[30 + i] = &*std::next(orders.begin(), 17 * i);
        stale[60 + i] = &*inside->numbers.find(i * 6);
    }
    printf("ready %p\n", stale[5]);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
