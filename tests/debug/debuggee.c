/* A program for tests of a debugger; the first argument selects its behaviour. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int answer = 42;
static volatile long turns;

static int work(int round) {
    int twice = round * 2;
    answer += twice;
    return twice;
}

static void spin(void) {
    for (;;)
        turns++;
}

static void *worker(void *unused) {
    spin();
    return unused;
}

/* Prints the bytes from the peer of the PMI connection. */
static void tell_connection(void) {
    const char *number = getenv("PMI_FD");
    char text[64] = "none";
    if (number) {
        ssize_t count = read(atoi(number), text, sizeof text - 1);
        text[count > 0 ? count : 0] = 0;
    }
    printf("connection %s\n", text);
}

/* Blocks SIGINT and never ends. */
static void block_interrupts(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("spinning\n");
    spin();
}

/* Waits for a signal that debuggers pass to the program. */
static void wait_for_signal(void) {
    sigset_t set;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("waiting\n");
    sigwait(&set, &number);
    printf("signal %s\n", number == SIGUSR1 ? "USR1" : "other");
}

static void echo(void) {
    static char line[100000];
    printf("name? ");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        printf("got %zu\n", strlen(line));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int total = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(120);
    if (!strcmp(what, "connection"))
        tell_connection();
    else if (!strcmp(what, "echo"))
        echo();
    else if (!strcmp(what, "signal"))
        wait_for_signal();
    else if (!strcmp(what, "block"))
        block_interrupts();
    else if (!strcmp(what, "crash"))
        *(volatile int *)argv[argc] = 1;
    else if (!strcmp(what, "lines"))
        for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 100000); i++)
            printf("line %d\n", i);
    else if (!strcmp(what, "threads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, worker, NULL);
        while (!turns)
            usleep(1000);
        printf("spinning\n");
        spin();
    } else if (!strcmp(what, "environment"))
        printf("%d %d %d\n", !!getenv("LINES"), !!getenv("COLUMNS"), !!getenv("MPD_SHIM_FD"));
    for (int i = 0; i < 3; i++)
        total += work(i);
    return total == 6 ? 3 : 1;
}
