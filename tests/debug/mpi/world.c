/* An MPI program for debuggers; the first argument selects its further behaviour. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int goes_on = 1;
static volatile long turns;

static int work(int round) {
    int twice = round * 2;
    return twice;
}

static void stand_out(int rank) {
    printf("rank %d is special\n", rank);
}

static void flood(void) {
    for (int i = 0; i < 100000; i++)
        printf("line %d\n", i);
}

static void echo(int rank) {
    char line[256];
    while (fgets(line, sizeof line, stdin))
        printf("rank %d read %s", rank, line);
}

static void spawn(char *program) {
    char *words[] = {"hello", NULL};
    MPI_Comm children;
    MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    /* A parent that ended earlier would remove the memory through which its children connect. */
    MPI_Barrier(children);
    MPI_Comm_disconnect(&children);
}

/* hello: a spawned rank. */
static void meet_parent(int rank) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    printf("spawned %d\n", rank);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int chosen = argc > 2 ? atoi(argv[2]) : -1;
    int rank = 0, size = 0, sum = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(300);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sum = work(rank);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d of %d ranks\n", sum, size);
    if (!strcmp(what, "flood"))
        flood();
    else if (!strcmp(what, "echo"))
        echo(rank);
    else if (!strcmp(what, "spawn"))
        spawn(argv[0]);
    else if (!strcmp(what, "hello"))
        meet_parent(rank);
    else if (rank != chosen)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(what, "crash"))
        *(volatile int *)(long)chosen = 1;
    else if (!strcmp(what, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (!strcmp(what, "loop")) {
        while (goes_on)
            turns++;
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(what, "special")) {
        stand_out(rank);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return strcmp(what, "exit") ? 0 : 3;
}
