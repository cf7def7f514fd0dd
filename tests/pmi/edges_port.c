/* PMI_Lookup_name against a process manager that answers with ports of any length: no byte after the
 * MPI_MAX_PORT_NAME characters of the caller is written, and a longer port is an error. Run alone; prints "edges ok 0". */
#include <mpd/pmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define must(condition)                                                  \
    do {                                                                 \
        if (!(condition)) {                                              \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);      \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* Answers one client. A lookup of the service N finds a port of N characters. */
static void serve(int fd) {
    FILE *in = fdopen(fd, "r");
    char line[2048];
    while (fgets(line, sizeof line, in)) {
        char *answer = "cmd=finalize_ack rc=0";
        char *service = strstr(line, "service=");
        if (service) {
            char port[1024] = "";
            memset(port, 'p', strtoul(service + 8, NULL, 10));
            dprintf(fd, "cmd=lookup_result rc=0 msg=success port=%s\n", port);
            continue;
        } else if (strstr(line, "cmd=init"))
            answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
        else if (strstr(line, "cmd=get_maxes"))
            answer = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
        else if (strstr(line, "cmd=get_appnum"))
            answer = "cmd=appnum appnum=0";
        else if (strstr(line, "cmd=get_my_kvsname"))
            answer = "cmd=my_kvsname kvsname=kvs_1";
        dprintf(fd, "%s\n", answer);
    }
    exit(0);
}

int main(void) {
    static const int lengths[] = {1, 255, 256, 300, 900, 970};
    int pair[2], spawned;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t server = fork();
    if (server == 0) {
        close(pair[0]);
        serve(pair[1]);
    }
    close(pair[1]);
    char number[16];
    snprintf(number, sizeof number, "%d", pair[0]);
    setenv("PMI_FD", number, 1);
    must(PMI_Init(&spawned) == PMI_SUCCESS);
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        struct {
            char port[256], canary[1024];
        } room;
        memset(&room, '#', sizeof room);
        snprintf(number, sizeof number, "%d", lengths[at]);
        int code = PMI_Lookup_name(number, room.port);
        must(code == (lengths[at] < 256 ? PMI_SUCCESS : PMI_ERR_INVALID_LENGTH));
        must(strnlen(room.port, 256) == (code ? 0 : (size_t)lengths[at]));
        for (size_t behind = 0; behind < sizeof room.canary; behind++)
            must(room.canary[behind] == '#');
    }
    must(PMI_Finalize() == PMI_SUCCESS);
    close(pair[0]);
    int status;
    must(waitpid(server, &status, 0) == server);
    puts("edges ok 0");
    return 0;
}
