/* Pairs of ranks that talk through shared memory of their own:
 *
 *     cc -O2 -o pairs examples/pairs.c
 *     mpirun -np 4 -g 2 ./pairs
 *
 * MPD_GROUP_KEY is the same for the ranks of a group and for nobody else: as it is, a name for
 * shm_open; its digits, a key for shmget. Nothing is removed here: mpirun does that at the end. */

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

/* POSIX: whoever comes first makes the object, and all bytes of a new one are 0. */
static struct mailbox *by_name(const char *key, size_t size)
{
    int fd = shm_open(key, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        fail(key);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail(key);
    close(fd);
    return at;
}

/* System V: the number behind the dash. */
static struct mailbox *by_number(const char *key, size_t size)
{
    key_t number = (key_t)strtol(key + sizeof "/mpd-" - 1, NULL, 16);
    int id = shmget(number, size, IPC_CREAT | 0600);
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
    const char *key = variable("MPD_GROUP_KEY");
    int size = atoi(variable("MPD_GROUP_SIZE"));
    int me = atoi(variable("MPD_GROUP_RANK"));
    int rank = atoi(variable("PMI_RANK"));
    size_t bytes = (size_t)size * sizeof(struct mailbox);
    int first = exchange(by_name(key, bytes), me, size, rank);
    int second = exchange(by_number(key, bytes), me, size, rank);
    if (first != second)
        return 1;
    printf("rank %d is %d of %d and met rank %d\n", rank, me, size, first);
    return 0;
}
