// victim_dlang.d - a D program that prints a return address of a function with a known name.
module shop.till;

extern (C) int printf(const char*, ...);
extern (C) extern __gshared char __executable_start;
extern (C) int probe();

struct Till
{
    int total;
    int add(int n)
    {
        return n + probe(); // mark method
    }
}

int main()
{
    Till till;
    till.total = till.add(3);
    return till.total == 12_345;
}
