/* Sums vectors of several lengths over all ranks and compares each element with the expected
 * sum. Rank 0 prints "allreduce ok N"; a wrong element ends its rank with 1.
 * An argument is the number of repetitions. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const int lengths[] = { 1, 7, 1000, 65537 };
    int rank, size, rounds, wrong = 0, wrong_anywhere = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (size_t l = 0; l < rounds * (sizeof lengths / sizeof *lengths); l++) {
        int length = lengths[l % (sizeof lengths / sizeof *lengths)];
        long long *mine = malloc((size_t) length * sizeof *mine);
        long long *sum = malloc((size_t) length * sizeof *sum);

        if (mine == NULL || sum == NULL) {
            fprintf(stderr, "allreduce: rank %d: no memory for %d elements\n", rank, length);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        for (int i = 0; i < length; i++)
            mine[i] = (long long) (rank + 1) * (i + 1);
        MPI_Allreduce(mine, sum, length, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < length; i++) {
            long long expected = (long long) size * (size + 1) / 2 * (i + 1);

            if (sum[i] != expected) {
                fprintf(stderr, "allreduce: rank %d: element %d of %d is %lld, not %lld\n", rank, i,
                        length, sum[i], expected);
                wrong = 1;
                break;
            }
        }
        free(mine);
        free(sum);
    }
    MPI_Reduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && !wrong_anywhere)
        printf("allreduce ok %d\n", size);
    MPI_Finalize();
    return wrong;
}
