/* PMI-1, the interface by which a process of a parallel job finds its rank and the other processes.
 *
 * The library is MPD's libpmi.so.0. It works under any process manager that speaks PMI-1. Functions, constants and
 * layouts are those of the pmi.h of Slurm and MPICH. A process that was started by hand is rank 0 of 1. All functions
 * return PMI_SUCCESS or an error. Pointers that must not be NULL are checked. A result that does not fit its buffer is
 * an error; it is not cut.
 */
#ifndef MPD_PMI_H
#define MPD_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)
#define PMI_ERR_INIT 1                /* before PMI_Init or after PMI_Finalize */
#define PMI_ERR_NOMEM 2               /* the buffer is too small for the result */
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4         /* NULL, empty, or with blanks */
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6         /* NULL, or of several lines */
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13
#define PMI_ERR_INVALID_KVS 14        /* not the keyval space of this job */

typedef int PMI_BOOL;
#define PMI_TRUE 1
#define PMI_FALSE 0

/* Beginning and end. Without PMI_Finalize the process has failed. */
int PMI_Init(int *spawned);           /* whether another job has spawned this one */
int PMI_Initialized(PMI_BOOL *initialized);
int PMI_Finalize(void);
int PMI_Abort(int exit_code, const char error_msg[]); /* ends the job; does not return */

/* This process in its job. */
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size); /* -1: unknown */
int PMI_Get_appnum(int *appnum);      /* the number of the program in mpirun's command line */
int PMI_Get_clique_size(int *size);   /* of the ranks on this node */
int PMI_Get_clique_ranks(int ranks[], int length);
int PMI_Get_id(char id_str[], int length); /* the name of the job */
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);

/* The key-value space of the job. After PMI_Barrier, all ranks can get values that were put before it. Lengths include
 * the zero at the end. */
int PMI_Barrier(void);
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_KVS_Create(char kvsname[], int length); /* returns the name of the job's only space */
int PMI_KVS_Destroy(const char kvsname[]);      /* it ends with the job */
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);       /* does nothing: a put takes effect at once */
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);
/* The process has one iteration through all pairs; an empty key means its end. */
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);

/* Names by which jobs find each other. A port has at most 255 characters and a zero. PMI_Lookup_name needs a buffer of
 * this size (MPI_MAX_PORT_NAME). To publish or to find a longer port gives PMI_ERR_INVALID_LENGTH. */
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);

typedef struct PMI_keyval_t {
    char *key;
    char *val;
} PMI_keyval_t;

/* Starts a job: maxprocs[i] processes of cmds[i], with arguments up to NULL. errors is NULL, or an array with one
 * element for each process (the sum of maxprocs). */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[],
                       const PMI_keyval_t *info_keyval_vectors[], int preput_keyval_size,
                       const PMI_keyval_t preput_keyval_vector[], int errors[]);

/* Options of the process manager in the arguments of a program. MPD reads no such options. */
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp,
                     int *size);
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
int PMI_Get_options(char *str, int *length);

#ifdef __cplusplus
}
#endif

#endif
