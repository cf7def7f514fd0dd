/* Pairs of ranks that talk through shared memory of their own:
 *
 *     cc -O2 -o pairs examples/pairs.c
 *     mpirun -np 4 -g 2 ./pairs
 *
 * MPD_GROUP_DIR is a directory in memory that the ranks of a group share and that nobody but their user can enter:
 * a file in it is memory for the group alone. Nothing is removed here: mpirun does that at the end.
 *
 * A program that needs a System V segment takes MPD_GROUP_IPC_KEY as its key. That number is public as soon as the
 * segment exists, so its mode closes it to others. */

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

struct mailbox {
    atomic_int full;
    int rank;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "pairs: no %s; run it by mpirun -g 2\n", name);
        exit(1);
    }
    return value;
}

/* A file: the first rank makes it, and all bytes of a new one are 0. */
static struct mailbox *by_directory(const char *directory, size_t size)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/mailboxes", directory);
    if (length < 0 || (size_t)length >= sizeof path) {
        fprintf(stderr, "pairs: MPD_GROUP_DIR is too long\n");
        exit(1);
    }
    int fd = open(path, O_CREAT | O_RDWR | O_NOFOLLOW, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        fail(path);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail(path);
    close(fd);
    return at;
}

/* A System V segment. */
static struct mailbox *by_number(const char *key, size_t size)
{
    int id = shmget((key_t)strtol(key, NULL, 10), size, IPC_CREAT | 0600);
    if (id < 0)
        fail("shmget");
    void *at = shmat(id, NULL, 0);
    if (at == (void *)-1)
        fail("shmat");
    return at;
}

/* Each rank of the group fills the mailbox of its number and reads that of the next. */
static int exchange(struct mailbox *boxes, int me, int size, int word)
{
    boxes[me].rank = word;
    atomic_store(&boxes[me].full, 1);
    struct mailbox *next = &boxes[(me + 1) % size];
    while (!atomic_load(&next->full))
        sched_yield();
    return next->rank;
}

int main(void)
{
    int size = atoi(variable("MPD_GROUP_SIZE"));
    int me = atoi(variable("MPD_GROUP_RANK"));
    int rank = atoi(variable("PMI_RANK"));
    size_t bytes = (size_t)size * sizeof(struct mailbox);
    int first = exchange(by_directory(variable("MPD_GROUP_DIR"), bytes), me, size, rank);
    int second = exchange(by_number(variable("MPD_GROUP_IPC_KEY"), bytes), me, size, rank);
    if (first != second)
        return 1;
    printf("rank %d is %d of %d and met rank %d\n", rank, me, size, first);
    return 0;
}
