/* PMI-2, the interface by which a process of a parallel job finds its rank and the other processes.
 *
 * The library is MPD's libpmi2.so.0. It works under any process manager that speaks PMI-2. Functions, constants and
 * layouts are those of Slurm's pmi2.h. A process that was started by hand is rank 0 of 1. All functions except
 * PMI2_Initialized return PMI2_SUCCESS or an error. Several threads may call them at the same time; a thread that waits
 * does not block other threads.
 */
#ifndef MPD_PMI2_H
#define MPD_PMI2_H

#ifdef __cplusplus
extern "C" {
#endif

/* With the zero at the end. */
#define PMI2_MAX_KEYLEN 64
#define PMI2_MAX_VALLEN 1024
#define PMI2_MAX_ATTRVALUE 1024
#define PMI2_ID_NULL (-1)

#define PMI2_SUCCESS 0
#define PMI2_FAIL (-1)
#define PMI2_ERR_INIT 1               /* before PMI2_Init or after PMI2_Finalize */
#define PMI2_ERR_NOMEM 2
#define PMI2_ERR_INVALID_ARG 3
#define PMI2_ERR_INVALID_KEY 4
#define PMI2_ERR_INVALID_KEY_LENGTH 5
#define PMI2_ERR_INVALID_VAL 6
#define PMI2_ERR_INVALID_VAL_LENGTH 7
#define PMI2_ERR_INVALID_LENGTH 8
#define PMI2_ERR_INVALID_NUM_ARGS 9
#define PMI2_ERR_INVALID_ARGS 10
#define PMI2_ERR_INVALID_NUM_PARSED 11
#define PMI2_ERR_INVALID_KEYVALP 12
#define PMI2_ERR_INVALID_SIZE 13
#define PMI2_ERR_OTHER 14

/* The connection of two jobs. Not used, because the process managers know each other. */
typedef struct PMI2_Connect_comm {
    int (*read)(void *buf, int maxlen, void *ctx);
    int (*write)(const void *buf, int len, void *ctx);
    void *ctx;
    int isMaster;
} PMI2_Connect_comm_t;

/* A pair of texts in the layout of MPICH; the first four members do not matter here. */
typedef struct MPID_Info {
    int handle;
    int pobj_mutex;
    int ref_count;
    struct MPID_Info *next;
    char *key;
    char *value;
} MPID_Info;
#define PMI2U_Info MPID_Info

/* Beginning and end. Without PMI2_Finalize the process has failed. */
int PMI2_Init(int *spawned, int *size, int *rank, int *appnum);
int PMI2_Initialized(void);                   /* 1 or 0 */
int PMI2_Finalize(void);
int PMI2_Abort(int flag, const char msg[]);   /* does not return */

/* The job. */
int PMI2_Job_GetId(char jobid[], int jobid_size);
int PMI2_Job_GetRank(int *rank);
int PMI2_Info_GetSize(int *size);             /* the number of ranks on this node */
int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn);
int PMI2_Job_Disconnect(const char jobid[]);

/* Starts a job: maxprocs[i] processes of cmds[i], with argcs[i] arguments. errors is NULL, or an array with one element
 * for each process (the sum of maxprocs). jobId may be NULL. */
int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[],
                   const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size,
                   const struct MPID_Info *preput_keyval_vector[], char jobId[], int jobIdSize,
                   int errors[]);

/* The key-value space of the job. After PMI2_KVS_Fence, all ranks can get values that were put before it. A value that
 * does not fit is cut, and vallen is then the negative of the needed size. */
int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue,
                 int *vallen);

/* Exchanges a value with both neighbours in a ring of all ranks. */
#define HAVE_PMIX_RING 1
int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);

/* Attributes of this node, which are visible to its ranks at once, and attributes of the job. With waitfor the call
 * returns when the attribute has a value. */
int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor);
int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                  int *found);
int PMI2_Info_PutNodeAttr(const char name[], const char value[]);
int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found);
int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                 int *found);

/* Names by which jobs find each other. info_ptr is ignored and may be NULL. A port has at most 255 characters and a zero
 * (MPI_MAX_PORT_NAME). */
int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr,
                          const char port[]);
int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[],
                         int portLen);
int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr);

#ifdef __cplusplus
}
#endif

#endif
