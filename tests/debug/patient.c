/* A rank that debuggers attach to: it runs until one of them releases it, or for a minute. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int answer = 42;
static volatile int released;

static void wait_to_be_released(void) {
    while (!released)
        usleep(10000);
}

int main(void) {
    const char *rank = getenv("PMI_RANK");
    alarm(60);
    if (rank)
        answer += atoi(rank);
    printf("ready\n");
    fflush(stdout);
    wait_to_be_released();
    return 3;
}
