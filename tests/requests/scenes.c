/* Scenes of a program with requests. The first argument selects the scene; each prints what it saw. */
#include <mpd/mpd.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX 512

static MPD_Request r[MAX];
static MPD_Status s[MAX];
static int at[MAX], n;

static void ok(int code, const char *what) {
    if (code != MPD_SUCCESS) {
        printf("%s: %s: %s\n", what, MPD_Error_string(code), MPD_Error_detail());
        exit(1);
    }
}

static void expect(int code, int wanted, const char *what) {
    if (code != wanted) {
        printf("%s: code %d, not %d\n", what, code, wanted);
        exit(1);
    }
}

static void allocate(int count, char *const nodes[], int hardness, MPD_Request *first) {
    ok(MPD_Iallocate(count, NULL, NULL, NULL, nodes, hardness, first), "allocate");
}

static void shell(MPD_Request *request, const char *script) {
    char *args[] = {"-c", (char *)script, NULL};
    ok(MPD_Set_exec(*request, "/bin/sh"), "exec");
    ok(MPD_Set_args(*request, args), "args");
    ok(MPD_Start(request), "start");
}

/* Waits with poll until the descriptor is readable, then takes what is there. */
static int some(int count) {
    struct pollfd fd = {MPD_Descriptor(), POLLIN, 0};
    if (poll(&fd, 1, 60000) != 1) {
        printf("nothing completes\n");
        exit(1);
    }
    ok(MPD_Waitsome(count, r, &n, at, s), "waitsome");
    return n;
}

static int is_quiet(int milliseconds) {
    struct pollfd fd = {MPD_Descriptor(), POLLIN, 0};
    return poll(&fd, 1, milliseconds) == 0;
}

/* Twenty requests; each completes once as granted and once as exited with its own code. */
static void twenty(void) {
    int granted[20] = {0}, exited[20] = {0}, left = 20;
    for (int i = 0; i < 20; i++)
        allocate(1, NULL, MPD_HARD, &r[i]);
    while (left > 0) {
        some(20);
        for (int i = 0; i < n; i++) {
            int who = at[i], code = -1;
            char text[64];
            switch (s[i].state) {
            case MPD_GRANTED:
                granted[who]++;
                snprintf(text, sizeof text, "exit %d", who * 13);
                shell(&r[who], text);
                break;
            case MPD_EXITED:
                exited[who]++;
                ok(MPD_Get_return_code(&s[i], &code), "code");
                if (code != who * 13 || s[i].signal != 0 || r[who] != MPD_REQUEST_NULL)
                    printf("%d: code %d\n", who, code);
                left--;
                break;
            default:
                printf("%d: state %d\n", who, s[i].state);
            }
        }
    }
    for (int i = 0; i < 20; i++)
        if (granted[i] != 1 || exited[i] != 1)
            printf("%d: granted %d times, exited %d times\n", i, granted[i], exited[i]);
    ok(MPD_Waitsome(20, r, &n, at, s), "waitsome");
    printf("twenty: %d more, %s\n", n, is_quiet(0) ? "quiet" : "not quiet");
}

/* Every exit code, in one call with a slot for each of a few requests at a time; the program asks late. */
static void codes(void) {
    int seen[256] = {0}, begun = 0;
    for (int left = 256; left > 0;) {
        for (int i = 0; i < 8; i++)
            if (r[i] == MPD_REQUEST_NULL && begun + i < 256 && left > 0)
                allocate(1, NULL, MPD_HARD, &r[i]);
        some(8);
        for (int i = 0; i < n; i++) {
            char text[64];
            int code = -1;
            if (s[i].state == MPD_GRANTED && begun < 256) {
                snprintf(text, sizeof text, "exit %d", begun++);
                shell(&r[at[i]], text);
            } else if (s[i].state == MPD_GRANTED) {
                ok(MPD_Cancel(&r[at[i]]), "cancel");
            } else if (s[i].state == MPD_EXITED) {
                ok(MPD_Get_return_code(&s[i], &code), "code");
                seen[code]++;
                left--;
            }
        }
    }
    for (int i = 0; i < 256; i++)
        if (seen[i] != 1)
            printf("code %d: %d times\n", i, seen[i]);
    printf("codes: all\n");
}

/* The farm of ten hard requests in one call: each is granted as soon as a slot is free for it. The last two wait on a slot that
 * the program keeps; one of them is cancelled. */
static void hard(void) {
    int granted = 0, exited = 0;
    char name[MPD_MAX_NODENAME], info[MPD_MAX_JSINFO];
    char *local[10], text[10][16];
    for (int i = 0; i < 10; i++) {
        snprintf(text[i], sizeof text[i], "string %d", i);
        local[i] = text[i];
    }
    ok(MPD_Iallocate(10, NULL, local, NULL, NULL, MPD_HARD, r), "allocate");
    while (exited < 8) {
        some(10);
        for (int i = 0; i < n; i++) {
            int who = at[i];
            if (s[i].state == MPD_GRANTED && granted++ < 8) {
                char script[64], wanted[512];
                snprintf(script, sizeof script, "[ \"$MPD_ALLOC_LOCAL\" = 'string %d' ]", who);
                snprintf(wanted, sizeof wanted,
                         "\"slot\":0,\"host\":\"%s\",\"global\":null,\"local\":\"%s\"}", s[i].host,
                         local[who]);
                ok(MPD_Get_nodename(r[who], name, sizeof name), "name");
                ok(MPD_Get_jsinfo(r[who], info, sizeof info), "info");
                if (strcmp(name, s[i].host) != 0 || strstr(info, wanted) == NULL)
                    printf("hard: %s is not %s\n", info, wanted);
                shell(&r[who], script);
            } else if (s[i].state == MPD_EXITED) {
                if (s[i].code != 0)
                    printf("hard: %d has another string\n", who);
                exited++;
            } else if (s[i].state != MPD_GRANTED) {
                printf("hard: state %d\n", s[i].state);
            }
        }
    }
    while (granted < 10)
        granted += some(10);
    /* Both slots are kept. Of two further requests one is cancelled, and the other one gets the slot that is given back. */
    allocate(2, NULL, MPD_HARD, r + 10);
    printf("waiting\n");
    getchar();
    if (!is_quiet(500))
        printf("hard: granted too early\n");
    ok(MPD_Cancel(&r[10]), "cancel");
    ok(MPD_Wait(&r[10], s), "wait");
    if (s->state != MPD_CANCELLED)
        printf("hard: state %d\n", s->state);
    for (int i = 0; i < 10; i++)
        if (r[i] != MPD_REQUEST_NULL) {
            ok(MPD_Cancel(&r[i]), "cancel");
            break;
        }
    ok(MPD_Wait(&r[11], s), "wait");
    printf("hard: state %d\n", s->state);
}

/* No slot of the ring can be for these: soft ones are cancelled, the others wait. */
static void none(void) {
    ok(MPD_Iallocate(2, NULL, NULL, "nosuch", NULL, MPD_SOFT, r), "allocate");
    for (int i = 0; i < 2; i++) {
        ok(MPD_Wait(&r[i], s), "wait");
        printf("state %d\n", s->state);
    }
    ok(MPD_Iallocate(1, NULL, NULL, "nosuch", NULL, MPD_HARD, r), "allocate");
    printf("%s\n", is_quiet(1000) ? "waits" : "does not wait");
}

/* Ten requests together on eight free slots wait until two are free. */
static void gang(void) {
    allocate(2, NULL, MPD_GANG, r);
    for (int granted = 0; granted < 2; granted += some(2)) {}
    allocate(10, NULL, MPD_GANG, r + 2);
    if (!is_quiet(1500))
        printf("gang: granted too early\n");
    for (int i = 0; i < 2; i++) {
        ok(MPD_Cancel(&r[i]), "cancel");
        ok(MPD_Wait(&r[i], s), "wait");
        if (s->state != MPD_CANCELLED || r[i] != MPD_REQUEST_NULL)
            printf("gang: state %d\n", s->state);
        if (i == 0 && !is_quiet(500))
            printf("gang: nine slots suffice\n");
    }
    for (int granted = 0; granted < 10; granted += n)
        some(12);
    printf("gang: ten\n");
}

/* Ten soft requests on eight free slots: eight are granted at once, and two are cancelled. */
static void soft(void) {
    int states[6] = {0};
    allocate(10, NULL, MPD_SOFT, r);
    for (int all = 0; all < 10; all += n) {
        some(10);
        for (int i = 0; i < n; i++)
            states[s[i].state]++;
    }
    printf("soft: %d granted, %d cancelled\n", states[MPD_GRANTED], states[MPD_CANCELLED]);
}

/* Hosts by pattern, the strings, and the end of one request while the others of its call remain. */
static void nodes(void) {
    char *const each[] = {"d1", "*", "d3", "*"};
    char *const local[] = {"large_memory", "b c", "", "d=e"};
    char name[MPD_MAX_NODENAME], info[MPD_MAX_JSINFO];
    expect(MPD_Iallocate(4, "gang_schedule", local, "*", each, MPD_GANG, r), 0, "allocate");
    expect(MPD_Get_nodename(r[0], name, sizeof name), MPD_ERR_STATE, "a name before the grant");
    for (int granted = 0; granted < 4; granted += n)
        some(4);
    for (int i = 0; i < 4; i++) {
        ok(MPD_Get_nodename(r[i], name, sizeof name), "name");
        ok(MPD_Get_jsinfo(r[i], info, sizeof info), "info");
        printf("%s %s\n", name, strchr(info, '"'));
    }
    expect(MPD_Get_nodename(r[0], name, 1), MPD_ERR_SHORT, "a short buffer");
    for (int i = 0; i < 4; i++) {
        shell(&r[i], "echo \"[$MPD_ALLOC_GLOBAL] [$MPD_ALLOC_LOCAL]\"");
        ok(MPD_Wait(&r[i], s), "wait");
        if (s->state != MPD_EXITED || s->code != 0)
            printf("state %d code %d\n", s->state, s->code);
    }
}

/* Signals by name and number. */
static void signals(void) {
    static const struct {
        const char *name;
        int signal;
    } all[] = {{"SIGUSR1", 10}, {"USR1", 10}, {"10", 10}, {"usr2", 12}, {"KILL", 9}, {"SIGTERM", 15}};
    allocate(1, NULL, MPD_HARD, r);
    expect(MPD_Signal("USR1", 1, r), MPD_ERR_STATE, "a signal before the start");
    ok(MPD_Wait(&r[0], s), "wait");
    ok(MPD_Cancel(&r[0]), "cancel");
    ok(MPD_Wait(&r[0], s), "wait");
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        allocate(1, NULL, MPD_HARD, r);
        ok(MPD_Want(r[0], MPD_STARTED), "want");
        ok(MPD_Wait(&r[0], s), "wait");
        ok(MPD_Set_exec(r[0], "/bin/false"), "exec");
        ok(MPD_Set_exec(r[0], "sleep"), "exec");
        char *args[] = {"600", NULL};
        ok(MPD_Set_args(r[0], args), "args");
        ok(MPD_Start(&r[0]), "start");
        expect(MPD_Set_exec(r[0], "/bin/true"), MPD_ERR_STATE, "exec after the start");
        expect(MPD_Start(&r[0]), MPD_ERR_STATE, "a second start");
        ok(MPD_Wait(&r[0], s), "wait");
        if (s->state != MPD_STARTED || r[0] == MPD_REQUEST_NULL)
            printf("not started: %d\n", s->state);
        expect(MPD_Signal("SIGNOSUCH", 1, r), MPD_ERR_SIGNAL, "an unknown name");
        expect(MPD_Signal("65", 1, r), MPD_ERR_SIGNAL, "an unknown number");
        if (!is_quiet(100))
            printf("an unknown signal was delivered\n");
        ok(MPD_Signal(all[i].name, 1, r), all[i].name);
        ok(MPD_Wait(&r[0], s), "wait");
        int code;
        ok(MPD_Get_return_code(s, &code), "code");
        if (s->state != MPD_EXITED || s->signal != all[i].signal || code != 128 + all[i].signal)
            printf("%s: state %d signal %d\n", all[i].name, s->state, s->signal);
    }
    printf("signals: all\n");
}

/* A process that runs is cancelled; programs that cannot run; wrong arguments. */
static void wrong(void) {
    int flag = 0, code;
    MPD_Request bad = (MPD_Request)4711, none = MPD_REQUEST_NULL;
    expect(MPD_Wait(&bad, s), MPD_ERR_REQUEST, "wait for an unknown request");
    expect(MPD_Cancel(&none), MPD_ERR_REQUEST, "cancel null");
    ok(MPD_Test(&none, &flag, s), "test null");
    if (!flag || s->state != MPD_INACTIVE)
        printf("null: flag %d state %d\n", flag, s->state);
    expect(MPD_Iallocate(0, NULL, NULL, NULL, NULL, MPD_HARD, r), MPD_ERR_ARG, "no request");
    expect(MPD_Iallocate(1, NULL, NULL, NULL, NULL, 7, r), MPD_ERR_ARG, "hardness");
    expect(MPD_Iallocate(1, NULL, NULL, "a b", NULL, MPD_HARD, r), MPD_ERR_ARG, "architecture");
    if (mkfifo("ready", 0600) != 0)
        printf("no pipe\n");
    allocate(3, NULL, MPD_HARD, r);
    expect(MPD_Start(&r[0]), MPD_ERR_STATE, "a start before the grant");
    for (int i = 0; i < 3; i++)
        ok(MPD_Wait(&r[i], s), "wait");
    ok(MPD_Wait(&r[0], s), "wait for nothing");
    if (s->state != MPD_INACTIVE)
        printf("granted: state %d\n", s->state);
    expect(MPD_Get_return_code(s, &code), MPD_ERR_STATE, "a code of nothing");
    expect(MPD_Start(&r[0]), MPD_ERR_STATE, "a start without a program");
    ok(MPD_Set_exec(r[0], "/no/such/program"), "exec");
    ok(MPD_Set_exec(r[1], "/etc/passwd"), "exec");
    ok(MPD_Set_exec(r[2], "/bin/sh"), "exec");
    char *args[] = {"-c", "trap '' TERM; echo $2 $1 >&2; echo > ready; sleep 600 & wait", "x", ":", "b", NULL};
    ok(MPD_Set_args(r[2], args), "args");
    ok(MPD_Want(r[2], MPD_STARTED), "want");
    ok(MPD_Startall(3, r), "startall");
    for (int i = 0; i < 2; i++) {
        ok(MPD_Wait(&r[i], s), "wait");
        printf("state %d code %d\n", s->state, s->code);
    }
    ok(MPD_Wait(&r[2], s), "wait");
    /* It ignores SIGTERM when it has written to the pipe. */
    if (open("ready", O_RDONLY) < 0)
        printf("no pipe\n");
    ok(MPD_Cancel(&r[2]), "cancel");
    ok(MPD_Cancel(&r[2]), "cancel again");
    ok(MPD_Wait(&r[2], s), "wait");
    printf("state %d\n", s->state);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        printf("a child of the library\n");
}

/* Holds all slots, some of them with processes. For a line it exchanges one slot for a new request. The test ends it. */
static void hold(void) {
    allocate(10, NULL, MPD_SOFT, r);
    for (int all = 0, granted = 0; all < 10; all += n) {
        some(10);
        for (int i = 0; i < n; i++)
            if (s[i].state == MPD_GRANTED && granted++ < 3)
                shell(&r[at[i]], "exec sleep 600");
    }
    printf("held\n");
    if (getchar() == '\n')
        for (int i = 0; i < 6; i++) {
            int flag;
            ok(MPD_Test(&r[i], &flag, s), "test");
            if (flag && s->state == MPD_INACTIVE) {
                ok(MPD_Cancel(&r[i]), "cancel");
                ok(MPD_Wait(&r[i], s), "wait");
                allocate(1, NULL, MPD_HARD, &r[i]);
                ok(MPD_Wait(&r[i], s), "wait");
                printf("exchanged: state %d\n", s->state);
                break;
            }
        }
    pause();
}

/* Refused by the hook of the scheduler, then accepted. */
static void hook(void) {
    ok(MPD_Iallocate(1, "refuse", NULL, NULL, NULL, MPD_HARD, r), "allocate");
    ok(MPD_Wait(&r[0], s), "wait");
    printf("state %d code %d: %s\n", s->state, s->code, MPD_Error_detail());
    char *const local[] = {"large_memory", "large memory"};
    ok(MPD_Iallocate(2, "gang_schedule", local, NULL, NULL, MPD_GANG, r), "allocate");
    ok(MPD_Wait(&r[0], s), "wait");
    printf("state %d\n", s->state);
}

/* The next event, for which it waits; the error if none will come. */
static int event(MPD_Event *e) {
    for (;;) {
        int flag, code = MPD_Next_event(&flag, e);
        if (code != MPD_SUCCESS || flag)
            return code;
        struct pollfd fd = {MPD_Descriptor(), POLLIN, 0};
        if (poll(&fd, 1, 60000) != 1) {
            printf("no event\n");
            exit(1);
        }
    }
}

/* All events of the job "watched", whose rank N but the last one exits with N modulo 7. They are more than the helper
 * sends ahead. */
static void events(void) {
    MPD_Event e;
    int started = 0, exited = 0, coded = 0;
    long long last = 0;
    ok(MPD_Notify("watched", MPD_TASK_STARTED | MPD_TASK_EXITED | MPD_JOB_ENDED, 1), "notify");
    do {
        ok(event(&e), "event");
        if (e.number <= last)
            printf("number %lld after %lld\n", e.number, last);
        last = e.number;
        started += e.event == MPD_TASK_STARTED && e.rank >= 0 && e.host[0];
        exited += e.event == MPD_TASK_EXITED;
        coded += e.event == MPD_TASK_EXITED && e.code == e.rank % 7 && e.signal == 0;
        if (exited == 600 && e.event == MPD_TASK_EXITED)
            printf("all but one\n");
    } while (e.event != MPD_JOB_ENDED);
    printf("%d started, %d exited, %d as expected, code %d%s\n", started, exited, coded, e.code,
           is_quiet(100) ? "" : ", not quiet");
}

/* Its own job, a job that does not exist, wrong calls, and the end of a subscription. */
static void own(void) {
    MPD_Event e;
    int flag;
    ok(MPD_Notify(NULL, MPD_TASK_STARTED, 0), "notify");
    ok(event(&e), "event");
    printf("rank %d%s\n", e.rank, e.pid == (int)getpid() ? " is this process" : "");
    ok(MPD_Notify("nobody", MPD_ALL_EVENTS, 0), "notify");
    expect(event(&e), MPD_ERR_REFUSED, "an unknown job");
    printf("%s\n", MPD_Error_detail());
    expect(MPD_Notify(NULL, 512, 0), MPD_ERR_ARG, "an unknown event");
    expect(MPD_Notify(NULL, MPD_ALL_EVENTS, -1), MPD_ERR_ARG, "a negative number");
    expect(MPD_Notify("", MPD_ALL_EVENTS, 0), MPD_ERR_ARG, "no name");
    expect(MPD_Next_event(NULL, &e), MPD_ERR_ARG, "no flag");
    ok(MPD_Notify(NULL, MPD_ALL_EVENTS, 0), "notify");
    ok(MPD_Notify(NULL, 0, 0), "the end");
    ok(MPD_Next_event(&flag, &e), "next");
    printf("%d waits\n", flag);
}

int main(int argc, char *argv[]) {
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"twenty", twenty}, {"codes", codes}, {"hard", hard}, {"gang", gang}, {"none", none}, {"soft", soft}, {"nodes", nodes},
                  {"signals", signals}, {"wrong", wrong}, {"hold", hold}, {"hook", hook},
                  {"events", events}, {"own", own}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* The program may change its directory before its first call. */
    const char *directory = getenv("SCENE_DIRECTORY");
    if (directory != NULL && chdir(directory) != 0)
        printf("cannot enter %s\n", directory);
    for (unsigned i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            return 0;
        }
    return 2;
}
