/* held_library.c - a shared library that keeps a block in its static data. */
void *held_by_library(void *block);

static void *held;

/* Returns the block that was held before. */
void *held_by_library(void *block)
{
    void *before = held;
    held = block;
    return before;
}
