/* Functions of MPD beyond PMI.
 *
 * The first part sends a signal to a rank of the caller's job. Other process managers refuse these functions, and some
 * end a job that sends an unknown request. SIGRTMIN to SIGRTMAX are allowed too. They return 0 (PMI_SUCCESS) when the signal
 * is sent. MPD_Signal_rank is in libpmi.so.0, for processes that have called PMI_Init. MPD2_Signal_rank is in
 * libpmi2.so.0, for processes that have called PMI2_Init.
 *
 * The second part is libmpd.so.0 (pkg-config mpd): requests for processes on slots of a ring, for any program. First the
 * slots are requested, later the processes are started. See the manual, "Slots for programs".
 */
#ifndef MPD_MPD_H
#define MPD_MPD_H

#ifdef __cplusplus
extern "C" {
#endif

int MPD_Signal_rank(int rank, int signal);
int MPD2_Signal_rank(int rank, int signal);

/* A request for one process on one slot. It completes as granted. After MPD_Start it is active again, and completes as
 * exited. After exited, cancelled or lost it is MPD_REQUEST_NULL. */
typedef struct mpd_request *MPD_Request;
#define MPD_REQUEST_NULL ((MPD_Request)0)

/* The state in a status. MPD_INACTIVE: the request is null, or granted and not started, so nothing can complete. */
#define MPD_INACTIVE 0
#define MPD_GRANTED 1
#define MPD_STARTED 2
#define MPD_EXITED 3
#define MPD_CANCELLED 4
#define MPD_LOST 5

/* How the requests of a call are granted.
 * MPD_HARD: each for itself, as soon as a slot is free for it; all of them in the end. The program must use or free a slot
 * without waiting for the others: two programs that both wait for all of theirs may wait for each other for ever.
 * MPD_GANG: all together, when there is a slot for each of them.
 * MPD_SOFT: those for which a slot is free now, at least one; the rest completes as cancelled. All do if no slot of the ring can
 * be for them. */
#define MPD_HARD 0
#define MPD_SOFT 1
#define MPD_GANG 2

/* Lengths that suffice for MPD_Get_nodename and MPD_Get_jsinfo. */
#define MPD_MAX_NODENAME 256
#define MPD_MAX_JSINFO 16384

typedef struct {
    int state;      /* MPD_GRANTED ... */
    int code;       /* exited: 0 to 255, or 128 + signal; cancelled: MPD_ERR_REFUSED if it was refused;
                       lost: the exit code of mpirun, or 0 */
    int signal;     /* exited: the signal that ended the process, else 0 */
    char host[256]; /* empty if the request never had a slot */
} MPD_Status;

/* All functions return 0 or one of these. */
#define MPD_SUCCESS 0
#define MPD_ERR_ARG 1      /* an argument is invalid */
#define MPD_ERR_REQUEST 2  /* no such request */
#define MPD_ERR_STATE 3    /* the call is not possible in this state of the request */
#define MPD_ERR_SIGNAL 4   /* no signal has this name or number */
#define MPD_ERR_SHORT 5    /* the buffer is too short */
#define MPD_ERR_DAEMON 6   /* no daemon answers on this host */
#define MPD_ERR_REFUSED 7  /* the daemon, or the hook of the scheduler, refuses */
#define MPD_ERR_HELPER 8   /* the helper cannot be started, or has ended */
#define MPD_ERR_INTERNAL 9 /* an error in MPD */

/* The text of a code. */
const char *MPD_Error_string(int code);
/* What exactly was wrong with the last call of this thread that failed, or why the request was refused whose
 * completion was reported last. Valid until the next such call. */
const char *MPD_Error_detail(void);

/* Requests n slots and returns at once. For the scheduler, global is a string about the call, and local[i] about a process.
 * Both may be NULL. arch is a pattern of the architecture, and nodes[i] of the host. NULL and "*" are any. */
int MPD_Iallocate(int n, const char *global, char *const local[], const char *arch, char *const nodes[],
                  int hardness, MPD_Request r[]);

/* The program and its arguments (without the program, ended by NULL), at any time before the start. */
int MPD_Set_exec(MPD_Request r, const char *path);
int MPD_Set_args(MPD_Request r, char *const argv[]);
/* Also report when the process has started; state is MPD_STARTED. */
int MPD_Want(MPD_Request r, int state);

/* Start granted requests; MPD_Startall all or none. Null requests are skipped. */
int MPD_Start(MPD_Request *r);
int MPD_Startall(int n, MPD_Request r[]);

/* Completions. Each is reported once. MPD_Waitsome waits for at least one; *nout is 0 if no request is active. */
int MPD_Test(MPD_Request *r, int *flag, MPD_Status *status);
int MPD_Wait(MPD_Request *r, MPD_Status *status);
int MPD_Waitsome(int n, MPD_Request r[], int *nout, int index[], MPD_Status s[]);
int MPD_Get_return_code(const MPD_Status *status, int *code);

/* Of a granted request: its host, and a line of JSON with its allocation, slot, host and strings. */
int MPD_Get_nodename(MPD_Request r, char *buf, int length);
int MPD_Get_jsinfo(MPD_Request r, char *buf, int length);

/* Sends a signal, like "SIGUSR1", "USR1" or "10", to started processes. If one argument is wrong, nothing is sent. */
int MPD_Signal(const char *name, int n, MPD_Request r[]);
/* The request completes as cancelled. Its slot is free then, and its process has ended. */
int MPD_Cancel(MPD_Request *r);

/* Events of a job: a set for MPD_Notify, and one of them in an event. MPD_GAP is reported in any case. */
#define MPD_TASK_STARTED 1
#define MPD_TASK_EXITED 2
#define MPD_HOST_ADDED 4
#define MPD_HOST_DRAINING 8
#define MPD_HOST_UNDRAINED 16
#define MPD_HOST_LEFT 32
#define MPD_HOST_LOST 64
#define MPD_JOB_ENDED 128 /* the last one */
#define MPD_GAP 256       /* events from this number on were not kept */
#define MPD_ALL_EVENTS 511

typedef struct {
    long long number; /* counted from 1; the same for all subscribers of the job */
    int event;        /* MPD_TASK_STARTED ... */
    int rank;         /* started, exited: the rank in the job; else -1 */
    int pid;          /* started: the process, or 0 if it ended before it was reported */
    int code;         /* exited: 0 to 255, or 128 + signal; 125 if the end is unknown. Job ended: the code of mpirun */
    int signal;       /* exited: the signal that ended the process, else 0 */
    char host[256];   /* empty if there is none */
} MPD_Event;

/* Subscribes to the events of a job, from this number on. The job is an id or alias as mpdlistjobs lists it; NULL is the
 * job of this process. The number 0 is the first event that is kept. An earlier subscription ends; with events 0, no new
 * one begins. */
int MPD_Notify(const char *job, int events, long long from);
/* The next event, if one waits: *flag is 1. An error says once that no further event will come. */
int MPD_Next_event(int *flag, MPD_Event *event);

/* A descriptor that is readable when a completion or an event waits, or -1. Do not read or close it. */
int MPD_Descriptor(void);

#ifdef __cplusplus
}
#endif

#endif
