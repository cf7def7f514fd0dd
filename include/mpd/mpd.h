/* What a process can ask of MPD beyond PMI. Other process managers refuse it, and some
 * end the job of who asks what they do not know.
 *
 * Both functions have a signal, which may be SIGRTMIN to SIGRTMAX, sent to a rank of the caller's job, and return 0
 * (PMI_SUCCESS) when it is sent. The one is in libpmi.so.0, for processes that have called PMI_Init, the other in
 * libpmi2.so.0, for those that have called PMI2_Init.
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
