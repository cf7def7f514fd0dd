/* Dynamic processes. As a parent, with all ranks together:
 *
 *   spawn one N [KEY=VALUE]...      N of this program; all ranks of both worlds are counted
 *   spawn two                       one of this program with unusual arguments, and two with others
 *   spawn missing                   a missing program; each rank prints whether that is an error
 *   spawn half                      one of this program and two of a missing one; the same
 *   spawn nested DEPTH              each generation spawns the next one
 *   spawn again N                   N processes, one after the other, and prints how many it has spawned; N more for
 *                                   each line of standard input. One rank
 *
 * A child whose first argument is "args" prints its arguments and the variable SPAWN_TEST. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* All ranks of both worlds are counted; then the worlds disconnect. */
static int together(MPI_Comm both, int high)
{
    MPI_Comm merged;
    int one = 1, sum = 0;

    MPI_Intercomm_merge(both, high, &merged);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&both);
    return sum;
}

static int appnum(void)
{
    int *number, there;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &there);
    return there ? *number : -1;
}

static void nested(const char *program, int depth)
{
    char text[16];
    char *arguments[] = { "nested", text, NULL };
    MPI_Comm both;

    snprintf(text, sizeof text, "%d", depth);
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both, MPI_ERRCODES_IGNORE);
    printf("spawn: depth %d: %d together\n", depth, together(both, 0));
}

static void again(const char *program, int count)
{
    char line[16];
    int spawned = 0;

    do {
        for (int i = 0; i < count; i++, spawned++) {
            MPI_Comm both;
            MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both, MPI_ERRCODES_IGNORE);
            together(both, 0);
        }
        printf("spawned %d\n", spawned);
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
}

static void child(int argc, char **argv, MPI_Comm parent)
{
    const char *value = getenv("SPAWN_TEST");
    char directory[4096];

    if (argc > 1 && strcmp(argv[1], "args") == 0) {
        printf("child %d of %d appnum %d in %s:", rank, size, appnum(),
               getcwd(directory, sizeof directory) ? directory : "?");
        for (int i = 1; i < argc; i++)
            printf(" [%s]", argv[i]);
        printf(" %s\n", value ? value : "-");
    }
    fflush(stdout);
    together(parent, 1);
    if (argc > 2 && strcmp(argv[1], "nested") == 0 && atoi(argv[2]) > 1)
        nested(argv[0], atoi(argv[2]) - 1);
}

static void one(int argc, char **argv)
{
    char *arguments[] = { "args", NULL };
    MPI_Info info;
    MPI_Comm both;

    MPI_Info_create(&info);
    for (int i = 3; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        *value = '\0';
        MPI_Info_set(info, argv[i], value + 1);
    }
    MPI_Comm_spawn(argv[0], arguments, atoi(argv[2]), info, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&info);
    int sum = together(both, 0);
    if (rank == 0)
        printf("spawn: %d together\n", sum);
}

static void two(char **argv)
{
    char *awkward[] = { "args", "a b", "", "x=y", "\"q\"", "back\\slash", NULL };
    char *others[] = { "args", "second", NULL };
    char *programs[] = { argv[0], argv[0] };
    char **arguments[] = { awkward, others };
    int counts[] = { 1, 2 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    int errors[3] = { -1, -1, -1 };
    MPI_Comm both;

    MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, &both, errors);
    int sum = together(both, 0);
    if (rank == 0)
        printf("spawn: %d together, errors %d %d %d\n", sum, errors[0], errors[1], errors[2]);
}

static void missing(void)
{
    int errors[2] = { 0, 0 };
    MPI_Comm both = MPI_COMM_NULL;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both,
                               errors);
    printf("spawn: rank %d: %s\n", rank, error == MPI_SUCCESS ? "no error" : "an error");
}

static void half(const char *program)
{
    char name[4096];
    char *programs[] = { name, "./no-such-program" };
    int counts[] = { 1, 2 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    int errors[3] = { 0, 0, 0 };
    MPI_Comm both = MPI_COMM_NULL;

    snprintf(name, sizeof name, "%s", program);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Comm_spawn_multiple(2, programs, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, &both,
                                        errors);
    printf("spawn: rank %d: %s\n", rank, error == MPI_SUCCESS ? "no error" : "an error");
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        child(argc, argv, parent);
    else if (argc > 2 && strcmp(argv[1], "one") == 0)
        one(argc, argv);
    else if (argc == 2 && strcmp(argv[1], "two") == 0)
        two(argv);
    else if (argc == 2 && strcmp(argv[1], "missing") == 0)
        missing();
    else if (argc == 2 && strcmp(argv[1], "half") == 0)
        half(argv[0]);
    else if (argc == 3 && strcmp(argv[1], "nested") == 0)
        nested(argv[0], atoi(argv[2]));
    else if (argc == 3 && strcmp(argv[1], "again") == 0)
        again(argv[0], atoi(argv[2]));
    else {
        fprintf(stderr, "usage: spawn one N [KEY=VALUE]... | two | missing | half | nested DEPTH | again N\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
