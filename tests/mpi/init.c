/* MPI_Init and MPI_Finalize alone. Each rank prints the microseconds of the host's monotonic clock at the start of
 * the one and at the end of the other. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static long long microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    long long begin = microseconds();

    MPI_Init(&argc, &argv);
    MPI_Finalize();
    printf("%lld %lld\n", begin, microseconds());
    return 0;
}
