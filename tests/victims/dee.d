// dee.d - a D program with known leaks: names must come out demangled.
module dee;
import core.stdc.stdlib : malloc;

__gshared void*[100] keep;

pragma(inline, false) void leakMany(size_t size, int n)
{
    foreach (i; 0 .. n)
        keep[i] = malloc(size);
}

int main()
{
    leakMany(4321, 6);
    return keep[5] is null;
}
