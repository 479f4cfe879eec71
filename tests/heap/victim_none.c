/* victim_none.c - never calls malloc, and stands still. */
#include <unistd.h>

int main(void)
{
    if (write(1, "ready\n", 6) < 0)
        return 1;
    for (;;)
        pause();
}
