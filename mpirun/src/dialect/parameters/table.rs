//! The table of the parameters of Open MPI's launchers, by subject. The last rows have the frameworks of the launchers.

use super::functions as f;
use super::row::{Parameter, When};
use crate::dialect::answer::{Answer, O, O4, O5};
use crate::dialect::{open_mpi, output};

const fn row(of: u16, when: When, keys: &'static [&'static str], answer: Answer) -> Parameter {
    Parameter { keys, of, when, answer }
}

const DAEMONS: &str = "mpdboot starts the daemons, and mpd --log-file has their messages";
const NETWORK: &str = "mpdboot chooses the network of the daemons (ifhn=NAME in the host file)";
const TREE: &str = "the tree of the launch is chosen by the number of hosts";
const NAMES: &str = "hosts keep the names that the user gives them";
const RESTARTS: &str = "a failed rank is not started again";
const SIMULATED: &str =
    "hosts are not simulated; -dry-run shows the placement on the hosts that there are";
const TOPOLOGY: &str = "the topology is read from the system";
const CHECKPOINTS: &str = "checkpoints are not supported";
const LIBRARY: &str = "the MPI library obeys it";
const SHOWN: &str = "-dry-run shows the hosts";
const VERBOSE: &str = "-v prints each step, and mpd --log-file has the messages of the daemons";
const FILES: &str = "mpirun reads the files of -tune and -am and those in the home directory; the MPI library obeys it";
const INTERNAL: &str = "it concerns the daemons of Open MPI";
const UNKNOWN: &str = "this parameter of the launcher is not known here";
const CHOICE: &str = "there is one implementation of this part";

#[rustfmt::skip]
pub(in crate::dialect) static PARAMETERS: &[Parameter] = {
    use Answer::{Accepted, Computed, Collected, Silent, Words};
    use When::{Always, No, Yes};
    &[
    // Hosts and slots.
    row(O, Always, &["orte_default_hostfile", "prte_default_hostfile"], Collected(|layout, values, _| layout.default_file(values[0]), "`-f VALUE`, unless options or a batch system give hosts; `none`: no file")),
    row(O, Always, &["orte_default_dash_host", "prte_default_dash_host"], Collected(f::default_hosts, "`-hosts VALUE`, unless options or a batch system give hosts; `none`: no hosts")),
    row(O, Always, &["orte_set_default_slots", "prte_set_default_slots"], Collected(|layout, values, _| layout.default_slots(values[0]), "the slots of hosts without a number: a number, `cores`, `sockets`, `packages`, `numas` or `hwthreads`")),
    row(O5, Yes, &["prte_set_default_slots_override"], Accepted("a number in the host file comes first")),
    row(O, Yes, &["orte_allocation_required", "prte_allocation_required"], Accepted("without a batch system, the named hosts or this one are used")),
    row(O4, Yes, &["orte_soft_locations"], Accepted("-host names the only hosts of a program")),
    row(O, Always, &["orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames", "orte_retain_aliases", "orte_hostname_alias_index", "orte_show_resolved_nodenames", "prte_show_resolved_nodenames", "prte_do_not_resolve", "prte_strip_prefix"], Silent(NAMES)),
    row(O4, Yes, &["rmaps_base_no_schedule_local"], Words(&["-nolocal"])),
    row(O4, No, &["rmaps_base_oversubscribe"], Words(&["-nooversubscribe"])),
    row(O4, Yes, &["rmaps_base_no_oversubscribe"], Words(&["-nooversubscribe"])),
    row(O, Always, &["ras"], Accepted("the batch system is detected; -hosts and -f name other hosts")),
    row(O, Yes, &["ras_base_display_alloc", "ras_base_display_devel_alloc", "orte_display_alloc", "orte_display_devel_alloc"], Accepted(SHOWN)),
    row(O, Yes, &["ras_slurm_use_entire_allocation"], Accepted("inside a step, the hosts of the step are used; name others with -hosts")),
    row(O, Always, &["ras_base_multiplier", "ras_simulator_*", "ras_testrm_*"], Accepted(SIMULATED)),
    row(O, Yes, &["ras_base_launch_orted_on_hn"], Silent("the first manager of a job runs on the host of mpirun")),

    // Mapping and binding.
    row(O, Always, &["rmaps_base_mapping_policy", "rmaps_default_mapping_policy", "rmaps_base_schedule_policy", "mapby", "map_by"], Collected(|layout, values, _| layout.map_by(values[0]), "`--map-by VALUE`")),
    row(O, Always, &["rmaps_base_ranking_policy", "rmaps_default_ranking_policy", "rankby", "rank_by"], Collected(|layout, values, _| layout.rank_by(values[0]), "`--rank-by VALUE`")),
    row(O, Always, &["hwloc_base_binding_policy", "hwloc_default_binding_policy", "bindto", "bind_to"], Collected(|layout, values, _| layout.bind_to(values[0]), "`--bind-to VALUE`")),
    row(O4, Yes, &["hwloc_base_bind_to_core"], Collected(|layout, _, _| layout.bind_to("core"), "`--bind-to core`")),
    row(O4, Yes, &["hwloc_base_bind_to_socket"], Collected(|layout, _, _| layout.bind_to("socket"), "`--bind-to socket`")),
    row(O, Always, &["hwloc_base_cpu_set", "hwloc_base_cpu_list", "hwloc_base_slot_list", "hwloc_default_cpu_list"], Collected(|layout, values, _| layout.cpu_list(values[0]), "`--cpu-set VALUE`")),
    row(O, Yes, &["hwloc_base_use_hwthreads_as_cpus", "hwloc_default_use_hwthreads_as_cpus"], Collected(|layout, _, _| layout.threads(), "`--use-hwthread-cpus`")),
    row(O, Yes, &["hwloc_base_report_bindings", "orte_report_bindings"], Words(&["-report-bindings"])),
    row(O, Always, &["hwloc_base_topo_file", "rmaps_base_topology", "pmix_hwloc_topo_file"], Accepted(TOPOLOGY)),
    row(O4, Yes, &["rmaps_base_bycore"], Collected(|layout, _, _| layout.map_by("core"), "`--map-by core`")),
    row(O4, Yes, &["rmaps_base_bynode"], Collected(|layout, _, _| layout.map_by("node"), "`--map-by node`")),
    row(O4, Yes, &["rmaps_base_byslot"], Collected(|layout, _, _| layout.map_by("slot"), "`--map-by slot`")),
    row(O4, Yes, &["rmaps_base_cpus_per_proc", "rmaps_base_cpus_per_rank"], Collected(|layout, values, _| layout.width(values[0]), "`--cpus-per-proc VALUE`")),
    row(O4, Yes, &["rmaps_base_pernode", "rmaps_ppr_pernode"], Words(&["-ppn", "1"])),
    row(O4, Yes, &["rmaps_base_n_pernode", "rmaps_ppr_n_pernode"], Words(&["-ppn", "{0}"])),
    row(O4, Yes, &["rmaps_base_n_persocket", "rmaps_ppr_n_persocket"], Collected(|layout, values, _| layout.per_part(values[0], "socket"), "`--npersocket VALUE`")),
    row(O4, Always, &["rmaps_base_pattern", "rmaps_ppr_pattern"], Collected(|layout, values, _| layout.ppr(values[0]), "`--map-by ppr:VALUE`")),
    row(O4, Always, &["rmaps_rank_file_path", "orte_rankfile"], Words(&["-rankfile", "{0}"])),
    row(O4, Yes, &["rmaps_rank_file_physical"], Accepted("write slot=pN in the rank file")),
    row(O4, Yes, &["rmaps_base_display_map", "rmaps_base_display_devel_map", "rmaps_base_display_diffable_map", "rmaps_base_display_topo_with_map"], Words(&["-print-rank-map"])),
    row(O5, Always, &["display"], Collected(open_mpi::display, "`--display VALUE`")),
    row(O, Yes, &["rmaps_base_inherit", "rmaps_default_inherit"], Accepted("-spawn-policy places spawned processes")),
    row(O4, Always, &["rmaps_dist_device"], Accepted("ranks are not placed by their distance from a device")),
    row(O4, Always, &["rmaps_resilient_fault_grp_file"], Accepted(RESTARTS)),
    row(O, Always, &["rmaps"], Collected(f::mapper, "`seq`: `--map-by seq`; others have no effect, because --map-by chooses the mapper")),
    row(O, Yes, &["orte_daemon_cores", "prte_daemon_cores"], Accepted("bind the daemons themselves: taskset before mpdboot")),

    // The start of daemons on other hosts.
    row(O, Always, &["plm_rsh_agent", "plm_ssh_agent", "orte_rsh_agent", "prte_ssh_agent", "pls_rsh_agent", "pls_ssh_agent"], Collected(f::agent, "`-launcher-exec VALUE`; of a list like `ssh : rsh`, the first program that is here")),
    row(O, Always, &["plm_rsh_args", "plm_ssh_args"], Collected(|layout, values, _| layout.remote_arguments(values[0]), "`-launcher-args VALUE`")),
    row(O, Always, &["plm"], Collected(|layout, values, _| Ok(layout.plm(values[0])), "`rsh`, `ssh` and `^slurm`: `-launcher ssh`; `slurm`: `-launcher srun`; others have no effect, because the batch system is detected")),
    row(O, Yes, &["plm_rsh_force_rsh"], Words(&["-launcher", "rsh"])),
    row(O, Yes, &["plm_ssh_force_ssh", "plm_rsh_disable_qrsh", "plm_ssh_disable_qrsh", "plm_rsh_disable_llspawn", "plm_ssh_disable_llspawn"], Words(&["-launcher", "ssh"])),
    row(O, Always, &["plm_rsh_num_concurrent", "plm_ssh_num_concurrent"], Accepted("mpdboot --window sets how many hosts one host starts at a time")),
    row(O, Always, &["plm_rsh_no_tree_spawn", "plm_ssh_no_tree_spawn"], Accepted(TREE)),
    row(O, Always, &["plm_rsh_chdir", "plm_ssh_chdir", "plm_rsh_delay", "plm_ssh_delay", "plm_rsh_pass_libpath", "plm_ssh_pass_libpath"], Accepted("a launcher of your own can do it: -launcher CMD gets HOST and COMMAND")),
    row(O, Always, &["plm_rsh_assume_same_shell", "plm_ssh_assume_same_shell", "orte_assume_same_shell", "prte_assume_same_shell", "plm_rsh_pass_environ_mca_params", "plm_ssh_pass_environ_mca_params"], Silent("daemons need no environment, and start in any shell")),
    row(O, Always, &["plm_slurm_args"], Accepted("write srun with its arguments: -launcher-exec")),
    row(O, Always, &["plm_slurm_warning"], Silent("there is no such warning")),
    row(O, Always, &["orte_launch_agent", "prte_launch_agent"], Accepted("-launcher names the remote shell, and mpdboot -m the daemon")),
    row(O, Yes, &["orte_startup_timeout"], Accepted("each host has its time for the start; -timeout limits the whole job")),
    row(O, Always, &["oob_tcp_if_include", "oob_tcp_if_exclude", "oob_tcp_include", "oob_tcp_exclude", "prte_if_include", "prte_if_exclude", "oob_tcp_static_*", "oob_tcp_dynamic_*", "oob_tcp_disable_*"], Accepted(NETWORK)),
    row(O, Yes, &["orte_leave_session_attached", "orte_debug", "orte_debug_daemons", "orte_debug_daemons_file", "orte_report_launch_progress", "state_base_show_launch_progress"], Accepted(DAEMONS)),

    // Variables of ranks.
    row(O4, Always, &["mca_base_env_list"], Collected(|layout, values, _| layout.export(values[0]), "`-genv` for each NAME=VALUE of the list, unless an option sets the variable")),
    row(O4, Always, &["mca_base_env_list_delimiter"], Collected(|layout, values, _| layout.delimiter(values[0]), "the separator of mca_base_env_list, `;` by default")),
    row(O, Always, &["mca_base_param_file_prefix"], Collected(|layout, values, _| layout.aggregate(values[0]), "`-am VALUE`")),
    row(O, Always, &["mca_base_envar_file_prefix"], Collected(|layout, values, _| layout.tune(values[0]), "`-tune VALUE`")),
    row(O, Always, &["mca_base_param_files", "mca_base_param_file_path", "mca_base_param_file_path_force"], Accepted(FILES)),
    row(O5, Always, &["prte_fwd_environment"], Silent("ranks get the whole environment")),
    row(O5, Always, &["prte_set_max_sys_limits"], Accepted("all limits are passed; -rlimit changes them")),
    row(O, Always, &["ess_base_stream_buffering"], Silent(LIBRARY)),

    // Output and input.
    row(O4, Yes, &["orte_tag_output"], Computed(output::tag_4, "`-prepend-pattern [%w]<std%o>:`")),
    row(O5, Yes, &["iof_tag_output", "prte_tag_output"], Computed(output::tag_5, "`-prepend-pattern [%w]<std%o>: `")),
    row(O, Yes, &["orte_timestamp_output", "iof_timestamp_output", "prte_timestamp_output"], Words(&["-timestamp"])),
    row(O, Yes, &["orte_xml_output", "iof_xml_output", "prte_xml_output"], Accepted("output has no XML form")),
    row(O4, Always, &["orte_xml_file"], Accepted("output has no XML form")),
    row(O4, Yes, &["iof_base_redirect_app_stderr_to_stdout"], Words(&["-merge-stderr-to-stdout"])),
    row(O, Always, &["iof_base_output_limit", "iof_output_limit"], Silent("output is never dropped; a slow reader slows the ranks")),
    row(O4, Always, &["orte_xterm"], Accepted("write xterm -e before the program")),
    row(O, Yes, &["orte_execute_quiet", "prte_execute_quiet"], Words(&["-quiet"])),
    row(O, Always, &["orte_base_help_aggregate", "orte_report_silent_errors", "prte_report_silent_errors", "orte_map_stddiag_to_stderr", "orte_map_stddiag_to_stdout"], Silent("each message appears once, on standard error")),

    // The end of a job.
    row(O, No, &["orte_abort_on_non_zero_status", "state_base_error_non_zero_exit"], Words(&["-on-failure", "continue"])),
    row(O, Yes, &["orte_enable_recovery", "state_base_recoverable", "state_base_continuous", "state_base_notify_errors"], Words(&["-on-failure", "continue"])),
    row(O, Yes, &["orte_max_restarts", "state_base_max_restarts", "state_base_autorestart"], Accepted(RESTARTS)),
    row(O, Yes, &["orte_allowed_exit_without_sync", "prte_allowed_exit_without_sync"], Accepted("-elastic lets ranks end with 0 at any time, and -on-failure continue lets the others run")),
    row(O, Always, &["orte_report_child_jobs_separately", "prte_report_child_jobs_separately"], Silent("the exit code is that of the first failed rank")),
    row(O, Always, &["ess_base_forward_signals", "ess_hnp_forward_signals"], Collected(f::signals, "every signal that can be caught is forwarded; `none` has no effect")),
    row(O, Always, &["odls_base_sigkill_timeout"], Accepted("SIGKILL follows SIGTERM after a fixed time")),
    row(O, Yes, &["odls_base_signal_direct_children_only"], Accepted("signals reach the process group of each rank")),
    row(O, Always, &["orte_timeout_for_stack_trace", "prte_timeout_for_stack_trace"], Accepted("mpirun -stacks JOB prints the stacks of a running job")),
    row(O5, Always, &["rtos", "runtime_options"], Collected(open_mpi::runtime_options, "`--runtime-options VALUE`")),

    // The rest of the launcher.
    row(O, Yes, &["orte_do_not_launch"], Words(&["-dry-run"])),
    row(O, Always, &["orte_fork_agent", "odls_base_exec_agent"], Accepted("write the command before the program")),
    row(O, Always, &["orte_tmpdir_base", "prte_tmpdir_base"], Words(&["-tmpdir", "{0}"])),
    row(O, Always, &["orte_local_tmpdir_base", "prte_local_tmpdir_base", "orte_remote_tmpdir_base", "prte_remote_tmpdir_base", "orte_no_session_dirs", "prte_no_session_dirs", "orte_top_session_dir", "orte_jobfam_session_dir"], Accepted("-tmpdir is the directory for all hosts")),
    row(O4, No, &["orte_create_session_dirs"], Accepted("a job has a directory of its own, which it removes")),
    row(O4, Always, &["orte_server", "ess_singleton_server"], Accepted("published names are in the ring")),
    row(O4, Always, &["ess_singleton_isolated"], Silent("it concerns programs without a launcher")),
    row(O4, Always, &["orte_report_events"], Accepted("mpdwatch prints the events of a ring")),
    row(O4, Yes, &["orte_output_debugger_proctable"], Accepted("use -proctable FILE")),
    row(O4, Always, &["orte_base_user_debugger", "orte_debugger_*"], Accepted("use -d")),
    row(O, Always, &["schizo_ompi_warn_deprecations", "schizo_prte_warn_deprecations", "prte_silence_shared_fs", "prte_signal", "prte_stacktrace_output"], Silent("there is no such message")),
    row(O, Always, &["snapc*", "sstore*"], Accepted(CHECKPOINTS)),
    row(O, Yes, &["plm_base_verbose", "ras_base_verbose", "rmaps_base_verbose", "odls_base_verbose", "ess_base_verbose", "iof_base_verbose", "oob_base_verbose", "errmgr_base_verbose", "state_base_verbose", "grpcomm_base_verbose", "routed_base_verbose", "rml_base_verbose", "schizo_base_verbose", "regx_base_verbose", "filem_base_verbose", "rtc_base_verbose"], Accepted(VERBOSE)),

    // The frameworks of the launchers.
    row(O, Always, &["orte_no_vm", "state_novm_select", "orte_enable_instant_on_support", "orte_fwd_mpirun_port", "prte_hetero_nodes", "routed_radix", "rml_base_radix", "plm_base_node_regex_threshold", "orte_max_vm_size", "prte_max_vm_size"], Accepted(TREE)),
    row(O, Always, &["errmgr", "ess", "filem", "grpcomm", "iof", "odls", "oob", "regx", "rml", "routed", "rtc", "schizo", "state"], Accepted(CHOICE)),
    row(O4, Always, &["odls_base_*", "odls_default_*", "regx_*", "ess_tool_*", "ess_base_*", "orte_ess_*", "orte_daemon_*", "orte_progress_*", "orte_stat_*", "orte_coll_transports", "orte_mgmt_transports", "orte_hostname_cutoff", "orte_node_regex"], Accepted(INTERNAL)),
    row(O4, Always, &["rmaps_mindist_priority", "rmaps_rank_file_priority", "rmaps_resilient_priority"], Accepted("--map-by chooses the mapper")),
    row(O, Always, &["rmaps_ppr_priority", "rmaps_round_robin_priority", "rmaps_seq_priority"], Accepted("--map-by chooses the mapper")),
    row(O, Always, &["plm_rsh_daemonize_*", "plm_ssh_daemonize_*", "plm_rsh_priority", "plm_ssh_priority", "ras_pbs_*", "ras_slurm_*", "orte_debug_verbose"], Accepted(INTERNAL)),
    row(O5, Always, &["prte_daemon_*", "prte_ess_*", "prte_progress_*", "prte_bind_progress_*", "prte_stat_*", "prte_net_private_ipv4", "prte_pmix_verbose"], Accepted(INTERNAL)),
    row(O, Always, &["errmgr_*", "grpcomm_*", "oob_*", "rml_*", "routed_*", "rtc_*", "schizo_*", "state_*", "filem_*"], Accepted(INTERNAL)),
    row(O4, Always, &["orte_*"], Accepted(UNKNOWN)),
    row(O5, Always, &["prte_*", "prtebacktrace*", "prtedl*", "prtereachable*"], Accepted(UNKNOWN)),
    row(O, Always, &["plm_*", "pls_*", "ras_*", "rmaps_*", "iof_*", "odls_*", "ess_*", "dfs_*", "notifier_*"], Accepted(UNKNOWN)),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::parameters::find;

    #[test]
    fn every_parameter_that_the_launchers_list_has_a_row_of_its_own_or_of_its_kind() {
        let listed = include_str!("listed.txt").lines().filter(|line| !line.starts_with('#'));
        let is_missing = |key: &&str| match find(key).map(|row| row.answer) {
            None => true,
            Some(Answer::Accepted(reason)) => reason == UNKNOWN,
            Some(_) => false,
        };
        let missing: Vec<&str> = listed.filter(is_missing).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn parameters_of_the_library_are_in_no_row() {
        for key in [
            "btl",
            "btl_tcp_if_include",
            "pml",
            "coll_hcoll_enable",
            "mpi_ft_enable",
            "opal_cuda_support",
        ] {
            assert!(find(key).is_none(), "{key}");
        }
    }
}
