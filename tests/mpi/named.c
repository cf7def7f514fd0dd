/* "named NAME": asks for the universe size, for which MPICH starts mpirun if the program was started alone;
 * publishes a port under that name, looks it up, unpublishes it, and prints "named: ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    int *universe, there;

    MPI_Init(&argc, &argv);
    if (argc != 2) {
        fprintf(stderr, "usage: named NAME\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &there);
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(argv[1], MPI_INFO_NULL, port);
    MPI_Lookup_name(argv[1], MPI_INFO_NULL, found);
    MPI_Unpublish_name(argv[1], MPI_INFO_NULL, port);
    MPI_Close_port(port);
    printf("named: %s\n", strcmp(port, found) == 0 ? "ok" : found);
    MPI_Finalize();
    return 0;
}
