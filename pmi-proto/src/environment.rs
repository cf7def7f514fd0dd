//! Inherited variables that belong to an enclosing launcher.
//!
//! An mpirun that runs inside an MPI job or inside srun inherits variables that would lead its clients to the outer
//! job's server. The launching side removes them before it sets its own. This module reads no environment and does not
//! decide which variables are set.

/// Whether a client must not inherit the variable of this name from the environment of mpirun.
///
/// True for variables that launchers set for their ranks: all of PMI, PMI-2 and PMIx, of PRRTE, of Flux, and the
/// internal ones of Hydra. Also the rank variables of Open MPI and MVAPICH, and the variables of a step of Slurm.
///
/// Two decisions:
///
/// * `HYDRA_*` and `MPIEXEC_*` stay, as do `MPIR_CVAR_*`, `I_MPI_*` and `OMPI_MCA_*`: users set them, and no launcher
///   does for its ranks. Three of `OMPI_MCA_*` are removed: they say how a rank is bound, and that its host is crowded. A second mpirun inside the job also obeys `MPIEXEC_TIMEOUT`, as under Hydra. `PMIX_MCA_*` stay
///   too: they are the parameters of the PMIx library. `PMI_DEBUG` is removed with its family, although users may set
///   it. In those families it is safer to remove too much, and a user can name a variable to mpirun.
/// * Slurm's allocation (`SLURM_JOB_ID`, `SLURM_JOB_NODELIST`, …) stays, because the job still belongs to it. The
///   variables about mpirun's own rank and step are removed, because they do not describe its ranks.
pub fn is_launcher_variable(name: &[u8]) -> bool {
    EXACT.iter().any(|exact| exact.as_bytes() == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
            && !name.starts_with(b"PMIX_MCA_")
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
    // The addresses of the PMI-2 and PMIx servers of slurmstepd.
    "SLURM_PMI",
];

const EXACT: &[&str] = &[
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_orte_base_applied_binding",
    "OMPI_MCA_orte_bound_at_launch",
    // This variable makes Open MPI 4 expect a launcher with PMIx.
    "JSM_JSRUN_PORT",
    // This variable makes MVAPICH write a binary frame into the line protocol.
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
    fn variables_that_lead_to_an_outer_server_belong_to_the_launcher() {
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
            "OMPI_MCA_mpi_oversubscribe",
            "OMPI_MCA_orte_bound_at_launch",
            "JSM_JSRUN_PORT",
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
    fn variables_of_the_allocation_and_of_the_user_do_not_belong_to_the_launcher() {
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
            "PMIX_MCA_gds",
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
