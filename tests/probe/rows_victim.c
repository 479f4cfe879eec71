/* rows_victim.c - what `mallow probe` could show wrongly in its rows, one thing for each argument:
 *   maps    makes and removes MAPS mappings, several times, whose nodes the kernel releases later
 *   undo    CHILDREN children have SETS undo structures each, which the kernel releases after their
 * end files   opens FILES files, closes them after 300 ms, and ends after 300 ms more touch touches
 * PAGES pages by two instructions of one line */
#include <fcntl.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../victims/apart.h"

enum { PAGE = 4096, MAPS = 2000, SETS = 50, CHILDREN = 100, FILES = 300, PAGES = 64 };

static void maps(void)
{
    const size_t bytes = (2 * MAPS + 1) * PAGE;
    for (int round = 0; round < 3; round++) {
        char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (size_t i = 0; i < MAPS; i++)
            mprotect(p + 2 * i * PAGE, PAGE, PROT_READ);
        munmap(p, bytes);
    }
}

static void undo(void)
{
    const struct timespec pause = {.tv_nsec = 10000000}; /* the kernel releases them meanwhile */
    struct sembuf one = {.sem_op = 1, .sem_flg = SEM_UNDO};
    int set[SETS];
    for (int i = 0; i < SETS; i++)
        set[i] = semget(IPC_PRIVATE, 1, 0600);
    for (int n = 0; n < CHILDREN; n++) {
        const pid_t child = fork();
        for (int i = 0; child == 0 && i < SETS; i++)
            semop(set[i], &one, 1);
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < SETS; i++)
        semctl(set[i], 0, IPC_RMID);
}

static void files(void)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    int file[FILES];
    for (int i = 0; i < FILES; i++)
        file[i] = open("/dev/null", O_RDONLY);
    nanosleep(&pause, NULL);
    for (int i = 0; i < FILES; i++)
        close(file[i]);
    nanosleep(&pause, NULL);
}

static APART void touch_two(volatile char *p, int n)
{
    for (int i = 0; i < n; i++, p += 2 * PAGE)
        p[0] = 1, p[PAGE] = 2;
}

static void touch(void)
{
    char *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    touch_two(p, PAGES / 2);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"maps", maps}, {"undo", undo}, {"files", files}, {"touch", touch}};
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run();
            return 0;
        }
    return 2;
}
