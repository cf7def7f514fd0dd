//! Which inherited variables belong to an enclosing launcher.
//!
//! An mpirun started inside an MPI job, or inside srun, inherits variables that lead its clients
//! to the outer job's server. The launching side drops them before it sets its own. What it sets
//! is not decided here; nothing here reads the environment.

/// Whether a variable of this name must not reach a client from the environment mpirun was
/// started in.
///
/// True for what launchers set for their ranks: everything of PMI, PMI-2 and PMIx, of PRRTE,
/// Flux and Hydra's inner workings, the rank variables of Open MPI and MVAPICH, and of Slurm the
/// variables of a step.
///
/// Two decisions worth knowing:
///
/// * `HYDRA_*` and `MPIEXEC_*` stay, as `MPIR_CVAR_*`, `I_MPI_*` and `OMPI_MCA_*` do: people set
///   them, no launcher does for its ranks. A second mpirun inside the job takes a `MPIEXEC_TIMEOUT` for
///   itself, too, as under Hydra. `PMI_DEBUG` and `PMIX_MCA_*` go with their families, though
///   people set these too: in those families dropping too much is the safe side, and who wants
///   them in a job names them to mpirun.
/// * Slurm's allocation (`SLURM_JOB_ID`, `SLURM_JOB_NODELIST`, …) stays: the job is still in it.
///   Which rank of which step mpirun itself is does not describe its ranks.
pub fn is_launcher_variable(name: &[u8]) -> bool {
    EXACT.iter().any(|exact| exact.as_bytes() == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

const PREFIXES: &[&str] = &[
    "PMI_",
    "PMI2_",
    "PMIX_",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "MV2_COMM_WORLD_",
    "PRTE_",
    "FLUX_",
    "HYDI_",
    "SLURM_STEP_",
    // Where slurmstepd's own PMI-2 and PMIx servers listen.
    "SLURM_PMI",
];

const EXACT: &[&str] = &[
    "OMPI_UNIVERSE_SIZE",
    // Makes MVAPICH write a binary frame into the middle of the line protocol.
    "MPIRUN_RSH_LAUNCH",
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_SRUN_COMM_HOST",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_LAUNCH_NODE_IPADDR",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_an_outer_server_is_the_launcher_s() {
        for name in [
            "PMI_FD",
            "PMI_PORT",
            "PMI_RANK",
            "PMI_SPAWNED",
            "PMI_TOTALVIEW",
            "PMI2_DEBUG",
            "PMIX_NAMESPACE",
            "PMIX_SERVER_URI41",
            "MPI_LOCALRANKID",
            "MPI_LOCALNRANKS",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_UNIVERSE_SIZE",
            "MV2_COMM_WORLD_RANK",
            "MPIRUN_RSH_LAUNCH",
            "PRTE_LAUNCHED",
            "FLUX_JOB_ID",
            "HYDI_CONTROL_FD",
            "SLURM_PROCID",
            "SLURM_LOCALID",
            "SLURM_STEP_ID",
            "SLURM_STEPID",
            "SLURM_PMI2_SRUN_PORT",
        ] {
            assert!(is_launcher_variable(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_allocation_and_the_user_s_settings_are_not_the_launcher_s() {
        for name in [
            "PATH",
            "PMI",
            "XPMI_FD",
            "MPIR_CVAR_PMI_VERSION",
            "MPICH_PORT_RANGE",
            "MPIEXEC_PORT_RANGE",
            "MPIEXEC_TIMEOUT",
            "MPIEXEC_MINE",
            "HYDRA_LAUNCHER",
            "I_MPI_SPAWN",
            "OMPI_MCA_btl",
            "SLURM_JOB_ID",
            "SLURM_JOBID",
            "SLURM_NODELIST",
            "SLURM_NTASKS",
            "SLURM_TASKS_PER_NODE",
            "SLURM_CPUS_ON_NODE",
            "",
        ] {
            assert!(!is_launcher_variable(name.as_bytes()), "{name}");
        }
    }
}
