/* A farm of requests: ten slots are requested one by one, each process is started when its slot is granted, and requests
 * that are not needed are cancelled.
 *
 *     cc request_farm.c -o request_farm $(pkg-config --cflags --libs mpd)
 *     ./request_farm 25 /bin/hostname
 */
#include <mpd/mpd.h>
#include <stdio.h>
#include <stdlib.h>

#define OUTSTANDING 10

static void check(int code, const char *call) {
    if (code != MPD_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, MPD_Error_detail());
        exit(1);
    }
}

int main(int argc, char *argv[]) {
    if (argc < 3) {
        fprintf(stderr, "usage: request_farm TASKS PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    int tasks = atoi(argv[1]), started = 0, codes[256] = {0};
    MPD_Request requests[OUTSTANDING] = {MPD_REQUEST_NULL};
    for (int active = OUTSTANDING; active > 0;) {
        /* A new request for each one that is over, as long as tasks are left. */
        active = 0;
        for (int i = 0; i < OUTSTANDING; i++) {
            if (requests[i] == MPD_REQUEST_NULL && started < tasks)
                check(MPD_Iallocate(1, NULL, NULL, "*", NULL, MPD_HARD, &requests[i]), "MPD_Iallocate");
            active += requests[i] != MPD_REQUEST_NULL;
        }
        int count, index[OUTSTANDING], code;
        MPD_Status status[OUTSTANDING];
        check(MPD_Waitsome(OUTSTANDING, requests, &count, index, status), "MPD_Waitsome");
        for (int i = 0; i < count; i++) {
            MPD_Request *request = &requests[index[i]];
            if (status[i].state == MPD_GRANTED && started < tasks) {
                started++;
                check(MPD_Set_exec(*request, argv[2]), "MPD_Set_exec");
                check(MPD_Set_args(*request, argv + 3), "MPD_Set_args");
                check(MPD_Start(request), "MPD_Start");
            } else if (status[i].state == MPD_GRANTED) {
                /* No task is left for this slot. */
                check(MPD_Cancel(request), "MPD_Cancel");
            } else if (status[i].state == MPD_EXITED) {
                check(MPD_Get_return_code(&status[i], &code), "MPD_Get_return_code");
                codes[code]++;
            } else if (status[i].state == MPD_LOST) {
                fprintf(stderr, "lost on %s\n", status[i].host);
            }
        }
    }
    for (int code = 0; code < 256; code++)
        if (codes[code] > 0)
            printf("exit code %d: %d\n", code, codes[code]);
    return 0;
}
