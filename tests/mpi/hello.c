/* Every rank prints its rank and the values from the process manager.
 *
 * A program that was started by hand starts mpiexec when it asks for the universe size;
 * "-no-universe" omits the question. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int attribute(int key)
{
    void *value = NULL;
    int found = 0;

    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found);
    return found && value != NULL ? *(int *) value : -1;
}

int main(int argc, char **argv)
{
    int rank, size, node_size, universe = -1;
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || strcmp(argv[1], "-no-universe") != 0)
        universe = attribute(MPI_UNIVERSE_SIZE);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    printf("rank %d of %d appnum %d universe %d node %d\n", rank, size, attribute(MPI_APPNUM),
           universe, node_size);
    fflush(stdout);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
