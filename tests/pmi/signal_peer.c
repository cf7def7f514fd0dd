/* Rank 0 has SIGUSR1 sent to every rank, itself among them; each says "signalled RANK". */
#include <mpd/mpd.h>
#include <mpd/pmi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int spawned, rank, size, got;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    alarm(60);
    if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Get_size(&size) || PMI_Barrier())
        return 1;
    for (int peer = 0; rank == 0 && peer < size; peer++) {
        int code = MPD_Signal_rank(peer, SIGUSR1);
        if (code) {
            fprintf(stderr, "MPD_Signal_rank gave %d\n", code);
            return 2;
        }
    }
    if (rank == 0 && (MPD_Signal_rank(size, SIGUSR1) == 0 || MPD_Signal_rank(-1, SIGUSR1) == 0))
        return 3;
    if (sigwait(&set, &got) || got != SIGUSR1)
        return 4;
    printf("signalled %d\n", rank);
    return PMI_Finalize();
}
