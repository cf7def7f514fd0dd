/* Two separately started programs connect: "publish NAME" opens a port, publishes it under that name, and
 * accepts; "lookup NAME" repeats its lookup until it finds the port, and connects. Both count all ranks of both
 * programs, print "meet: N together", and disconnect. The publisher unpublishes the name. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, one = 1, sum = 0, publishes;
    MPI_Comm both, merged;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) {
        fprintf(stderr, "usage: meet publish|lookup NAME\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    publishes = strcmp(argv[1], "publish") == 0;
    if (rank == 0 && publishes) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(argv[2], MPI_INFO_NULL, port);
    } else if (rank == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        for (int tries = 0; MPI_Lookup_name(argv[2], MPI_INFO_NULL, port) != MPI_SUCCESS; tries++) {
            if (tries == 600) {
                fprintf(stderr, "meet: nobody has published %s\n", argv[2]);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
            usleep(50 * 1000);
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    }
    if (publishes)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both);
    MPI_Intercomm_merge(both, !publishes, &merged);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
    if (rank == 0)
        printf("meet: %d together\n", sum);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&both);
    if (rank == 0 && publishes) {
        MPI_Unpublish_name(argv[2], MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    MPI_Finalize();
    return 0;
}
