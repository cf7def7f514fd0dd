/* Each rank prints with how many ranks it shares its cores, its socket and its host, whether Open MPI takes it as
 * bound, and whether it yields the CPU while it waits. With the argument `spawn`, the ranks first spawn a process of
 * this program, which prints the same about its own world. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <string.h>

static int together(int type)
{
    MPI_Comm comm;
    int size;

    MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, MPI_INFO_NULL, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Comm_free(&comm);
    return size;
}

/* Open MPI 4 says nothing about a rank that its launcher has bound. */
static int is_bound(void)
{
    char bound[OMPI_AFFINITY_STRING_MAX], now[OMPI_AFFINITY_STRING_MAX], all[OMPI_AFFINITY_STRING_MAX];

    OMPI_Affinity_str(OMPI_AFFINITY_RSRC_STRING_FMT, bound, now, all);
    return strstr(bound, "not bind") == NULL && strstr(bound, "Not bound") == NULL;
}

static int yields(void)
{
    MPI_T_cvar_handle handle;
    int provided, index, count, value = -1;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_T_cvar_get_index("mpi_yield_when_idle", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        value = 0;
        MPI_T_cvar_read(handle, &value);
    }
    MPI_T_finalize();
    return value;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, child = MPI_COMM_NULL;
    int rank, core, socket, host;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (argc > 1 && strcmp(argv[1], "spawn") == 0)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    core = together(OMPI_COMM_TYPE_CORE);
    socket = together(OMPI_COMM_TYPE_SOCKET);
    host = together(MPI_COMM_TYPE_SHARED);
    printf("rank %d core %d socket %d host %d %s %s\n", rank, core, socket, host, is_bound() ? "bound" : "free",
           yields() ? "yields" : "polls");
    if (child != MPI_COMM_NULL)
        MPI_Comm_disconnect(&child);
    if (parent != MPI_COMM_NULL)
        MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
