/* Without an argument, a deadlock: rank 0 waits for a message that no rank sends, the others at a barrier.
   With "crash" rank 1 crashes instead. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Functions of their own, so that a debugger sees the calls. */
int wait_for_word(int rank);
int meet(void);
int broken(const volatile int *nowhere);

__attribute__((noinline)) int wait_for_word(int rank) {
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return word;
}

__attribute__((noinline)) int meet(void) {
    int result = MPI_Barrier(MPI_COMM_WORLD);
    return result == MPI_SUCCESS ? 0 : 1;
}

__attribute__((noinline)) int broken(const volatile int *nowhere) {
    return *nowhere;
}

int main(int argc, char **argv) {
    int rank, result = 0;
    alarm(120);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    meet();
    if (rank == 0) {
        printf("all are there\n");
        fflush(stdout);
    }
    if (argc > 1 && !strcmp(argv[1], "crash") && rank == 1)
        result = broken(NULL);
    else if (rank == 0)
        result = wait_for_word(1);
    else
        result = meet();
    MPI_Finalize();
    return result;
}
