// names.d - memory that a D developer knows by the function that asked for it, through druntime and
// Phobos. Truth: tests/truth/test_names.py finds the lines by the words behind "SITE".
module names;
import std.container.array;

__gshared void[] keep;

class Node
{
    ubyte[5000] bytes;
}

pragma(inline, false) void growArray(int n)
{
    auto a = Array!long();
    foreach (i; 0 .. n)
        a.insertBack(i); // SITE array
    keep = (&a)[0 .. 1];
}

pragma(inline, false) void collected(int n)
{
    foreach (i; 0 .. n)
        keep = (cast(void*) new Node)[0 .. 1]; // SITE collected
}

int main()
{
    growArray(20_000);
    collected(2000);
    return 0;
}
