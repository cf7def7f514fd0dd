/* exit_after RANK CODE: all ranks finalize, then that rank exits with that code and the others
 * with 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: exit_after RANK CODE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    return rank == atoi(argv[1]) ? atoi(argv[2]) : 0;
}
