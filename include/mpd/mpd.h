/* Functions of MPD beyond PMI. Other process managers refuse them, and some end a job that sends an
 * unknown request.
 *
 * Both functions send a signal to a rank of the caller's job. SIGRTMIN to SIGRTMAX are allowed too. They return 0
 * (PMI_SUCCESS) when the signal is sent. MPD_Signal_rank is in libpmi.so.0, for processes that have called PMI_Init.
 * MPD2_Signal_rank is in libpmi2.so.0, for processes that have called PMI2_Init.
 */
#ifndef MPD_MPD_H
#define MPD_MPD_H

#ifdef __cplusplus
extern "C" {
#endif

int MPD_Signal_rank(int rank, int signal);
int MPD2_Signal_rank(int rank, int signal);

#ifdef __cplusplus
}
#endif

#endif
