/* libpmi2 with NULL, with buffers that are too small, and in the wrong order: errors, no crash.
 * Run alone or by mpirun; prints "edges ok RANK". */
#include <mpd/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define gives(expected, call)                                                          \
    do {                                                                               \
        int code = (call);                                                             \
        if (code != (expected)) {                                                      \
            fprintf(stderr, "line %d: %s gave %d\n", __LINE__, #call, code);           \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

int main(void) {
    int spawned, size, rank, appnum, number, length, array[8];
    char text[2048], job[256];
    gives(0, PMI2_Initialized());
    gives(PMI2_ERR_INIT, PMI2_KVS_Fence());
    gives(PMI2_ERR_INIT, PMI2_KVS_Put("a", "b"));
    gives(PMI2_ERR_INIT, PMI2_Finalize());
    gives(PMI2_ERR_INVALID_ARG, PMI2_Init(&spawned, NULL, &rank, &appnum));
    gives(PMI2_SUCCESS, PMI2_Init(&spawned, &size, &rank, &appnum));
    gives(PMI2_SUCCESS, PMI2_Init(&spawned, &size, &rank, &appnum));
    gives(1, PMI2_Initialized());
    /* One buffer for all results is a mistake of the caller; the library must not fail. */
    gives(PMI2_SUCCESS, PMI2_Init(&number, &number, &number, &number));
    gives(appnum, number);
    char both[64];
    gives(PMI2_SUCCESS, PMIX_Ring("value", &number, &number, both, both, sizeof both));
    gives(size, number);
    gives(0, strcmp(both, "value"));
    gives(PMI2_SUCCESS, PMI2_Info_GetJobAttr("universeSize", both, sizeof both, &number));

    gives(PMI2_ERR_INVALID_ARG, PMI2_Job_GetId(NULL, 4));
    gives(PMI2_ERR_INVALID_LENGTH, PMI2_Job_GetId(job, 2));
    gives(PMI2_SUCCESS, PMI2_Job_GetId(job, sizeof job));
    gives(PMI2_ERR_INVALID_ARG, PMI2_Job_GetRank(NULL));
    gives(PMI2_SUCCESS, PMI2_Job_GetRank(&number));
    gives(rank, number);
    gives(PMI2_ERR_INVALID_ARG, PMI2_Info_GetSize(NULL));
    gives(PMI2_SUCCESS, PMI2_Info_GetSize(&number));
    gives(PMI2_ERR_INVALID_ARG, PMI2_Job_Connect(NULL, NULL));

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    gives(PMI2_ERR_INVALID_KEY, PMI2_KVS_Put(NULL, "b"));
    gives(PMI2_ERR_INVALID_VAL, PMI2_KVS_Put("a", NULL));
    gives(PMI2_ERR_INVALID_KEY_LENGTH, PMI2_KVS_Put(text, "b"));
    gives(PMI2_ERR_INVALID_VAL_LENGTH, PMI2_KVS_Put("a", text));
    gives(PMI2_SUCCESS, PMI2_KVS_Put("long", "0123456789"));
    gives(PMI2_SUCCESS, PMI2_KVS_Fence());
    gives(PMI2_ERR_INVALID_ARG, PMI2_KVS_Get(job, -1, "long", text, 64, NULL));
    gives(PMI2_ERR_INVALID_VAL, PMI2_KVS_Get(job, -1, "long", NULL, 64, &length));
    gives(PMI2_ERR_INVALID_VAL_LENGTH, PMI2_KVS_Get(job, -1, "long", text, 0, &length));
    gives(PMI2_SUCCESS, PMI2_KVS_Get(job, rank, "long", text, 11, &length));
    gives(10, length);
    gives(PMI2_SUCCESS, PMI2_KVS_Get(NULL, -1, "long", text, 10, &length));
    gives(-11, length);
    gives(0, strcmp(text, "012345678"));
    gives(PMI2_FAIL, PMI2_KVS_Get(NULL, -1, "nobody-has-put-this", text, 10, &length));

    gives(PMI2_ERR_INVALID_KEY, PMI2_Info_PutNodeAttr(NULL, "b"));
    gives(PMI2_SUCCESS, PMI2_Info_PutNodeAttr("list", "1,-2,3"));
    gives(PMI2_ERR_INVALID_VAL_LENGTH, PMI2_Info_GetNodeAttr("list", text, 3, &number, 1));
    gives(PMI2_ERR_INVALID_LENGTH, PMI2_Info_GetNodeAttrIntArray("list", array, 2, &length, &number));
    gives(PMI2_SUCCESS, PMI2_Info_GetNodeAttrIntArray("list", array, 8, &length, &number));
    gives(1, length == 3 && number == 1 && array[0] == 1 && array[1] == -2 && array[2] == 3);
    gives(PMI2_SUCCESS, PMI2_Info_GetNodeAttr("none", text, 9, &number, 0));
    gives(0, number);
    gives(PMI2_SUCCESS, PMI2_Info_GetJobAttr("PMI_process_mapping", text, sizeof text, &number));
    gives(1, number);
    gives(PMI2_ERR_INVALID_ARG, PMI2_Info_GetJobAttr("universeSize", text, 9, NULL));
    gives(PMI2_SUCCESS, PMI2_Info_GetJobAttrIntArray("universeSize", array, 8, &length, &number));

    gives(PMI2_ERR_INVALID_ARG, PMI2_Nameserv_publish(NULL, NULL, "p"));
    gives(PMI2_ERR_INVALID_ARG, PMI2_Nameserv_lookup("s", NULL, NULL, 9));
    if (rank == 0) {
        gives(PMI2_SUCCESS, PMI2_Nameserv_publish("a service", NULL, "tag#0; port$"));
        gives(PMI2_ERR_INVALID_LENGTH, PMI2_Nameserv_lookup("a service", NULL, text, 4));
        gives(PMI2_SUCCESS, PMI2_Nameserv_lookup("a service", NULL, text, sizeof text));
        gives(0, strcmp(text, "tag#0; port$"));
        gives(PMI2_SUCCESS, PMI2_Nameserv_unpublish("a service", NULL));
        struct {
            char port[256], canary[1024];
        } room;
        memset(text, 'p', sizeof text);
        text[256] = 0;
        gives(PMI2_ERR_INVALID_LENGTH, PMI2_Nameserv_publish("long", NULL, text));
        text[255] = 0;
        gives(PMI2_SUCCESS, PMI2_Nameserv_publish("long", NULL, text));
        memset(&room, '#', sizeof room);
        gives(PMI2_ERR_INVALID_LENGTH, PMI2_Nameserv_lookup("long", NULL, room.port, 255));
        gives(PMI2_SUCCESS, PMI2_Nameserv_lookup("long", NULL, room.port, 256));
        gives(0, strcmp(room.port, text));
        for (size_t at = 0; at < sizeof room.canary; at++)
            gives('#', room.canary[at]);
        gives(PMI2_SUCCESS, PMI2_Nameserv_unpublish("long", NULL));
    }
    gives(PMI2_ERR_INVALID_ARG, PMI2_Job_Spawn(1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL));
    gives(PMI2_SUCCESS, PMI2_Finalize());
    gives(PMI2_ERR_INIT, PMI2_KVS_Fence());
    printf("edges ok %d\n", rank);
    return 0;
}
