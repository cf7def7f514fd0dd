/* nofinalize RANK CODE: that rank exits with that code and without MPI_Finalize. A negative code is the number of
 * a signal that kills it instead. The others wait in a barrier that never completes. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: nofinalize RANK CODE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == atoi(argv[1])) {
        if (atoi(argv[2]) < 0)
            raise(-atoi(argv[2]));
        exit(atoi(argv[2]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
