/* Crashes in the way of its first argument; the second one is the only rank that crashes. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int broken(const volatile int *nowhere) {
    return *nowhere;
}

static void *faller(void *unused) {
    broken(NULL);
    return unused;
}

static void handler(int number) {
    _exit(number == SIGSEGV ? 7 : 8);
}

static volatile int asleep;

static void *sleeper(void *unused) {
    asleep = 1;
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *rank = getenv("PMI_RANK");
    alarm(60);
    if (argc > 2 && rank && strcmp(rank, argv[2]))
        return pause();
    if (!strcmp(what, "segv"))
        return broken(NULL);
    if (!strcmp(what, "abort"))
        abort();
    if (!strcmp(what, "handled")) {
        signal(SIGSEGV, handler);
        return broken(NULL);
    }
    if (!strcmp(what, "threads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleeper, NULL);
        while (!asleep)
            usleep(1000);
        return broken(NULL);
    }
    if (!strcmp(what, "last")) {
        pthread_t threads[20];
        for (int i = 0; i < 19; i++)
            pthread_create(&threads[i], NULL, sleeper, NULL);
        pthread_create(&threads[19], NULL, faller, NULL);
        return pause();
    }
    if (!strcmp(what, "together")) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, faller, NULL);
        return pause();
    }
    if (!strcmp(what, "fork")) {
        for (int i = 0; i < 100; i++)
            if (!fork())
                _exit(0);
        return 4;
    }
    if (!strcmp(what, "wait")) {
        printf("waiting\n");
        fflush(stdout);
        return pause();
    }
    return 1;
}
