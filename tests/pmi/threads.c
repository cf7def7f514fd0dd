/* libpmi2 from several threads: one waits for a node attribute that another one puts later, while
 * others put and get pairs. Prints "threads ok RANK". */
#include <mpd/pmi2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static void must(int code, const char *what) {
    if (code == PMI2_SUCCESS)
        return;
    fprintf(stderr, "%s failed with %d\n", what, code);
    exit(1);
}

static void *wait_for_word(void *to) {
    char name[64];
    int found = 0;
    snprintf(name, sizeof name, "word-%d", rank);
    must(PMI2_Info_GetNodeAttr(name, to, 64, &found, 1), "PMI2_Info_GetNodeAttr");
    must(found ? PMI2_SUCCESS : PMI2_FAIL, "waiting");
    return NULL;
}

static void *put_pairs(void *number) {
    char key[64], value[64], read[64];
    for (int round = 0; round < 20; round++) {
        int length;
        snprintf(key, sizeof key, "key-%d-%d-%d", rank, *(int *)number, round);
        snprintf(value, sizeof value, "a;b=%d", round);
        must(PMI2_Info_PutNodeAttr(key, value), "PMI2_Info_PutNodeAttr");
        must(PMI2_KVS_Put(key, value), "PMI2_KVS_Put");
        must(PMI2_Info_GetNodeAttr(key, read, sizeof read, &length, 1), "PMI2_Info_GetNodeAttr");
        must(strcmp(read, value), "reading back");
    }
    return NULL;
}

int main(void) {
    int spawned, size, appnum, numbers[4];
    char word[64], name[64];
    pthread_t waiting, others[4];
    must(PMI2_Init(&spawned, &size, &rank, &appnum), "PMI2_Init");
    pthread_create(&waiting, NULL, wait_for_word, word);
    for (int at = 0; at < 4; at++) {
        numbers[at] = at;
        pthread_create(&others[at], NULL, put_pairs, &numbers[at]);
    }
    for (int at = 0; at < 4; at++)
        pthread_join(others[at], NULL);
    snprintf(name, sizeof name, "word-%d", rank);
    must(PMI2_Info_PutNodeAttr(name, "sesame"), "PMI2_Info_PutNodeAttr");
    pthread_join(waiting, NULL);
    must(strcmp(word, "sesame"), "the word");
    must(PMI2_KVS_Fence(), "PMI2_KVS_Fence");
    printf("threads ok %d\n", rank);
    must(PMI2_Finalize(), "PMI2_Finalize");
    return 0;
}
