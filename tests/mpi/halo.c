/* Steps of a stencil on a periodic grid of two dimensions, whose tiles exchange their edges after each step.
 *
 *     halo [STEPS]
 *
 * Rank 0 computes the whole grid as well and compares: it prints "halo ok N ROWSxCOLUMNS SUM". A wrong sum of
 * any tile ends all ranks with 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cells of a tile in each dimension. */
#define TILE 24
#define WIDE (TILE + 2)
#define PRIME 1000003u

static unsigned start(int row, int column)
{
    return ((unsigned) row * 7919u + (unsigned) column * 104729u + 1u) % PRIME;
}

static unsigned next(unsigned self, unsigned up, unsigned down, unsigned left, unsigned right)
{
    return (2u * self + 3u * up + 5u * down + 7u * left + 11u * right) % PRIME;
}

/* The edges of a tile go to its four neighbours, and theirs come into its border. */
static void exchange(unsigned tile[WIDE][WIDE], MPI_Comm grid, MPI_Datatype column)
{
    int up, down, left, right;

    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    MPI_Sendrecv(&tile[1][1], TILE, MPI_UNSIGNED, up, 1, &tile[TILE + 1][1], TILE, MPI_UNSIGNED, down, 1,
                 grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&tile[TILE][1], TILE, MPI_UNSIGNED, down, 2, &tile[0][1], TILE, MPI_UNSIGNED, up, 2, grid,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&tile[1][1], 1, column, left, 3, &tile[1][TILE + 1], 1, column, right, 3, grid,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&tile[1][TILE], 1, column, right, 4, &tile[1][0], 1, column, left, 4, grid,
                 MPI_STATUS_IGNORE);
}

static void step(unsigned tile[WIDE][WIDE])
{
    static unsigned old[WIDE][WIDE];

    memcpy(old, tile, sizeof old);
    for (int r = 1; r <= TILE; r++)
        for (int c = 1; c <= TILE; c++)
            tile[r][c] = next(old[r][c], old[r - 1][c], old[r + 1][c], old[r][c - 1], old[r][c + 1]);
}

/* The sum over one tile, in which the place of each cell counts. */
static unsigned long long sum(const unsigned *first, int stride)
{
    unsigned long long total = 0;

    for (int r = 0; r < TILE; r++)
        for (int c = 0; c < TILE; c++)
            total += (unsigned long long) first[r * stride + c] * (unsigned) (r * TILE + c + 1);
    return total;
}

/* The whole grid, computed by one process. */
static unsigned *whole(int rows, int columns, int steps)
{
    size_t size = (size_t) rows * (size_t) columns * sizeof(unsigned);
    unsigned *now = malloc(size), *old = malloc(size);

    if (now == NULL || old == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            now[r * columns + c] = start(r, c);
    for (int s = 0; s < steps; s++) {
        memcpy(old, now, size);
        for (int r = 0; r < rows; r++) {
            const unsigned *up = old + (r + rows - 1) % rows * columns, *here = old + r * columns;
            const unsigned *down = old + (r + 1) % rows * columns;

            for (int c = 0; c < columns; c++)
                now[r * columns + c] = next(here[c], up[c], down[c], here[(c + columns - 1) % columns],
                                            here[(c + 1) % columns]);
        }
    }
    free(old);
    return now;
}

int main(int argc, char **argv)
{
    static unsigned tile[WIDE][WIDE];
    int rank, size, steps, wrong = 0, extent[2] = { 0, 0 }, place[2], periodic[2] = { 1, 1 };
    unsigned long long mine, total = 0, *sums = NULL;
    MPI_Comm grid;
    MPI_Datatype column;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    steps = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Dims_create(size, 2, extent);
    MPI_Cart_create(MPI_COMM_WORLD, 2, extent, periodic, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, place);
    MPI_Type_vector(TILE, 1, WIDE, MPI_UNSIGNED, &column);
    MPI_Type_commit(&column);
    for (int r = 0; r < TILE; r++)
        for (int c = 0; c < TILE; c++)
            tile[r + 1][c + 1] = start(place[0] * TILE + r, place[1] * TILE + c);
    for (int s = 0; s < steps; s++) {
        exchange(tile, grid, column);
        step(tile);
    }
    mine = sum(&tile[1][1], WIDE);
    if (rank == 0 && (sums = malloc((size_t) size * sizeof *sums)) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Gather(&mine, 1, MPI_UNSIGNED_LONG_LONG, sums, 1, MPI_UNSIGNED_LONG_LONG, 0, grid);
    if (rank == 0) {
        int rows = extent[0] * TILE, columns = extent[1] * TILE;
        unsigned *expected = whole(rows, columns, steps);

        for (int r = 0; r < size; r++) {
            MPI_Cart_coords(grid, r, 2, place);
            if (sums[r] != sum(expected + place[0] * TILE * columns + place[1] * TILE, columns)) {
                fprintf(stderr, "halo: the tile of rank %d has a wrong sum\n", r);
                wrong = 1;
            }
            total += sums[r];
        }
        if (!wrong)
            printf("halo ok %d %dx%d %llu\n", size, rows, columns, total);
        free(expected);
        free(sums);
    }
    MPI_Bcast(&wrong, 1, MPI_INT, 0, grid);
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return wrong;
}
