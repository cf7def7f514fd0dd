/* Rank 0 publishes a name with a blank in it and tries every error: each line is the class of an error, or
 * "ok". The last rank looks the name up while it is published. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void report(const char *what, int error)
{
    int class;
    const char *name;

    MPI_Error_class(error, &class);
    if (class == MPI_SUCCESS)
        name = "ok";
    else if (class == MPI_ERR_NAME)
        name = "MPI_ERR_NAME";
    else if (class == MPI_ERR_SERVICE)
        name = "MPI_ERR_SERVICE";
    else
        name = "another error";
    printf("names: %s: %s\n", what, name);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *name = "a fine place", *given = "tag#0$of=nobody$";
    char port[MPI_MAX_PORT_NAME] = "";
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        report("lookup before", MPI_Lookup_name(name, MPI_INFO_NULL, port));
        report("publish", MPI_Publish_name(name, MPI_INFO_NULL, given));
        report("publish again", MPI_Publish_name(name, MPI_INFO_NULL, given));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        report("lookup", MPI_Lookup_name(name, MPI_INFO_NULL, port));
        printf("names: found %s\n", strcmp(port, given) == 0 ? "what was published" : port);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        report("unpublish", MPI_Unpublish_name(name, MPI_INFO_NULL, given));
        report("unpublish again", MPI_Unpublish_name(name, MPI_INFO_NULL, given));
        report("lookup after", MPI_Lookup_name(name, MPI_INFO_NULL, port));
    }
    MPI_Finalize();
    return 0;
}
