/* pi as the integral of 4 / (1 + x * x) from 0 to 1, by the midpoint rule.
 *
 *     cpi [INTERVALS]
 *
 * Rank 0 reads the number of intervals and tells the others; rank r takes the intervals r, r + N,
 * r + 2N ...; rank 0 adds the parts up. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

static double part(long long intervals, int rank, int size)
{
    double width = 1.0 / (double) intervals, sum = 0.0;

    for (long long i = rank; i < intervals; i += size) {
        double x = ((double) i + 0.5) * width;

        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

int main(int argc, char **argv)
{
    int rank, size, length;
    long long intervals = 1000000;
    double mine, pi = 0.0, begin;
    char host[MPI_MAX_PROCESSOR_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    printf("process %d of %d on %s\n", rank, size, host);
    fflush(stdout);

    if (rank == 0 && argc > 1)
        intervals = atoll(argv[1]);
    begin = MPI_Wtime();
    MPI_Bcast(&intervals, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    if (intervals < 1) {
        if (rank == 0)
            fprintf(stderr, "cpi: the number of intervals must be positive\n");
        MPI_Finalize();
        return 2;
    }
    mine = part(intervals, rank, size);
    MPI_Reduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pi is approximately %.16f, error %.1e, %lld intervals, %.3f s\n", pi, fabs(pi - PI),
               intervals, MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
