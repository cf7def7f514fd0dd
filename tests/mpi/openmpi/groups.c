/* Makes a communicator from a group of an MPI session, without MPI_COMM_WORLD, and adds up the ranks with it. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, sum;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS)
        return 1;
    if (MPI_Group_from_session_pset(session, "mpi://WORLD", &group) != MPI_SUCCESS)
        return 2;
    if (MPI_Comm_create_from_group(group, "mpd.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) != MPI_SUCCESS)
        return 3;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    printf("rank %d of %d, sum %d\n", rank, size, sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return 0;
}
