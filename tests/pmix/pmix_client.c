/* A bare client of PMIx, without an MPI library.
 *
 *   pmix_client nothing       init and finalize
 *   pmix_client putget        each rank puts a value; all fence and get the values of all. Rank 0 prints the
 *                             microseconds of put and commit, of the fence, and of the gets
 *   pmix_client spawn N       N processes of this program, one after the other; rank 0 prints "spawn ok N"
 *   pmix_client names         rank 0 publishes a name, the last rank looks it up; it prints "names ok"
 *   pmix_client abort CODE    the last rank aborts the job, the others wait in a fence
 *
 * A failed step ends the rank with 1 and a line on standard error. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pmix_proc_t self;
static uint32_t size;

static void check(const char *what, pmix_status_t status)
{
    if (status == PMIX_SUCCESS)
        return;
    fprintf(stderr, "pmix_client: rank %u: %s: %s\n", self.rank, what, PMIx_Error_string(status));
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
    double times[4];

    /* All begin together. */
    fence(false);
    times[0] = microseconds();
    put();
    times[1] = microseconds();
    fence(true);
    times[2] = microseconds();
    for (unsigned rank = 0; rank < size; rank++)
        get(rank);
    times[3] = microseconds();
    if (self.rank == 0)
        printf("%.0f %.0f %.0f\n", times[1] - times[0], times[2] - times[1], times[3] - times[2]);
}

static void spawn(char *program, int count)
{
    char *arguments[] = { program, "nothing", NULL }, last[PMIX_MAX_NSLEN + 1] = "";

    for (int i = 0; i < count; i++) {
        char name[PMIX_MAX_NSLEN + 1] = "";
        pmix_app_t app;

        PMIX_APP_CONSTRUCT(&app);
        app.cmd = program;
        app.argv = arguments;
        app.maxprocs = 1;
        check("spawn", PMIx_Spawn(NULL, 0, &app, 1, name));
        if (name[0] == '\0' || strcmp(name, last) == 0) {
            fprintf(stderr, "pmix_client: spawn %d has no name of its own\n", i);
            exit(1);
        }
        strcpy(last, name);
    }
    printf("spawn ok %d\n", count);
}

static void names(void)
{
    const char *port = "tag#0 port$";

    if (self.rank == 0) {
        pmix_info_t info;

        PMIX_INFO_LOAD(&info, "a service", port, PMIX_STRING);
        check("publish", PMIx_Publish(&info, 1));
        PMIX_INFO_DESTRUCT(&info);
    }
    fence(false);
    if (self.rank == size - 1) {
        pmix_pdata_t found;

        PMIX_PDATA_CONSTRUCT(&found);
        PMIX_LOAD_KEY(found.key, "a service");
        check("lookup", PMIx_Lookup(&found, 1, NULL, 0));
        if (found.value.type != PMIX_STRING || strcmp(found.value.data.string, port) != 0) {
            fprintf(stderr, "pmix_client: the name has a wrong value\n");
            exit(1);
        }
        printf("names ok\n");
        PMIX_PDATA_DESTRUCT(&found);
    }
    fence(false);
    if (self.rank == 0) {
        char *keys[] = { "a service", NULL };

        check("unpublish", PMIx_Unpublish(keys, NULL, 0));
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    start();
    if (strcmp(mode, "putget") == 0)
        putget();
    else if (strcmp(mode, "spawn") == 0 && argc > 2)
        spawn(argv[0], atoi(argv[2]));
    else if (strcmp(mode, "names") == 0)
        names();
    else if (strcmp(mode, "abort") == 0 && argc > 2) {
        if (self.rank == size - 1)
            PMIx_Abort(atoi(argv[2]), "out of luck", NULL, 0);
        fence(false);
    } else if (strcmp(mode, "nothing") != 0) {
        fprintf(stderr, "pmix_client: unknown mode '%s'\n", mode);
        return 2;
    }
    fflush(stdout);
    check("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
