/* Rank 1 kills itself. The others revoke the world, shrink it, agree, and count themselves. */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, one = 1, sum = 0, agreed = 1;
    MPI_Comm rest;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    if (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS)
        printf("rank %d: the barrier succeeded\n", rank);
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &rest);
    MPIX_Comm_agree(rest, &agreed);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest);
    printf("rank %d: %d are left\n", rank, sum);
    MPI_Comm_free(&rest);
    MPI_Finalize();
    return 0;
}
