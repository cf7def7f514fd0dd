/* Neighbours by PMI-2. On one node rank 0 also gives the others a word, which they wait for
 * without a fence. */
#include <mpd/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(int code, const char *what) {
    if (code == PMI2_SUCCESS)
        return;
    fprintf(stderr, "%s failed with %d\n", what, code);
    exit(1);
}

int main(void) {
    int spawned, size, rank, appnum, here, right, length, found;
    char job[256], host[64] = "", key[64], word[128], address[128], neighbour[128];

    must(PMI2_Init(&spawned, &size, &rank, &appnum), "PMI2_Init");
    must(PMI2_Job_GetId(job, sizeof job), "PMI2_Job_GetId");
    must(PMI2_Info_GetSize(&here), "PMI2_Info_GetSize");

    if (rank == 0)
        must(PMI2_Info_PutNodeAttr("word", "sesame"), "PMI2_Info_PutNodeAttr");
    if (here == size) {
        must(PMI2_Info_GetNodeAttr("word", word, sizeof word, &found, 1), "PMI2_Info_GetNodeAttr");
        if (!found)
            return 1;
    }

    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, "address-%d", rank);
    snprintf(address, sizeof address, "%s:%d", host, (int)getpid());
    must(PMI2_KVS_Put(key, address), "PMI2_KVS_Put");
    must(PMI2_KVS_Fence(), "PMI2_KVS_Fence");

    right = (rank + 1) % size;
    snprintf(key, sizeof key, "address-%d", right);
    must(PMI2_KVS_Get(job, PMI2_ID_NULL, key, neighbour, sizeof neighbour, &length),
         "PMI2_KVS_Get");
    printf("rank %d of %d, %d on this node; rank %d is at %s\n", rank, size, here, right, neighbour);
    must(PMI2_Finalize(), "PMI2_Finalize");
    return 0;
}
