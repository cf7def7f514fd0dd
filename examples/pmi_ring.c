/* Neighbours by PMI-1: each rank tells where it is and reads the word of the rank behind it. */
#include <mpd/pmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(int code, const char *what) {
    if (code == PMI_SUCCESS)
        return;
    fprintf(stderr, "%s failed with %d\n", what, code);
    exit(1);
}

int main(void) {
    int spawned, rank, size, here, right;
    char space[256], host[64] = "", key[64], address[128], neighbour[128];

    must(PMI_Init(&spawned), "PMI_Init");
    must(PMI_Get_rank(&rank), "PMI_Get_rank");
    must(PMI_Get_size(&size), "PMI_Get_size");
    must(PMI_Get_clique_size(&here), "PMI_Get_clique_size");
    must(PMI_KVS_Get_my_name(space, sizeof space), "PMI_KVS_Get_my_name");

    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, "address-%d", rank);
    snprintf(address, sizeof address, "%s:%d", host, (int)getpid());
    must(PMI_KVS_Put(space, key, address), "PMI_KVS_Put");
    must(PMI_KVS_Commit(space), "PMI_KVS_Commit");
    must(PMI_Barrier(), "PMI_Barrier");

    right = (rank + 1) % size;
    snprintf(key, sizeof key, "address-%d", right);
    must(PMI_KVS_Get(space, key, neighbour, sizeof neighbour), "PMI_KVS_Get");
    printf("rank %d of %d, %d on this node; rank %d is at %s\n", rank, size, here, right, neighbour);
    must(PMI_Finalize(), "PMI_Finalize");
    return 0;
}
