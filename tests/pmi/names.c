/* Rank 0 publishes, the last rank looks up, rank 0 unpublishes; then the last rank aborts with the code in
 * the argument, or all finalize. Prints "names ok RANK". */
#include <mpd/pmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int spawned, rank, size;
    char port[1024];
    if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Get_size(&size))
        return 1;
    if (rank == 0 && PMI_Publish_name("a service", "tag#0 port$"))
        return 2;
    if (PMI_Barrier())
        return 3;
    if (rank == size - 1 && (PMI_Lookup_name("a service", port) || strcmp(port, "tag#0 port$")))
        return 4;
    if (PMI_Barrier())
        return 5;
    if (rank == 0 && (PMI_Unpublish_name("a service") || PMI_Lookup_name("a service", port) == 0))
        return 6;
    printf("names ok %d\n", rank);
    fflush(stdout);
    if (argc > 1 && rank == size - 1)
        PMI_Abort(atoi(argv[1]), "out of luck");
    if (argc > 1)
        return PMI_Barrier();
    return PMI_Finalize();
}
