/* interrupt_peer FROM TO: rank FROM sends SIGUSR2 to rank TO, whose handler runs, also while TO waits for the
 * others in a barrier. TO prints "handler of TO ran once on HOST", FROM "FROM is on HOST". */
#include <mpd/mpd.h>
#include <mpd/pmi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t ran;

static void handler(int signal)
{
    (void)signal;
    ran++;
}

int main(int argc, char **argv)
{
    int spawned, rank, from, to;
    char *host = getenv("PMI_HOSTNAME");
    /* No SA_RESTART: the library must repeat the call by itself. */
    struct sigaction action = { .sa_handler = handler };

    if (argc != 3)
        return 1;
    from = atoi(argv[1]);
    to = atoi(argv[2]);
    alarm(60);
    if (sigaction(SIGUSR2, &action, NULL) || PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Barrier())
        return 2;
    if (rank == from && MPD_Signal_rank(to, SIGUSR2))
        return 3;
    if (PMI_Barrier())
        return 4;
    while (rank == to && !ran)
        usleep(1000);
    if (PMI_Barrier())
        return 5;
    if (rank == to)
        printf("handler of %d ran %s on %s\n", rank, ran == 1 ? "once" : "often", host ? host : "?");
    else if (rank == from)
        printf("%d is on %s\n", rank, host ? host : "?");
    else if (ran)
        return 6;
    return PMI_Finalize();
}
