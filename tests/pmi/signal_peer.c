/* Rank 0 sends a named and two real-time signals to every rank, including itself; each rank prints "signalled RANK". */
#include <mpd/mpd.h>
#include <mpd/pmi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int spawned, rank, size, got;
    const int sent[] = {SIGUSR1, SIGRTMIN, SIGRTMAX};
    /* An unknown rank, or no valid signal: 0 only tests, and those below SIGRTMIN belong to the C library. */
    const int wrong[] = {0, SIGRTMIN - 1, SIGRTMAX + 1};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++)
        sigaddset(&set, sent[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    alarm(60);
    if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Get_size(&size) || PMI_Barrier())
        return 1;
    for (int i = 0; i < 3; i++) {
        for (int peer = 0; rank == 0 && peer < size; peer++) {
            int code = MPD_Signal_rank(peer, sent[i]);
            if (code) {
                fprintf(stderr, "MPD_Signal_rank gave %d for signal %d\n", code, sent[i]);
                return 2;
            }
        }
        if (rank == 0 && MPD_Signal_rank(0, wrong[i]) == 0)
            return 3;
        if (sigwait(&set, &got) || got != sent[i])
            return 4;
        /* Of two pending signals, the lower number would arrive first. */
        if (PMI_Barrier())
            return 5;
    }
    if (rank == 0 && (MPD_Signal_rank(size, SIGUSR1) == 0 || MPD_Signal_rank(-1, SIGUSR1) == 0))
        return 3;
    printf("signalled %d\n", rank);
    return PMI_Finalize();
}
