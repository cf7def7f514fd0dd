/* Counts primes by dividing and conquering: a process with more than one block of the interval spawns one
 * process for each half and adds their counts; with one block it counts itself. 2 * BLOCKS - 1 processes.
 *
 *   primes LIMIT BLOCKS         every process prints "blocks FIRST+COUNT on HOST", the first one "primes COUNT"
 *
 * Children get their part as further arguments: primes LIMIT BLOCKS FIRST COUNT. Waiting processes sleep between
 * polls, so that the CPUs are free for counting processes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long primes_in(unsigned long low, unsigned long high)
{
    unsigned long found = 0;

    for (unsigned long n = low < 2 ? 2 : low; n < high; n++) {
        int is_prime = 1;
        for (unsigned long d = 2; d * d <= n && is_prime; d++)
            is_prime = n % d != 0;
        found += is_prime;
    }
    return found;
}

static void wait_for(MPI_Comm both)
{
    int there = 0;

    for (;;) {
        MPI_Iprobe(0, 0, both, &there, MPI_STATUS_IGNORE);
        if (there)
            return;
        usleep(10000);
    }
}

/* The sum of the counts of two processes, one for each half of these blocks. */
static unsigned long halves(char **argv, int first, int count)
{
    MPI_Comm children[2];
    unsigned long sum = 0;
    int left = count / 2;
    int parts[2][2] = { { first, left }, { first + left, count - left } };

    for (int i = 0; i < 2; i++) {
        char low[16], many[16];
        char *arguments[] = { argv[1], argv[2], low, many, NULL };
        snprintf(low, sizeof low, "%d", parts[i][0]);
        snprintf(many, sizeof many, "%d", parts[i][1]);
        MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[i],
                       MPI_ERRCODES_IGNORE);
    }
    for (int i = 0; i < 2; i++) {
        unsigned long part;
        wait_for(children[i]);
        MPI_Recv(&part, 1, MPI_UNSIGNED_LONG, 0, 0, children[i], MPI_STATUS_IGNORE);
        sum += part;
        MPI_Comm_disconnect(&children[i]);
    }
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    const char *host = getenv("PMI_HOSTNAME");
    unsigned long limit, sum;
    int blocks, first, count;

    MPI_Init(&argc, &argv);
    if (argc < 3 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: primes LIMIT BLOCKS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    limit = strtoul(argv[1], NULL, 10);
    blocks = atoi(argv[2]);
    first = argc > 3 ? atoi(argv[3]) : 0;
    count = argc > 4 ? atoi(argv[4]) : blocks;
    printf("blocks %d+%d on %s\n", first, count, host ? host : "?");
    fflush(stdout);
    if (count > 1)
        sum = halves(argv, first, count);
    else
        sum = primes_in(limit * first / blocks, limit * (first + 1) / blocks);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Send(&sum, 1, MPI_UNSIGNED_LONG, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
    } else {
        printf("primes %lu\n", sum);
    }
    MPI_Finalize();
    return 0;
}
