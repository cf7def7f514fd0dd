/* A process spawns another one, which aborts with 9 after a second.
 *
 *   apart parted      both disconnect before
 *   apart together    they do not
 *
 * The first process prints "alive" two seconds after the other one has ended, unless it is ended too. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, both;
    int parts;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (argc < 2) {
        fprintf(stderr, "usage: apart parted|together\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    parts = strcmp(argv[1], "parted") == 0;
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
        if (parts)
            MPI_Comm_disconnect(&both);
        sleep(3);
        printf("alive\n");
        fflush(stdout);
        /* The other process no longer answers. */
        if (!parts)
            _exit(0);
        MPI_Finalize();
        return 0;
    }
    if (parts)
        MPI_Comm_disconnect(&parent);
    sleep(1);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 0;
}
