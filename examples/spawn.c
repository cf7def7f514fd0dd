/* Processes that start others: a parent spawns children of this program, merges both groups into one
 * communicator, and all of them say hello in rank order.
 *
 *     python3 -m venv mpich5 && mpich5/bin/pip install mpich==5.0.2
 *     mpich5/bin/mpicc -o spawn examples/spawn.c
 *     MPIR_CVAR_CH4_NETMOD=ofi mpirun -np 1 ./spawn 3
 *
 * The argument is the number of children, 2 if there is none. Debian's MPICH 4 cannot spawn. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE 200

int main(int argc, char **argv)
{
    MPI_Comm between, all;
    char host[MPI_MAX_PROCESSOR_NAME], line[LINE];
    int rank, size, length;
    int children = argc > 1 ? atoi(argv[1]) : 2;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&between);
    const int is_child = between != MPI_COMM_NULL;
    if (!is_child) {
        if (children < 1) {
            fprintf(stderr, "usage: spawn [CHILDREN]\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                       MPI_ERRCODES_IGNORE);
    }

    /* The parents come first in the common order. */
    MPI_Intercomm_merge(between, is_child, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Get_processor_name(host, &length);
    snprintf(line, sizeof line, "hello from rank %d of %d, a %s on %.100s", rank, size,
             is_child ? "child" : "parent", host);

    /* Lines of different ranks can overtake each other on the way, so rank 0 prints all of them. */
    if (rank == 0) {
        puts(line);
        for (int from = 1; from < size; from++) {
            MPI_Recv(line, LINE, MPI_CHAR, from, 0, all, MPI_STATUS_IGNORE);
            puts(line);
        }
    } else {
        MPI_Send(line, LINE, MPI_CHAR, 0, 0, all);
    }

    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    MPI_Finalize();
    return 0;
}
