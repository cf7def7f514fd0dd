/* PMI-2 through Slurm's libpmi2, without MPI: each call once, with its expected result. Prints "pmi2 ok RANK
 * of SIZE", or the error and aborts. Not for mpicc: see scripts/prepare-test-env. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "pmi2: rank %d: line %d: %s\n", rank, __LINE__, #condition); \
            PMI2_Abort(1, "a check failed");                                      \
            _exit(9);                                                             \
        }                                                                         \
    } while (0)

static void put_fence_get(const char *jobid, int round)
{
    char key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN], wanted[PMI2_MAX_VALLEN];
    int length, other;

    snprintf(key, sizeof key, "key-%d-%d", round, rank);
    snprintf(value, sizeof value, "value = of %d; in %d;", rank, round);
    CHECK(PMI2_KVS_Put(key, value) == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    for (other = 0; other < size; other++) {
        snprintf(key, sizeof key, "key-%d-%d", round, other);
        snprintf(wanted, sizeof wanted, "value = of %d; in %d;", other, round);
        CHECK(PMI2_KVS_Get(jobid, PMI2_ID_NULL, key, value, sizeof value, &length) == PMI2_SUCCESS);
        CHECK(strcmp(value, wanted) == 0 && length == (int)strlen(wanted));
    }
    CHECK(PMI2_KVS_Get(jobid, PMI2_ID_NULL, "nobody-put-this", value, sizeof value, &length) != PMI2_SUCCESS
          || length <= 0);
}

static void node_attributes(void)
{
    char value[PMI2_MAX_ATTRVALUE] = "";
    int found = 1;

    CHECK(PMI2_Info_GetNodeAttr("nobody-put-this", value, sizeof value, &found, 0) == PMI2_SUCCESS);
    CHECK(!found);
    if (rank == size - 1) {
        /* The other ranks wait now, or soon. */
        usleep(100 * 1000);
        CHECK(PMI2_Info_PutNodeAttr("from-the-last", "a = b") == PMI2_SUCCESS);
    }
    CHECK(PMI2_Info_GetNodeAttr("from-the-last", value, sizeof value, &found, 1) == PMI2_SUCCESS);
    CHECK(found && strcmp(value, "a = b") == 0);
}

static void job_attributes(void)
{
    char value[PMI2_MAX_ATTRVALUE] = "", wanted[64];
    int found = 0;

    snprintf(wanted, sizeof wanted, "(vector,(0,1,%d))", size);
    CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS);
    CHECK(found && strcmp(value, wanted) == 0);
    CHECK(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found) == PMI2_SUCCESS);
    CHECK(found);
    CHECK(PMI2_Info_GetJobAttr("no-such-thing", value, sizeof value, &found) == PMI2_SUCCESS);
    CHECK(!found);
}

static void names(const char *jobid)
{
    char name[512], port[256] = "";

    snprintf(name, sizeof name, "a service of %s", jobid);
    if (rank == 0)
        CHECK(PMI2_Nameserv_publish(name, NULL, "tag#0$port = 1$") == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_lookup(name, NULL, port, sizeof port) == PMI2_SUCCESS);
    CHECK(strcmp(port, "tag#0$port = 1$") == 0);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    if (rank == 0) {
        CHECK(PMI2_Nameserv_unpublish(name, NULL) == PMI2_SUCCESS);
        CHECK(PMI2_Nameserv_lookup(name, NULL, port, sizeof port) != PMI2_SUCCESS);
    }
}

static void ring(void)
{
    char given[64], left[PMI2_MAX_VALLEN], right[PMI2_MAX_VALLEN], wanted[64];
    int place = -1, count = 0;

    snprintf(given, sizeof given, "card of %d", rank);
    CHECK(PMIX_Ring(given, &place, &count, left, right, sizeof left) == PMI2_SUCCESS);
    CHECK(place == rank && count == size);
    snprintf(wanted, sizeof wanted, "card of %d", (rank + size - 1) % size);
    CHECK(strcmp(left, wanted) == 0);
    snprintf(wanted, sizeof wanted, "card of %d", (rank + 1) % size);
    CHECK(strcmp(right, wanted) == 0);
}

int main(void)
{
    char jobid[256] = "";
    int spawned = -1, appnum = -1, same;

    CHECK(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS);
    CHECK(!spawned && appnum == 0);
    CHECK(PMI2_Job_GetRank(&same) == PMI2_SUCCESS && same == rank);
    CHECK(PMI2_Job_GetId(jobid, sizeof jobid) == PMI2_SUCCESS && jobid[0] != '\0');
    put_fence_get(jobid, 1);
    put_fence_get(jobid, 2);
    node_attributes();
    job_attributes();
    names(jobid);
    ring();
    CHECK(PMI2_Finalize() == PMI2_SUCCESS);
    printf("pmi2 ok %d of %d\n", rank, size);
    return 0;
}
