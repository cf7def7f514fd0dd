/* half_abort CODE: rank 0 prints the files of shared memory that it uses. Rank 1 aborts the communicator of the
 * odd ranks with that code. Rank 0 then exchanges a message with rank 2, and the even ranks finalize. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line per mapping. */
static void print_shared_memory(void)
{
    char line[512], *name;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof line, maps))
        if ((name = strstr(line, "/dev/shm/")))
            printf("%s", name);
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv)
{
    int rank, value = 4;
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    if (argc != 2) {
        fprintf(stderr, "usage: half_abort CODE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        print_shared_memory();
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Barrier(half);
    if (rank == 1)
        MPI_Abort(half, atoi(argv[1]));
    /* The other odd ranks are aborted here; the even ranks pass the barrier. */
    MPI_Barrier(half);
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 0, half);
    if (rank == 2) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, half, MPI_STATUS_IGNORE);
        printf("rank 2 got %d\n", value);
    }
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
