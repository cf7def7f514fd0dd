/* Every rank leaves a child behind that holds all its descriptors (stdout, stderr, the connection
 * to the process manager) for three seconds; the rank itself finalizes and ends at once. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    pid_t child;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    child = fork();
    if (child < 0) {
        perror("grandchild: fork");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (child == 0) {
        sleep(3);
        _exit(0);
    }
    printf("rank %d left child %ld\n", rank, (long) child);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
