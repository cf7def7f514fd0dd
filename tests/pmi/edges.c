/* libpmi with NULL, with buffers that are too small, and in the wrong order: errors, no crash.
 * Run alone or by mpirun; prints "edges ok RANK". */
#include <mpd/pmi.h>
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

static void before_init(void) {
    int number = -7;
    char text[8];
    gives(PMI_SUCCESS, PMI_Initialized(&number));
    gives(PMI_FALSE, number);
    gives(PMI_ERR_INIT, PMI_Get_rank(&number));
    gives(PMI_ERR_INIT, PMI_Barrier());
    gives(PMI_ERR_INIT, PMI_KVS_Get_my_name(text, 8));
    gives(PMI_ERR_INIT, PMI_KVS_Put("a", "b", "c"));
    gives(PMI_ERR_INIT, PMI_Lookup_name("a", text));
    gives(PMI_ERR_INIT, PMI_Finalize());
    gives(PMI_ERR_INVALID_ARG, PMI_Init(NULL));
}

static void nothing_given(void) {
    char text[300];
    gives(PMI_ERR_INVALID_ARG, PMI_Initialized(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_size(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_rank(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_universe_size(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_appnum(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_clique_size(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_clique_ranks(NULL, 4));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_id(NULL, 4));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_id_length_max(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_KVS_Get_my_name(NULL, 4));
    gives(PMI_ERR_INVALID_ARG, PMI_KVS_Get_value_length_max(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_KVS_Commit(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Publish_name(NULL, "p"));
    gives(PMI_ERR_INVALID_ARG, PMI_Publish_name("s", NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Lookup_name(NULL, text));
    gives(PMI_ERR_INVALID_ARG, PMI_Lookup_name("s", NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Unpublish_name(NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Spawn_multiple(1, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Spawn_multiple(-1, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL));
}

static void key_value_space(void) {
    char space[256], text[2048], key[64];
    int length;
    gives(PMI_SUCCESS, PMI_KVS_Get_my_name(space, sizeof space));
    gives(PMI_ERR_INVALID_LENGTH, PMI_KVS_Get_my_name(text, (int)strlen(space)));
    gives(PMI_SUCCESS, PMI_KVS_Get_my_name(text, (int)strlen(space) + 1));
    gives(PMI_ERR_INVALID_LENGTH, PMI_KVS_Get_my_name(text, -1));
    gives(PMI_ERR_INVALID_KVS, PMI_KVS_Put("another", "a", "b"));
    gives(PMI_ERR_INVALID_KEY, PMI_KVS_Put(space, NULL, "b"));
    gives(PMI_ERR_INVALID_KEY, PMI_KVS_Put(space, "", "b"));
    gives(PMI_ERR_INVALID_VAL, PMI_KVS_Put(space, "a", NULL));
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    gives(PMI_ERR_INVALID_KEY_LENGTH, PMI_KVS_Put(space, text, "b"));
    gives(PMI_ERR_INVALID_VAL_LENGTH, PMI_KVS_Put(space, "a", text));
    gives(PMI_SUCCESS, PMI_KVS_Get_value_length_max(&length));
    text[length - 1] = 0;
    gives(PMI_SUCCESS, PMI_KVS_Put(space, "long", text));
    gives(PMI_SUCCESS, PMI_KVS_Commit(space));
    gives(PMI_SUCCESS, PMI_Barrier());
    gives(PMI_ERR_INVALID_VAL, PMI_KVS_Get(space, "long", NULL, 5));
    gives(PMI_ERR_INVALID_LENGTH, PMI_KVS_Get(space, "long", text, length - 1));
    gives(0, text[0]);
    gives(PMI_SUCCESS, PMI_KVS_Get(space, "long", text, length));
    gives(length - 1, (int)strlen(text));
    gives(PMI_FAIL, PMI_KVS_Get(space, "nobody-has-put-this", text, length));
    gives(PMI_ERR_INVALID_KEY, PMI_KVS_Iter_first(space, NULL, 64, text, length));
    gives(PMI_ERR_INVALID_KEY_LENGTH, PMI_KVS_Iter_first(space, key, 0, text, length));
    int found = 0;
    gives(PMI_SUCCESS, PMI_KVS_Iter_first(space, key, 64, text, 1024));
    while (key[0]) {
        found += strcmp(key, "long") == 0;
        gives(PMI_SUCCESS, PMI_KVS_Iter_next(space, key, 64, text, 1024));
    }
    gives(1, found);
}

/* The longest port fits the buffer of MPI programs, and no byte after that buffer is written. */
static void names(int rank) {
    struct {
        char port[256], canary[1024];
    } room;
    char longest[256], longer[257];
    memset(longest, 'p', sizeof longest);
    memset(longer, 'p', sizeof longer);
    longest[255] = longer[256] = 0;
    if (rank != 0)
        return;
    gives(PMI_ERR_INVALID_LENGTH, PMI_Publish_name("long", longer));
    gives(PMI_FAIL, PMI_Lookup_name("long", room.port));
    gives(PMI_SUCCESS, PMI_Publish_name("long", longest));
    memset(&room, '#', sizeof room);
    gives(PMI_SUCCESS, PMI_Lookup_name("long", room.port));
    gives(0, strcmp(room.port, longest));
    for (size_t at = 0; at < sizeof room.canary; at++)
        gives('#', room.canary[at]);
    gives(PMI_SUCCESS, PMI_Unpublish_name("long"));
}

static void arguments(void) {
    char first[] = "--option=1", *argv[] = {first, NULL}, **argvp = argv, text[4];
    int argc = 1, parsed = -7, size = -7, length = 0;
    PMI_keyval_t *pairs;
    gives(PMI_ERR_INVALID_NUM_ARGS, PMI_Parse_option(0, argv, &parsed, &pairs, &size));
    gives(PMI_ERR_INVALID_ARGS, PMI_Parse_option(1, NULL, &parsed, &pairs, &size));
    gives(PMI_ERR_INVALID_NUM_PARSED, PMI_Parse_option(1, argv, NULL, &pairs, &size));
    gives(PMI_ERR_INVALID_KEYVALP, PMI_Parse_option(1, argv, &parsed, NULL, &size));
    gives(PMI_ERR_INVALID_SIZE, PMI_Parse_option(1, argv, &parsed, &pairs, NULL));
    gives(PMI_SUCCESS, PMI_Parse_option(1, argv, &parsed, &pairs, &size));
    gives(0, parsed + size);
    gives(PMI_SUCCESS, PMI_Args_to_keyval(&argc, (char *((*)[]))argvp, &pairs, &size));
    gives(1, argc + size);
    gives(PMI_SUCCESS, PMI_Free_keyvals(pairs, size));
    gives(PMI_ERR_NOMEM, PMI_Get_options(text, &length));
    gives(PMI_SUCCESS, PMI_Get_options(text, &length));
    gives(PMI_ERR_INVALID_LENGTH, PMI_Get_options(text, NULL));
    gives(PMI_ERR_INVALID_ARG, PMI_Get_options(NULL, &length));
}

int main(void) {
    int number, rank, size;
    before_init();
    for (int round = 0; round < 2; round++) {
        gives(PMI_SUCCESS, PMI_Init(&number));
        gives(PMI_SUCCESS, PMI_Init(&number));
        gives(PMI_SUCCESS, PMI_Initialized(&number));
        gives(PMI_TRUE, number);
        gives(PMI_SUCCESS, PMI_Get_rank(&rank));
        gives(PMI_SUCCESS, PMI_Get_size(&size));
        gives(PMI_ERR_INVALID_LENGTH, PMI_Get_clique_ranks(&number, 0));
        nothing_given();
        key_value_space();
        names(rank);
        arguments();
        gives(PMI_SUCCESS, PMI_Finalize());
    }
    gives(PMI_ERR_INIT, PMI_Get_rank(&rank));
    printf("edges ok %d\n", rank);
    return 0;
}
