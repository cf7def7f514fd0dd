/* A recursive tree of processes, one for each call: fib(n) spawns fib(n-1) and fib(n-2), one by one, waits for
 * both results and sends their sum to its own parent. 1 + C(n-1) + C(n-2) processes: 25 for n = 6, 753 for 13.
 *
 *   fib N           every process prints "fib(n) on HOST", the first one "sum SUM" at its end
 *
 * Waiting processes sleep between polls, so that the CPUs are free for working processes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int main(int argc, char **argv)
{
    MPI_Comm parent, children[2];
    const char *host = getenv("PMI_HOSTNAME");
    unsigned long sum;
    int n;

    MPI_Init(&argc, &argv);
    n = argc > 1 ? atoi(argv[1]) : 6;
    sum = n;
    printf("fib(%d) on %s\n", n, host ? host : "?");
    fflush(stdout);
    if (n >= 2) {
        sum = 0;
        for (int i = 0; i < 2; i++) {
            char text[16];
            char *arguments[] = { text, NULL };
            snprintf(text, sizeof text, "%d", n - 1 - i);
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
    }
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Send(&sum, 1, MPI_UNSIGNED_LONG, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
    } else {
        printf("sum %lu\n", sum);
    }
    MPI_Finalize();
    return 0;
}
