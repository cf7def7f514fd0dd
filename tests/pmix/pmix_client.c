/* A bare client of PMIx, without an MPI library.
 *
 *   pmix_client nothing       init and finalize
 *   pmix_client putget        each rank puts a value; all fence and get the values of all. Each prints its rank, and
 *                             the microseconds of the clock before the put and after the last get
 *   pmix_client spawn N       N processes of this program, one after the other, and prints how many it has spawned;
 *                             N more for each line of standard input. One rank
 *   pmix_client parent        the last rank spawns a process, which prints "parent R": the rank that has spawned it
 *   pmix_client names         rank 0 publishes names, other ranks look them up; the last rank prints "names ok"
 *   pmix_client publish PERSISTENCE NAME VALUE, lookup NAME, unpublish NAME
 *                             rank 0 does that; the persistence is a number. "lookup" prints the value, or "nothing"
 *   pmix_client abort CODE    the last rank aborts the job, the others wait in a fence
 *   pmix_client events        ranks send each other events of all ranges; rank 0 prints "events ok"
 *   pmix_client late N        rank 0 sends N events, then the last rank registers for them and prints "late K of N"
 *   pmix_client meet NAME OTHER END
 *                             this job publishes its namespace as NAME and connects with the job that has published
 *                             OTHER. Each rank gets the values of all ranks of the other job and prints "met N". END:
 *                             part     the jobs disconnect
 *                             abort    the last rank aborts its job with 7
 *                             outlive  each rank waits for the event of the end of the other job, and prints it
 *                             stay     each rank waits to be killed
 *                             group    all construct a group of both jobs, and print "group: STATUS"
 *   pmix_client mixed N       the ranks from N on are those of `t-pmi mixed N`; all read each other's values, and
 *                             this one also before the fence. Prints "mixed ok"
 *   pmix_client remove DIR... registers directories for removal with their contents; prints "registered"
 *   pmix_client keep DIR...   the same, and waits for a signal
 *   pmix_client dynamic       the first process spawns one with variables of families of launchers; it prints "dynamic ok"
 *   pmix_client chain         each process spawns the next one, and prints "chain ends" if that fails
 *   pmix_client group         the first two ranks construct a group twice and destruct it; each prints "group ok"
 *   pmix_client missing       all commit, then rank 0 gets keys that nobody has; it prints "NOT-FOUND" for those of its
 *                             own host, then for those of the others, each with the seconds that it took
 *   pmix_client silent        rank 0 gets a key of the last rank, which commits nothing, with a timeout of a second. Then
 *                             it gets one without a timeout, while the last rank ends. It prints each status
 *   pmix_client universe      each rank prints "universe N"
 *   pmix_client query         asks for what is known and for what is not, and prints the number of answers
 *   pmix_client bootstrap     constructs a group with leaders, and prints the status
 *   pmix_client tool          connects as a tool, and prints the status
 *
 * A failed step ends the rank with 1 and a line on standard error. */
#include <pmix.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t self;
static uint32_t size;

static void check(const char *what, pmix_status_t status)
{
    if (status == PMIX_SUCCESS)
        return;
    fprintf(stderr, "pmix_client: rank %u: %s: %s\n", self.rank, what, PMIx_Error_string(status));
    exit(1);
}

static void wrong(const char *what)
{
    fprintf(stderr, "pmix_client: rank %u: %s\n", self.rank, what);
    exit(1);
}

static double microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static void all(pmix_proc_t *proc)
{
    PMIX_LOAD_PROCID(proc, self.nspace, PMIX_RANK_WILDCARD);
}

static void fence(bool collect)
{
    pmix_info_t info;
    pmix_proc_t proc;

    all(&proc);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check("fence", PMIx_Fence(&proc, 1, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

static void start(void)
{
    pmix_proc_t proc;
    pmix_value_t *value;

    check("init", PMIx_Init(&self, NULL, 0));
    all(&proc);
    check("size", PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
}

/* What a rank puts: the size of an address with its parts. */
static void content(char *text, size_t room, unsigned rank)
{
    snprintf(text, room, "rank %08u of %.64s, and what an address of a network takes besides", rank, self.nspace);
}

static void put(void)
{
    char text[256];
    pmix_value_t value;

    content(text, sizeof text, self.rank);
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_STRING;
    value.data.string = text;
    check("put", PMIx_Put(PMIX_GLOBAL, "test.address", &value));
    check("commit", PMIx_Commit());
}

static void get(unsigned rank)
{
    char text[256];
    pmix_proc_t proc;
    pmix_value_t *value;

    content(text, sizeof text, rank);
    PMIX_LOAD_PROCID(&proc, self.nspace, rank);
    check("get", PMIx_Get(&proc, "test.address", NULL, 0, &value));
    if (value->type != PMIX_STRING || strcmp(value->data.string, text) != 0) {
        fprintf(stderr, "pmix_client: rank %u: rank %u has a wrong value\n", self.rank, rank);
        exit(1);
    }
    PMIX_VALUE_RELEASE(value);
}

static void putget(void)
{
    double begin;

    /* All begin together. */
    fence(false);
    begin = microseconds();
    put();
    fence(true);
    for (unsigned rank = 0; rank < size; rank++)
        get(rank);
    printf("%u %.0f %.0f\n", self.rank, begin, microseconds());
}

static void spawn(char *program, int count)
{
    char *arguments[] = { program, "nothing", NULL }, last[PMIX_MAX_NSLEN + 1] = "", line[16];
    int spawned = 0;

    do {
        for (int i = 0; i < count; i++, spawned++) {
            char name[PMIX_MAX_NSLEN + 1] = "";
            pmix_app_t app;

            PMIX_APP_CONSTRUCT(&app);
            app.cmd = program;
            app.argv = arguments;
            app.maxprocs = 1;
            check("spawn", PMIx_Spawn(NULL, 0, &app, 1, name));
            if (name[0] == '\0' || strcmp(name, last) == 0) {
                fprintf(stderr, "pmix_client: spawn %d has no name of its own\n", spawned);
                exit(1);
            }
            strcpy(last, name);
        }
        printf("spawned %d\n", spawned);
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
}

static void parent(char *program)
{
    char *arguments[] = { program, "child", NULL }, name[PMIX_MAX_NSLEN + 1] = "";
    pmix_app_t app;

    if (self.rank == size - 1) {
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = program;
        app.argv = arguments;
        app.maxprocs = 1;
        check("spawn", PMIx_Spawn(NULL, 0, &app, 1, name));
    }
    fence(false);
}

static void child(void)
{
    pmix_proc_t proc;
    pmix_value_t *value;

    check("parent", PMIx_Get(&self, PMIX_PARENT_ID, NULL, 0, &value));
    printf("parent %u\n", value->data.proc->rank);
    PMIX_VALUE_RELEASE(value);
    all(&proc);
    if (PMIx_Get(&proc, PMIX_PARENT_ID, NULL, 0, &value) != PMIX_ERR_NOT_FOUND)
        wrong("all ranks together have a parent");
}

static void publish(char *name, const char *value, pmix_data_range_t range, pmix_persistence_t persistence)
{
    pmix_info_t info[3];

    PMIX_INFO_LOAD(&info[0], name, value, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
    check("publish", PMIx_Publish(info, 3));
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
}

static void unpublish(char *name)
{
    char *keys[] = { name, NULL };

    check("unpublish", PMIx_Unpublish(keys, NULL, 0));
}

/* The value of a name, or NULL. */
static char *lookup(const char *name)
{
    pmix_pdata_t found;
    pmix_status_t status;
    char *value = NULL;

    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, name);
    status = PMIx_Lookup(&found, 1, NULL, 0);
    if (status == PMIX_SUCCESS && found.value.type == PMIX_STRING)
        value = strdup(found.value.data.string);
    else if (status != PMIX_ERR_NOT_FOUND)
        check("lookup", status != PMIX_SUCCESS ? status : PMIX_ERR_TYPE_MISMATCH);
    PMIX_PDATA_DESTRUCT(&found);
    return value;
}

/* The name has this value; NULL: nobody has published it. */
static void expect(const char *name, const char *value)
{
    char *found = lookup(name);

    if (found == NULL ? value != NULL : value == NULL || strcmp(found, value) != 0) {
        fprintf(stderr, "pmix_client: rank %u: the name '%s' has a wrong value\n", self.rank, name);
        exit(1);
    }
    free(found);
}

static char *text_of(unsigned rank, const char *key)
{
    pmix_proc_t proc;
    pmix_value_t *value;
    char *text;

    PMIX_LOAD_PROCID(&proc, self.nspace, rank);
    check(key, PMIx_Get(&proc, key, NULL, 0, &value));
    text = strdup(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

/* Whether a rank runs on the host of rank 0. */
static bool is_beside_root(void)
{
    return strcmp(text_of(self.rank, PMIX_HOSTNAME), text_of(0, PMIX_HOSTNAME)) == 0;
}

static void names(void)
{
    const char *port = "tag#0 port$";
    static char large[20001];
    char text[16];

    memset(large, 'v', sizeof large - 1);
    if (self.rank == 0) {
        publish("a service", port, PMIX_RANGE_SESSION, PMIX_PERSIST_SESSION);
        publish("large", large, PMIX_RANGE_SESSION, PMIX_PERSIST_APP);
        publish("ours", "namespace", PMIX_RANGE_NAMESPACE, PMIX_PERSIST_SESSION);
        publish("here", "local", PMIX_RANGE_LOCAL, PMIX_PERSIST_PROC);
    }
    fence(false);
    expect("a service", port);
    expect("large", large);
    expect("ours", "namespace");
    expect("here", is_beside_root() ? "local" : NULL);
    for (int round = 0; round < 10; round++) {
        snprintf(text, sizeof text, "round %d", round);
        if (self.rank == 0)
            publish("once", text, PMIX_RANGE_GLOBAL, PMIX_PERSIST_FIRST_READ);
        /* Ranks beside the publisher and on other hosts, in turn. */
        fence(false);
        if (self.rank == (unsigned) round % size) {
            expect("once", text);
            /* It was taken back before the answer. */
            expect("once", NULL);
        }
        fence(false);
    }
    if (self.rank == 0)
        unpublish("a service");
    if (self.rank == size - 1)
        printf("names ok\n");
}

/* Codes of events. */
enum { ORDERED = PMIX_EXTERNAL_ERR_BASE - 1, LATE = ORDERED - 1, ONE = ORDERED - 2, HERE = ORDERED - 3, MARK = ORDERED - 4 };

/* How many events of the first code each rank sends. */
#define MANY 20

/* The events of other processes, in the order of their arrival. */
static struct { int code; unsigned rank, number; } got[8192];
static unsigned got_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static void take(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t count,
                 pmix_info_t results[], size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) handler, (void) results, (void) result_count;
    pthread_mutex_lock(&lock);
    /* The library itself delivers events of the own process. */
    if (source->rank != self.rank && got_count < sizeof got / sizeof *got) {
        got[got_count].code = code;
        got[got_count].rank = source->rank;
        for (size_t i = 0; i < count; i++)
            if (PMIX_CHECK_KEY(&info[i], "test.number"))
                got[got_count].number = info[i].value.data.uint32;
        got_count++;
        pthread_cond_broadcast(&more);
    }
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static size_t listen_for(pmix_status_t code)
{
    pmix_status_t handler = PMIx_Register_event_handler(&code, 1, NULL, 0, take, NULL, NULL);

    if (handler < 0)
        check("register", handler);
    return (size_t) handler;
}

/* Sends an event; `to` is for a range of listed processes. */
static void notify(pmix_status_t code, pmix_data_range_t range, uint32_t number, pmix_proc_t *to)
{
    pmix_info_t info[2];
    pmix_status_t status;

    PMIX_INFO_LOAD(&info[0], "test.number", &number, PMIX_UINT32);
    if (to != NULL)
        PMIX_INFO_LOAD(&info[1], PMIX_EVENT_CUSTOM_RANGE, to, PMIX_PROC);
    status = PMIx_Notify_event(code, &self, range, info, to != NULL ? 2 : 1, NULL, NULL);
    if (status != PMIX_OPERATION_SUCCEEDED)
        check("notify", status);
}

/* How many events of a code have come. */
static unsigned count_of(int code)
{
    unsigned count = 0;

    for (unsigned i = 0; i < got_count; i++)
        count += got[i].code == code;
    return count;
}

/* Waits until at least so many events of a code have come. */
static void await(int code, unsigned count)
{
    pthread_mutex_lock(&lock);
    while (count_of(code) < count)
        pthread_cond_wait(&more, &lock);
    pthread_mutex_unlock(&lock);
}

/* The same events in the same order: without those of either rank, the lists "RANK.NUMBER " of both are equal. */
static void compare(const char *one, unsigned one_rank, const char *other, unsigned other_rank)
{
    while (*one != '\0' || *other != '\0') {
        if ((unsigned) atoi(one) == other_rank && *one != '\0')
            one = strchr(one, ' ') + 1;
        else if ((unsigned) atoi(other) == one_rank && *other != '\0')
            other = strchr(other, ' ') + 1;
        else if (strncmp(one, other, strcspn(one, " ") + 1) != 0)
            wrong("events have another order elsewhere");
        else
            one = strchr(one, ' ') + 1, other = strchr(other, ' ') + 1;
    }
}

/* All send at the same time; all get the events in one order. */
static void in_order(void)
{
    static char order[MANY * 1024];
    unsigned next[256] = { 0 };
    pmix_value_t value;
    char *end = order;

    for (unsigned i = 0; i < MANY; i++)
        notify(ORDERED, PMIX_RANGE_NAMESPACE, i, NULL);
    await(ORDERED, (size - 1) * MANY);
    for (unsigned i = 0; i < got_count; i++) {
        if (got[i].number != next[got[i].rank]++)
            wrong("events of one rank have another order");
        end += sprintf(end, "%u.%u ", got[i].rank, got[i].number);
    }
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_STRING;
    value.data.string = order;
    check("put", PMIx_Put(PMIX_GLOBAL, "test.order", &value));
    check("commit", PMIx_Commit());
    fence(true);
    for (unsigned rank = 0; rank < size; rank++)
        if (rank != self.rank)
            compare(order, self.rank, text_of(rank, "test.order"), rank);
}

/* Events of before the registration come too, in order and once, also after a second registration. */
static void registered_late(void)
{
    unsigned next = 0;

    if (self.rank == 0)
        for (unsigned i = 0; i < 3; i++)
            notify(LATE, PMIX_RANGE_GLOBAL, i, NULL);
    fence(false);
    if (self.rank > 0) {
        size_t handler = listen_for(LATE);

        await(LATE, 3);
        check("deregister", PMIx_Deregister_event_handler(handler, NULL, NULL));
        listen_for(LATE);
    }
    fence(false);
    if (self.rank == 0)
        notify(LATE, PMIX_RANGE_SESSION, 3, NULL);
    else {
        await(LATE, 4);
        for (unsigned i = 0; i < got_count; i++)
            if (got[i].code == LATE && got[i].number != next++)
                wrong("a late event is missing, repeated or not in order");
    }
    fence(false);
}

/* Events for some processes reach these, and no others. */
static void in_range(void)
{
    pmix_proc_t last;

    if (self.rank == 0) {
        PMIX_LOAD_PROCID(&last, self.nspace, size - 1);
        notify(ONE, PMIX_RANGE_CUSTOM, 0, &last);
        notify(HERE, PMIX_RANGE_LOCAL, 0, NULL);
        notify(MARK, PMIX_RANGE_SESSION, 0, NULL);
    } else {
        await(MARK, 1);
        if (count_of(ONE) != (self.rank == size - 1))
            wrong("an event for a list of processes");
        if (count_of(HERE) != is_beside_root())
            wrong("an event for the processes of a host");
    }
    fence(false);
}

static void events(void)
{
    for (int code = ORDERED; code >= MARK; code--)
        if (code != LATE)
            listen_for(code);
    fence(false);
    in_order();
    registered_late();
    in_range();
    if (self.rank == 0)
        printf("events ok\n");
}

static void late(unsigned count)
{
    if (self.rank == 0)
        for (unsigned i = 0; i < count; i++)
            notify(LATE, PMIX_RANGE_NAMESPACE, i, NULL);
    fence(false);
    if (self.rank == size - 1) {
        listen_for(MARK);
        listen_for(LATE);
    }
    fence(false);
    if (self.rank == 0)
        notify(MARK, PMIX_RANGE_NAMESPACE, 0, NULL);
    if (self.rank == size - 1) {
        await(MARK, 1);
        printf("late %u of %u\n", count_of(LATE), count);
    }
    fence(false);
}

static volatile int registered, ended;

static void note(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    ended = 1;
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void note_registration(pmix_status_t status, size_t id, void *data)
{
    (void) id, (void) data;
    registered = status == PMIX_SUCCESS ? 1 : -1;
}

static void wait_for(const char *what, volatile int *flag)
{
    for (int tries = 0; *flag == 0; tries++) {
        if (tries == 6000) {
            fprintf(stderr, "pmix_client: rank %u: %s: nothing happens\n", self.rank, what);
            exit(1);
        }
        usleep(10 * 1000);
    }
}

/* The namespace that another job publishes. */
static void find(pmix_proc_t *other, const char *name)
{
    pmix_pdata_t found;
    pmix_info_t info[2];
    int one = 1, seconds = 60;

    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, name);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &one, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    check("lookup", PMIx_Lookup(&found, 1, info, 2));
    PMIX_LOAD_PROCID(other, found.value.data.string, PMIX_RANK_WILDCARD);
    PMIX_PDATA_DESTRUCT(&found);
}

static void meet(const char *name, const char *wanted, const char *end)
{
    pmix_status_t code = PMIX_ERR_JOB_TERMINATED;
    pmix_proc_t both[2], rank;
    pmix_value_t *value;
    uint32_t others;

    put();
    PMIx_Register_event_handler(&code, 1, NULL, 0, note, note_registration, NULL);
    wait_for("registration", &registered);
    if (self.rank == 0) {
        pmix_info_t info;

        PMIX_INFO_LOAD(&info, name, self.nspace, PMIX_STRING);
        check("publish", PMIx_Publish(&info, 1));
        PMIX_INFO_DESTRUCT(&info);
    }
    all(&both[0]);
    find(&both[1], wanted);
    check("connect", PMIx_Connect(both, 2, NULL, 0));
    check("size of the other job", PMIx_Get(&both[1], PMIX_JOB_SIZE, NULL, 0, &value));
    others = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    for (uint32_t other = 0; other < others; other++) {
        PMIX_LOAD_PROCID(&rank, both[1].nspace, other);
        check("get from the other job", PMIx_Get(&rank, "test.address", NULL, 0, &value));
        PMIX_VALUE_RELEASE(value);
    }
    check("fence of both jobs", PMIx_Fence(both, 2, NULL, 0));
    printf("met %u\n", others);
    fflush(stdout);
    if (strcmp(end, "part") == 0)
        check("disconnect", PMIx_Disconnect(both, 2, NULL, 0));
    else if (strcmp(end, "abort") == 0) {
        if (self.rank == size - 1)
            PMIx_Abort(7, "out of luck", NULL, 0);
        fence(false);
    } else if (strcmp(end, "outlive") == 0) {
        wait_for("the end of the other job", &ended);
        printf("the other job has ended\n");
        /* The own job is as before. */
        fence(true);
        for (uint32_t own = 0; own < size; own++)
            get(own);
    } else if (strcmp(end, "group") == 0) {
        pmix_info_t *results = NULL;
        size_t count = 0;

        printf("group: %s\n", PMIx_Error_string(PMIx_Group_construct("both", both, 2, NULL, 0, &results, &count)));
    } else
        pause();
}

static void expect_of(unsigned rank, const char *key, const char *expected)
{
    pmix_proc_t proc;
    pmix_value_t *value;

    PMIX_LOAD_PROCID(&proc, self.nspace, rank);
    check(key, PMIx_Get(&proc, key, NULL, 0, &value));
    if (value->type != PMIX_STRING || strcmp(value->data.string, expected) != 0) {
        fprintf(stderr, "pmix_client: %s of rank %u has a wrong value\n", key, rank);
        exit(1);
    }
    PMIX_VALUE_RELEASE(value);
}

static void mixed(unsigned first)
{
    char key[64], text[64];
    pmix_value_t value;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_STRING;
    value.data.string = text;
    snprintf(text, sizeof text, "rank %u by PMIx", self.rank);
    check("put", PMIx_Put(PMIX_GLOBAL, "test.text", &value));
    check("commit", PMIx_Commit());
    for (unsigned rank = first; rank < size; rank++) {
        snprintf(key, sizeof key, "early-%u", rank);
        snprintf(text, sizeof text, "rank %u by PMI = early", rank);
        expect_of(rank, key, text);
    }
    fence(true);
    for (unsigned rank = first; rank < size; rank++) {
        snprintf(key, sizeof key, "key-%u", rank);
        snprintf(text, sizeof text, "rank %u by PMI", rank);
        expect_of(rank, key, text);
        snprintf(key, sizeof key, "all-%u", rank);
        expect_of(PMIX_RANK_WILDCARD, key, text);
    }
    fence(false);
    printf("mixed ok\n");
}

static void register_for_removal(char **directories)
{
    const bool recursively = true;
    pmix_info_t infos[2], *results = NULL;
    size_t count = 0;

    for (; *directories != NULL; directories++) {
        PMIX_INFO_LOAD(&infos[0], PMIX_REGISTER_CLEANUP_DIR, *directories, PMIX_STRING);
        PMIX_INFO_LOAD(&infos[1], PMIX_CLEANUP_RECURSIVE, &recursively, PMIX_BOOL);
        check("register", PMIx_Job_control(NULL, 0, infos, 2, &results, &count));
        PMIX_INFO_DESTRUCT(&infos[0]);
        PMIX_INFO_DESTRUCT(&infos[1]);
    }
    printf("registered\n");
    fflush(stdout);
}

/* Spawns one process of this program in that mode. */
static pmix_status_t spawn_one(char *program, char *mode, char **variables)
{
    char *arguments[] = { program, mode, NULL }, name[PMIX_MAX_NSLEN + 1] = "";
    pmix_app_t app;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = program;
    app.argv = arguments;
    app.env = variables;
    app.maxprocs = 1;
    return PMIx_Spawn(NULL, 0, &app, 1, name);
}

static void dynamic(char *program)
{
    char *variables[] = { "PMIX_ENV_VALUE=3", "PMI_MINE=4", "PMIX_RANK=77", NULL };
    const char *value = getenv("PMIX_ENV_VALUE"), *mine = getenv("PMI_MINE");

    if (value == NULL) {
        check("spawn", spawn_one(program, "dynamic", variables));
        return;
    }
    /* The rank is that of the manager. */
    if (strcmp(value, "3") != 0 || mine == NULL || strcmp(mine, "4") != 0 || self.rank != 0)
        wrong("variables of the spawner are missing");
    printf("dynamic ok\n");
}

static void group(void)
{
    pmix_proc_t two[2];

    for (int i = 0; i < 2; i++)
        PMIX_LOAD_PROCID(&two[i], self.nspace, (pmix_rank_t) i);
    for (int round = 0; round < 2 && self.rank < 2; round++) {
        pmix_info_t *results = NULL;
        size_t count = 0;

        check("construct", PMIx_Group_construct("two", two, 2, NULL, 0, &results, &count));
        check("destruct", PMIx_Group_destruct("two", NULL, 0));
    }
    if (self.rank < 2)
        printf("group ok\n");
}

static void missing(void)
{
    const char *here = text_of(0, PMIX_HOSTNAME);

    put();
    fence(true);
    for (int elsewhere = 0; elsewhere < 2 && self.rank == 0; elsewhere++)
        for (unsigned rank = 1; rank < size; rank++) {
            pmix_proc_t proc;
            pmix_value_t *value;
            double begin = microseconds();

            if ((strcmp(text_of(rank, PMIX_HOSTNAME), here) != 0) != elsewhere)
                continue;
            PMIX_LOAD_PROCID(&proc, self.nspace, rank);
            printf("%s ", PMIx_Error_string(PMIx_Get(&proc, "no.such.key", NULL, 0, &value)));
            printf("%.0f\n", (microseconds() - begin) / 1e6);
        }
    fence(false);
}

static void silent(void)
{
    pmix_info_t limit;
    pmix_proc_t proc;
    pmix_value_t *value;
    int seconds = 1;

    fence(false);
    if (self.rank == 0) {
        PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
        PMIX_LOAD_PROCID(&proc, self.nspace, size - 1);
        printf("%s\n", PMIx_Error_string(PMIx_Get(&proc, "no.such.key", &limit, 1, &value)));
        fflush(stdout);
    }
    fence(false);
    if (self.rank == 0)
        printf("%s\n", PMIx_Error_string(PMIx_Get(&proc, "no.such.key", NULL, 0, &value)));
}

static void universe(void)
{
    pmix_proc_t proc;
    pmix_value_t *value;

    all(&proc);
    check("universe", PMIx_Get(&proc, PMIX_UNIV_SIZE, NULL, 0, &value));
    printf("universe %u\n", value->data.uint32);
    PMIX_VALUE_RELEASE(value);
}

static void query(void)
{
    pmix_query_t questions[2];
    pmix_info_t *answers = NULL;
    size_t count = 0;

    for (int i = 0; i < 2; i++) {
        PMIX_QUERY_CONSTRUCT(&questions[i]);
        questions[i].keys = calloc(3, sizeof(char *));
    }
    questions[0].keys[0] = strdup(PMIX_QUERY_NAMESPACES);
    questions[1].keys[0] = strdup("no.such.key");
    check("query", PMIx_Query_info(questions, 2, &answers, &count));
    printf("answers: %zu\n", count);
    if (count == 1 && strstr(answers[0].value.data.string, self.nspace) == NULL)
        wrong("the namespaces");
    count = 0;
    check("query", PMIx_Query_info(&questions[1], 1, &answers, &count));
    printf("answers: %zu\n", count);
}

static void bootstrap(void)
{
    pmix_info_t info, *results = NULL;
    size_t leaders = 2, count = 0;

    PMIX_INFO_LOAD(&info, "pmix.grp.btstrp", &leaders, PMIX_SIZE);
    printf("%s\n", PMIx_Error_string(PMIx_Group_construct("led", &self, 1, &info, 1, &results, &count)));
}

static int tool(void)
{
    pmix_status_t status = PMIx_tool_init(&self, NULL, 0);

    printf("tool: %s\n", PMIx_Error_string(status));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "tool") == 0)
        return tool();
    start();
    if (strcmp(mode, "putget") == 0)
        putget();
    else if (strcmp(mode, "spawn") == 0 && argc > 2)
        spawn(argv[0], atoi(argv[2]));
    else if (strcmp(mode, "parent") == 0)
        parent(argv[0]);
    else if (strcmp(mode, "child") == 0)
        child();
    else if (strcmp(mode, "names") == 0)
        names();
    else if (strcmp(mode, "publish") == 0 && argc > 4)
        publish(argv[3], argv[4], PMIX_RANGE_SESSION, (pmix_persistence_t) atoi(argv[2]));
    else if (strcmp(mode, "lookup") == 0 && argc > 2) {
        char *value = lookup(argv[2]);

        printf("%s\n", value != NULL ? value : "nothing");
    } else if (strcmp(mode, "unpublish") == 0 && argc > 2)
        unpublish(argv[2]);
    else if (strcmp(mode, "events") == 0)
        events();
    else if (strcmp(mode, "late") == 0 && argc > 2)
        late((unsigned) atoi(argv[2]));
    else if (strcmp(mode, "meet") == 0 && argc > 4)
        meet(argv[2], argv[3], argv[4]);
    else if (strcmp(mode, "abort") == 0 && argc > 2) {
        if (self.rank == size - 1)
            PMIx_Abort(atoi(argv[2]), "out of luck", NULL, 0);
        fence(false);
    } else if (strcmp(mode, "mixed") == 0 && argc > 2) {
        mixed(atoi(argv[2]));
    } else if (strcmp(mode, "remove") == 0 || strcmp(mode, "keep") == 0) {
        register_for_removal(argv + 2);
        if (strcmp(mode, "keep") == 0)
            pause();
    } else if (strcmp(mode, "dynamic") == 0)
        dynamic(argv[0]);
    else if (strcmp(mode, "chain") == 0) {
        if (spawn_one(argv[0], "chain", NULL) != PMIX_SUCCESS)
            printf("chain ends\n");
    } else if (strcmp(mode, "group") == 0)
        group();
    else if (strcmp(mode, "missing") == 0)
        missing();
    else if (strcmp(mode, "silent") == 0)
        silent();
    else if (strcmp(mode, "universe") == 0)
        universe();
    else if (strcmp(mode, "query") == 0)
        query();
    else if (strcmp(mode, "bootstrap") == 0)
        bootstrap();
    else if (strcmp(mode, "nothing") != 0) {
        fprintf(stderr, "pmix_client: unknown mode '%s'\n", mode);
        return 2;
    }
    fflush(stdout);
    check("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
