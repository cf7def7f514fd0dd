/* Only compiled, never run: our headers and Slurm's have the same numbers, layouts and signatures. With
 * -DOURS=1 the assertions check our headers, with -DOURS=0 Slurm's. With -DPMI_TWO they check PMI-2, else
 * PMI-1.
 */
#include <stddef.h>
#define is(name, value) _Static_assert((name) == (value), #name)
#define takes(function, ...) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), __VA_ARGS__), #function)

#ifdef PMI_TWO
#if OURS
#include <mpd/pmi2.h>
#else
#include <slurm/pmi2.h>
#endif
is(PMI2_MAX_KEYLEN, 64);
is(PMI2_MAX_VALLEN, 1024);
is(PMI2_MAX_ATTRVALUE, 1024);
is(PMI2_ID_NULL, -1);
is(PMI2_SUCCESS, 0);
is(PMI2_FAIL, -1);
is(PMI2_ERR_INIT, 1);
is(PMI2_ERR_NOMEM, 2);
is(PMI2_ERR_INVALID_ARG, 3);
is(PMI2_ERR_INVALID_KEY, 4);
is(PMI2_ERR_INVALID_KEY_LENGTH, 5);
is(PMI2_ERR_INVALID_VAL, 6);
is(PMI2_ERR_INVALID_VAL_LENGTH, 7);
is(PMI2_ERR_INVALID_LENGTH, 8);
is(PMI2_ERR_INVALID_NUM_ARGS, 9);
is(PMI2_ERR_INVALID_ARGS, 10);
is(PMI2_ERR_INVALID_NUM_PARSED, 11);
is(PMI2_ERR_INVALID_KEYVALP, 12);
is(PMI2_ERR_INVALID_SIZE, 13);
is(PMI2_ERR_OTHER, 14);
is(HAVE_PMIX_RING, 1);
is(sizeof(PMI2_Connect_comm_t), 32);
is(offsetof(PMI2_Connect_comm_t, write), 8);
is(offsetof(PMI2_Connect_comm_t, ctx), 16);
is(offsetof(PMI2_Connect_comm_t, isMaster), 24);
is(sizeof(MPID_Info), 40);
is(sizeof(PMI2U_Info), 40);
is(offsetof(MPID_Info, handle), 0);
is(offsetof(MPID_Info, pobj_mutex), 4);
is(offsetof(MPID_Info, ref_count), 8);
is(offsetof(MPID_Info, next), 16);
is(offsetof(MPID_Info, key), 24);
is(offsetof(MPID_Info, value), 32);
takes(PMI2_Init, int(int *spawned, int *size, int *rank, int *appnum));
takes(PMI2_Initialized, int(void));
takes(PMI2_Finalize, int(void));
takes(PMI2_Abort, int(int flag, const char msg[]));
takes(PMI2_Job_GetId, int(char jobid[], int jobid_size));
takes(PMI2_Job_GetRank, int(int *rank));
takes(PMI2_Info_GetSize, int(int *size));
takes(PMI2_Job_Connect, int(const char jobid[], PMI2_Connect_comm_t *conn));
takes(PMI2_Job_Disconnect, int(const char jobid[]));
takes(PMI2_Job_Spawn, int(int count, const char *cmds[], int argcs[], const char **argvs[], const int maxprocs[], const int info_keyval_sizes[], const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size, const struct MPID_Info *preput_keyval_vector[], char jobId[], int jobIdSize, int errors[]));
takes(PMI2_KVS_Put, int(const char key[], const char value[]));
takes(PMI2_KVS_Fence, int(void));
takes(PMI2_KVS_Get, int(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen));
takes(PMIX_Ring, int(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue));
takes(PMI2_Info_GetNodeAttr, int(const char name[], char value[], int valuelen, int *found, int waitfor));
takes(PMI2_Info_GetNodeAttrIntArray, int(const char name[], int array[], int arraylen, int *outlen, int *found));
takes(PMI2_Info_PutNodeAttr, int(const char name[], const char value[]));
takes(PMI2_Info_GetJobAttr, int(const char name[], char value[], int valuelen, int *found));
takes(PMI2_Info_GetJobAttrIntArray, int(const char name[], int array[], int arraylen, int *outlen, int *found));
takes(PMI2_Nameserv_publish, int(const char service_name[], const struct MPID_Info *info_ptr, const char port[]));
takes(PMI2_Nameserv_lookup, int(const char service_name[], const struct MPID_Info *info_ptr, char port[], int portLen));
takes(PMI2_Nameserv_unpublish, int(const char service_name[], const struct MPID_Info *info_ptr));
#else
#if OURS
#include <mpd/pmi.h>
#else
#include <slurm/pmi.h>
#endif
is(PMI_SUCCESS, 0);
is(PMI_FAIL, -1);
is(PMI_ERR_INIT, 1);
is(PMI_ERR_NOMEM, 2);
is(PMI_ERR_INVALID_ARG, 3);
is(PMI_ERR_INVALID_KEY, 4);
is(PMI_ERR_INVALID_KEY_LENGTH, 5);
is(PMI_ERR_INVALID_VAL, 6);
is(PMI_ERR_INVALID_VAL_LENGTH, 7);
is(PMI_ERR_INVALID_LENGTH, 8);
is(PMI_ERR_INVALID_NUM_ARGS, 9);
is(PMI_ERR_INVALID_ARGS, 10);
is(PMI_ERR_INVALID_NUM_PARSED, 11);
is(PMI_ERR_INVALID_KEYVALP, 12);
is(PMI_ERR_INVALID_SIZE, 13);
is(PMI_ERR_INVALID_KVS, 14);
is(PMI_TRUE, 1);
is(PMI_FALSE, 0);
is(sizeof(PMI_BOOL), sizeof(int));
is(sizeof(PMI_keyval_t), 16);
is(offsetof(PMI_keyval_t, key), 0);
is(offsetof(PMI_keyval_t, val), 8);
takes(PMI_Init, int(int *spawned));
takes(PMI_Initialized, int(PMI_BOOL *initialized));
takes(PMI_Finalize, int(void));
takes(PMI_Abort, int(int exit_code, const char error_msg[]));
takes(PMI_Get_size, int(int *size));
takes(PMI_Get_rank, int(int *rank));
takes(PMI_Get_universe_size, int(int *size));
takes(PMI_Get_appnum, int(int *appnum));
takes(PMI_Get_clique_size, int(int *size));
takes(PMI_Get_clique_ranks, int(int ranks[], int length));
takes(PMI_Get_id, int(char id_str[], int length));
takes(PMI_Get_kvs_domain_id, int(char id_str[], int length));
takes(PMI_Get_id_length_max, int(int *length));
takes(PMI_Barrier, int(void));
takes(PMI_KVS_Get_my_name, int(char kvsname[], int length));
takes(PMI_KVS_Get_name_length_max, int(int *length));
takes(PMI_KVS_Get_key_length_max, int(int *length));
takes(PMI_KVS_Get_value_length_max, int(int *length));
takes(PMI_KVS_Create, int(char kvsname[], int length));
takes(PMI_KVS_Destroy, int(const char kvsname[]));
takes(PMI_KVS_Put, int(const char kvsname[], const char key[], const char value[]));
takes(PMI_KVS_Commit, int(const char kvsname[]));
takes(PMI_KVS_Get, int(const char kvsname[], const char key[], char value[], int length));
takes(PMI_KVS_Iter_first, int(const char kvsname[], char key[], int key_len, char val[], int val_len));
takes(PMI_KVS_Iter_next, int(const char kvsname[], char key[], int key_len, char val[], int val_len));
takes(PMI_Publish_name, int(const char service_name[], const char port[]));
takes(PMI_Unpublish_name, int(const char service_name[]));
takes(PMI_Lookup_name, int(const char service_name[], char port[]));
takes(PMI_Spawn_multiple, int(int count, const char *cmds[], const char **argvs[], const int maxprocs[], const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[], int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[]));
takes(PMI_Parse_option, int(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size));
takes(PMI_Args_to_keyval, int(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size));
takes(PMI_Free_keyvals, int(PMI_keyval_t keyvalp[], int size));
takes(PMI_Get_options, int(char *str, int *length));
#endif
