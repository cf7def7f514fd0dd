//! The environment of an `mpirun` that a console starts for itself: for the worker of a farm, or for a process of `libmpd`.

use mpd_io::process::spawn::own_environment;

/// Variables that give `mpirun` options about input, output, hosts and time. They are meant for jobs of the user. Here
/// they would change the messages of the job, or end it.
const OPTIONS_OF_JOBS: [&str; 20] = [
    "HYDRA_HOST_FILE",
    "HYDRA_PREPEND_RANK",
    "I_MPI_HYDRA_HOST_FILE",
    "I_MPI_JOB_TIMEOUT",
    "I_MPI_MPIEXEC_TIMEOUT",
    "I_MPI_PERHOST",
    "MPIEXEC_EXITCODES_FILENAME",
    "MPIEXEC_GDB",
    "MPIEXEC_LINE_LABEL_FMT",
    "MPIEXEC_MACHINEFILE",
    "MPIEXEC_MERGE_OUTPUT",
    "MPIEXEC_PREFIX_DEFAULT",
    "MPIEXEC_PREFIX_STDERR",
    "MPIEXEC_PREFIX_STDOUT",
    "MPIEXEC_PREPEND_RANK",
    "MPIEXEC_SHOW_LINE_LABELS",
    "MPIEXEC_STDIN_DEST",
    "MPIEXEC_TIMEOUT",
    "PALS_HOSTFILE",
    "PALS_HOSTLIST",
];

/// Our environment without [`OPTIONS_OF_JOBS`].
pub(crate) fn environment() -> Vec<Vec<u8>> {
    let mut environment = own_environment();
    environment.retain(|entry| {
        let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
        !OPTIONS_OF_JOBS.iter().any(|option| option.as_bytes() == name)
    });
    environment
}
