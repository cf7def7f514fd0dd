//! The table of foreign options. A row has the spellings of an option without dashes, its values, the dialects that have
//! it with this meaning, and our answer. Options that mean the same here are not in the table, because our own table has
//! them.
//!
//! The sources are the help texts of Hydra 4.0.2 and 5.0.2, Intel MPI 2021.18, Open MPI 4.1.8 and PRRTE 3.0.13. The
//! others are the manuals of MVAPICH, PALS, LAM 7.1.4, the original MPD 1.0.1 and Slurm.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use super::answer::{Answer, O, O4, O5};
use super::language::Facts;
use super::translation::Translation;
use super::{binding, intel, open_mpi, output, parameters, srun, translation};

/// An option of other launchers.
pub(super) struct Row {
    pub(super) names: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    /// The dialects, one bit each.
    pub(super) of: u16,
    pub(super) answer: Answer,
}

/// `-rankmap A,B,...` of Hydra: the number of the host of each rank.
fn rank_map(values: &[&str], _: &dyn Facts) -> Translation {
    let host = |word: &str| match word.parse::<u32>() {
        Ok(number) => Ok(format!("n{number}")),
        Err(_) => Err("only a list of numbers of hosts is available".to_owned()),
    };
    let hosts: Result<Vec<String>, String> = values[0].split(',').map(host).collect();
    Ok(translation::words(&["-pick", &hosts?.join(" ")]))
}

impl Row {
    /// Whether its value may be missing.
    pub(super) fn has_optional_value(&self) -> bool {
        self.values.first().is_some_and(|value| value.starts_with('['))
    }

    /// How many of the next words are its values. A value that may be missing follows a `=` for Slurm. For others, it is the
    /// next word, unless that is an option or the only word left.
    pub(super) fn wanted(&self, after: &[OsString]) -> usize {
        match (self.has_optional_value(), after) {
            (false, _) => self.values.len(),
            (true, [next, _, ..]) if self.of & S == 0 => {
                usize::from(!next.as_bytes().starts_with(b"-"))
            }
            (true, _) => 0,
        }
    }
}

/// `-u USER` of the original MPD.
fn own_user(values: &[&str], caller: &dyn Facts) -> Translation {
    let names = [&b"USER"[..], b"LOGNAME"].map(|name| caller.variable(name));
    match names.contains(&Some(values[0].as_bytes())) {
        true => Ok(Vec::new()),
        false => Err("ranks run as the user of the daemon".to_owned()),
    }
}

const fn row(
    of: u16,
    names: &'static [&'static str],
    values: &'static [&'static str],
    answer: Answer,
) -> Row {
    Row { names, values, of, answer }
}

// The dialects, by the bits of `Dialect`.
const H: u16 = 1;
const I: u16 = 1 << 1;
const M: u16 = 1 << 4;
const P: u16 = 1 << 5;
const L: u16 = 1 << 6;
const D: u16 = 1 << 7;
const S: u16 = 1 << 8;

const NETWORK: &str = "mpirun reaches its daemon by a socket of this host; the host file of mpdboot chooses the network of the daemons (ifhn=NAME)";
const RESTARTS: &str = "a failed rank is not started again";
const DAEMONS: &str = "mpdboot starts the daemons, and mpd --log-file has their messages";
const OUTPUT: &str = "output is written line by line";
const XTERM: &str = "write xterm -e before the program";
const TREE: &str = "the tree of the launch is chosen by the number of hosts";
const CHECKPOINT: &str = "checkpoints are not supported";
const TOTALVIEW: &str = "write totalview mpirun -a ... instead";
const WORDS_OF_OMPI: &str = "-ppn, -rr, -map-by and -bind-to, by the words of the value";

/// The table, by launcher.
#[rustfmt::skip]
pub(super) static TABLE: &[Row] = {
    use Answer::{Accepted, Computed, Collected, Refused, Request, Silent, Words};
    &[
    // Hydra and Intel MPI.
    row(H | I, &["l", "prepend-rank"], &[], Words(&["-prepend-pattern", "[%r] "])),
    row(H, &["hosts", "host", "H"], &["LIST"], Computed(open_mpi::one_slot, "`-hosts`, where a host without a number has one slot")),
    row(H | I, &["enable-x", "disable-x"], &[], Accepted("ssh decides about X (ForwardX11)")),
    row(H | I, &["demux", "topolib", "polling-mode"], &["NAME"], Silent("there is one implementation")),
    row(H | I, &["disable-hostname-propagation"], &[], Silent("MPI libraries ask for the name themselves")),
    row(H | I, &["nameserver"], &["HOST:PORT"], Accepted("published names are in the ring")),
    row(H | I, &["localhost"], &["NAME"], Accepted("mpd --name names a daemon")),
    row(H | I, &["bind-to", "binding"], &["UNIT"], Collected(|layout, values, caller| layout.hydra_bind(values[0], caller), "`-bind-to`, where ranks use parts in turn; `rr`: CPUs in the order of the system; `machine`: none; devices, `l1cache` and `l2cache` are refused")),
    row(H | I, &["map-by"], &["UNIT"], Collected(|layout, values, _| layout.hydra_map(values[0]), "`-map-by`, with the units of `-bind-to`")),
    row(H, &["membind"], &["POLICY"], Refused("memory is not bound; use numactl before the program")),
    row(H, &["rankmap"], &["MAP"], Computed(rank_map, "`A,B,...`: `-pick`, with the number of the host of each rank; `(vector,...)` is refused")),
    row(H, &["order-nodes"], &["ORDER"], Refused("name the hosts in the wanted order with -hosts")),
    row(H, &["skip-launch-node"], &[], Words(&["-nolocal"])),
    row(H, &["hybrid-hosts"], &[], Silent("paths may differ: -path has several directories")),
    row(H, &["gpu-subdevs-per-proc"], &["N"], Refused("whole GPUs are assigned (-gpus-per-proc)")),
    row(H, &["pmi-port"], &[], Silent("ranks reach their manager by a descriptor")),
    row(H, &["profile"], &[], Words(&["-v"])),
    row(H | I, &["info"], &[], Words(&["-version"])),
    row(H, &["ckpointlib", "ckpoint-prefix", "ckpoint-num", "ckpoint-interval"], &["VALUE"], Refused(CHECKPOINT)),
    row(I, &["aps"], &[], Computed(|_, caller| intel::tool("aps", caller), "`-gtool aps:all`, if aps is in PATH; otherwise refused")),
    row(I, &["mps"], &[], Computed(|_, caller| intel::tool("mps", caller), "`-gtool mps:all`, if mps is in PATH; otherwise refused")),
    row(I, &["trace", "t"], &[], Computed(|_, caller| intel::preload("libVT.so", caller), "`-genv LD_PRELOAD libVT.so`, if the library is in LD_LIBRARY_PATH; otherwise refused")),
    row(I, &["check_mpi", "check-mpi"], &[], Computed(|_, caller| intel::preload("libVTmc.so", caller), "`-genv LD_PRELOAD libVTmc.so`, if the library is in LD_LIBRARY_PATH; otherwise refused")),
    row(I, &["gtoolfile"], &["FILE"], Refused("write the tools on the command line: -gtool")),
    row(I, &["cleanup"], &[], Silent("a job leaves nothing behind")),
    row(I, &["localroot"], &[], Accepted("the manager of this host starts its ranks in any case")),
    row(I, &["localonly"], &[], Words(&["-hosts", "localhost"])),
    row(I, &["gdb-args"], &["ARGUMENTS"], Refused("use -x FILE and -ex COMMAND")),
    row(I, &["hosts-group"], &["LIST"], Words(&["-hosts", "{0}"])),
    row(I, &["silent-abort"], &[], Accepted("the message about an abort names the rank")),
    row(I, &["tune"], &["[FILE]"], Collected(intel::tune, "`-genv I_MPI_TUNING_BIN FILE`; without a file, the MPI library uses its own values")),
    row(I, &["prepend-timestamp"], &[], Words(&["-timestamp"])),
    row(I, &["prot"], &[], Words(&["-genv", "I_MPI_DEBUG", "4"])),
    row(I, &["grr"], &["N"], Words(&["-ppn", "{0}"])),
    row(I, &["ordered-output"], &[], Silent(OUTPUT)),
    row(I, &["noconf"], &[], Silent("there is no configuration file")),
    row(I, &["genvexcl", "envexcl"], &["LIST"], Refused("use -genvlist, or env -u NAME before mpirun")),
    row(I, &["r", "rsh"], &["CMD"], Words(&["-launcher", "{0}"])),
    row(I, &["ilp64"], &[], Words(&["-genv", "I_MPI_ILP64", "1"])),
    row(I, &["branch-count"], &["N"], Silent(TREE)),
    row(I, &["rdma", "RDMA", "dapl", "DAPL", "ib", "IB", "mx", "MX", "tmi", "TMI", "psm", "PSM", "psm2", "PSM2", "ofi", "OFI"], &[], Accepted("the MPI library chooses its network (I_MPI_FABRICS, FI_PROVIDER)")),
    row(H | I, &["iface"], &["NAME"], Computed(|values, _| Ok(translation::words(&["-genv", "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", values[0]])), "`-genv MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE NAME`; the host file of mpdboot chooses the network of the daemons")),

    // Open MPI 4 and 5.
    row(O, &["mca", "gmca"], &["KEY", "VALUE"], Collected(parameters::mca, "`-genv OMPI_MCA_KEY VALUE`; the keys of launchers have the effect below")),
    row(O5, &["prtemca"], &["KEY", "VALUE"], Collected(parameters::prte_mca, "`-genv PRTE_MCA_KEY VALUE`, with the effect below")),
    row(O5, &["pmixmca", "gpmixmca"], &["KEY", "VALUE"], Words(&["-genv", "PMIX_MCA_{0}", "{1}"])),
    row(O, &["host", "H"], &["LIST"], Collected(open_mpi::host, "`-host`, where a host without a number has one slot, or those of the host file; with a host file, only its hosts")),
    row(O, &["map-by"], &["POLICY"], Collected(|layout, values, _| layout.map_by(values[0]), WORDS_OF_OMPI)),
    row(O, &["rank-by"], &["POLICY"], Collected(|layout, values, _| layout.rank_by(values[0]), "the order of `-map-by`, which it must fit")),
    row(O, &["bind-to"], &["UNIT"], Collected(|layout, values, _| layout.bind_to(values[0]), "`-bind-to`, with the default of `-map-by`; `overload-allowed` and `if-supported` have no effect")),
    row(O, &["c"], &["N"], Words(&["-n", "{0}"])),
    row(O4, &["ppr"], &["LIST"], Collected(|layout, values, _| layout.ppr(values[0]), WORDS_OF_OMPI)),
    row(O, &["pernode"], &[], Words(&["-ppn", "1"])),
    row(O, &["npersocket"], &["N"], Collected(|layout, values, _| layout.per_part(values[0], "socket"), "`-ppn` and `-map-by socket:block=N`, with the sockets of this host")),
    row(O, &["oversubscribe", "allow-run-as-root"], &[], Silent("this is always allowed")),
    row(O, &["s"], &[], Words(&["-preload"])),
    row(O, &["bynode"], &[], Collected(|layout, _, _| layout.map_by("node"), "`-rr`")),
    row(O, &["byslot"], &[], Collected(|layout, _, _| layout.map_by("slot"), "the default")),
    row(O, &["bycore"], &[], Collected(|layout, _, _| layout.map_by("core"), "`-map-by core`")),
    row(O, &["bysocket"], &[], Collected(|layout, _, _| layout.map_by("socket"), "`-map-by socket`")),
    row(O, &["bind-to-core"], &[], Collected(|layout, _, _| layout.bind_to("core"), "`-bind-to core`")),
    row(O, &["bind-to-socket"], &[], Collected(|layout, _, _| layout.bind_to("socket"), "`-bind-to socket`")),
    row(O, &["bind-to-none"], &[], Collected(|layout, _, _| layout.bind_to("none"), "`-bind-to none`")),
    row(O, &["cpus-per-proc", "cpus-per-rank"], &["N"], Collected(|layout, values, _| layout.width(values[0]), "`-bind-to core:N`")),
    row(O, &["cpu-set", "cpu-list"], &["LIST"], Collected(|layout, values, _| layout.cpu_list(values[0]), "`-only-cpus`, with cores; ordered: `-bind-to user:LIST`")),
    row(O, &["use-hwthread-cpus"], &[], Collected(|layout, _, _| layout.threads(), "hardware threads take the place of cores")),
    row(O, &["display-map", "display-devel-map", "display-diffable-map"], &[], Words(&["-print-rank-map"])),
    row(O, &["display-allocation", "display-devel-allocation"], &[], Accepted("-dry-run shows the hosts")),
    row(O, &["display-topo"], &[], Accepted("use lstopo")),
    row(O5, &["display"], &["LIST"], Collected(open_mpi::display, "`map`: `-print-rank-map`; `bindings`: `-report-bindings`; `allocation`, `topo` and `cpus` have no effect: use -dry-run and lstopo")),
    row(O5, &["output"], &["LIST"], Computed(output::output, "`tag`, `tag-detailed`, `tag-fullname`, `rank`: `-prepend-pattern`; `timestamp`: `-timestamp`; `merge`: `-merge-stderr-to-stdout`; `file=NAME`: `-output-pattern NAME.%j.%R.%o -tee`; `dir=NAME`: `-output-pattern NAME/%j/rank.%R/std%o -tee`; with `:nocopy` without `-tee`; `raw` has no effect, and `xml` is refused")),
    row(O4, &["tag-output"], &[], Computed(output::tag_4, "`-prepend-pattern [%w]<std%o>:`")),
    row(O5, &["tag-output"], &[], Computed(output::tag_5, "`-prepend-pattern [%w]<std%o>: `")),
    row(O, &["timestamp-output"], &[], Words(&["-timestamp"])),
    row(O4, &["output-filename"], &["NAME"], Computed(output::directories_4, "`-output-pattern NAME/1/rank.%R/std%o -tee`; with `:nocopy` without `-tee`, with `:nojobid` without the 1")),
    row(O5, &["output-filename"], &["NAME"], Computed(output::files_5, "`-output-pattern NAME.%j.%R.%o -tee`; with `:nocopy` without `-tee`")),
    row(O5, &["output-directory"], &["NAME"], Computed(output::directories_5, "`-output-pattern NAME/%j/rank.%R/std%o -tee`; with `:nocopy` without `-tee`, with `:nojobid` without the %j")),
    row(O, &["xml", "xml-file"], &[], Refused("output has no XML form")),
    row(O, &["stdin"], &["RANKS"], Words(&["-s", "{0}"])),
    row(O, &["xterm"], &["RANKS"], Refused(XTERM)),
    row(O, &["app"], &["FILE"], Words(&["-configfile", "{0}"])),
    row(O, &["q", "quiet"], &[], Words(&["-quiet"])),
    row(O, &["prefix"], &["DIR"], Computed(open_mpi::prefix, "PATH and LD_LIBRARY_PATH of the ranks begin with DIR/bin and DIR/lib")),
    row(O, &["noprefix"], &[], Silent("this is the default")),
    row(O5, &["pmix-prefix", "app-pmix-prefix"], &["DIR"], Accepted("managers need no PMIx library")),
    row(O5, &["no-app-prefix"], &[], Silent("this is the default")),
    row(O, &["default-hostfile"], &["FILE"], Words(&["-f", "{0}"])),
    row(O5, &["add-host", "add-hostfile"], &["HOSTS"], Refused("mpdboot --add enlarges the ring")),
    row(O, &["preload-files"], &["FILES"], Refused("only programs are sent (-preload)")),
    row(O, &["set-cwd-to-session-dir"], &[], Refused("use -wdir; the variable MPD_JOB_TMPDIR names the directory of the job")),
    row(O, &["personality"], &["NAME"], Silent("every MPI library is served")),
    row(O, &["tune"], &["FILES"], Collected(|layout, values, _| layout.tune(values[0]), "the options `-mca` and `-x` in these files, separated by commas")),
    row(O, &["am"], &["FILES"], Collected(|layout, values, _| layout.aggregate(values[0]), "the parameters in these files, separated by commas; they count less than variables")),
    row(O5, &["set-env"], &["NAME=VALUE"], Words(&["-genv", "{0}"])),
    row(O5, &["unset-env"], &["NAME"], Refused("use env -u NAME before the program")),
    row(O5, &["append-env", "prepend-env"], &["NAME[c]", "VALUE"], Refused("use -genv with the whole value")),
    row(O5, &["gpu-support"], &["BOOLEAN"], Words(&["-genv", "OMPI_MCA_opal_cuda_support", "{0}"])),
    row(O, &["enable-recovery", "continuous"], &[], Words(&["-on-failure", "continue"])),
    row(O, &["disable-recovery"], &[], Silent("this is the default")),
    row(O, &["max-restarts"], &["N"], Accepted(RESTARTS)),
    row(O, &["loadbalance"], &[], Collected(|layout, _, _| layout.map_by("node"), "`-rr`")),
    row(O5, &["with-ft"], &["TYPE"], Computed(open_mpi::fault_tolerance, "`ulfm`, `mpi`: `-genv OMPI_MCA_mpi_ft_enable 1 -on-failure continue`; `no`: the default")),
    row(O5, &["stream-buffering"], &["N"], Words(&["-genv", "OMPI_MCA_ompi_stream_buffering", "{0}"])),
    row(O5, &["runtime-options"], &["LIST"], Collected(open_mpi::runtime_options, "`continuous`, `recoverable`, `notifyerrors` and `error-nonzero-status=0`: `-on-failure continue`; `donotlaunch`: `-dry-run`; `timeout`: `-timeout`; reports and restarts have no effect; `exec-agent` and the stops are refused")),
    row(O, &["report-child-jobs-separately"], &[], Silent("the exit code is that of the first failed rank")),
    row(O, &["get-stack-traces", "report-state-on-timeout"], &[], Accepted("mpirun -stacks JOB prints the stacks of a running job")),
    row(O5, &["spawn-timeout"], &["SECONDS"], Refused("use -timeout for the whole job")),
    row(O, &["do-not-launch"], &[], Words(&["-dry-run"])),
    row(O5, &["stop-on-exec", "stop-in-init", "stop-in-app"], &[], Refused("use -d, or a controlling tool with MPIR")),
    row(O, &["debug", "debugger"], &[], Refused("use -d")),
    row(O, &["debug-devel", "debug-daemons", "debug-daemons-file", "leave-session-attached", "show-progress"], &[], Accepted(DAEMONS)),
    row(O, &["d"], &[], Accepted(DAEMONS)),
    row(O, &["launch-agent"], &["CMD"], Refused("-launcher names the remote shell, and mpdboot -m the daemon")),
    row(O, &["max-vm-size", "keepalive"], &["VALUE"], Accepted(TREE)),
    row(O, &["novm", "use-regexp", "enable-instant-on-support", "fwd-mpirun-port", "do-not-resolve", "set-sid", "no-ready-msg", "system-server", "hetero-nodes"], &[], Silent("this concerns the daemons of Open MPI")),
    row(O4, &["dvm"], &[], Refused("mpdboot starts standing daemons")),
    row(O5, &["dvm"], &["URI"], Refused("a daemon of PRRTE is not used; mpdboot starts a ring, which mpirun finds, and -ring names another one")),
    row(O, &["hnp", "ompi-server"], &["URI"], Refused("published names are in the ring")),
    row(O, &["report-uri"], &["FILE"], Refused("mpdlistjobs lists the jobs, and -proctable writes the processes")),
    row(O, &["report-events"], &["URI"], Refused("mpdwatch prints the events of a ring")),
    row(O4, &["output-proctable"], &[], Refused("use -proctable FILE")),
    row(O4, &["index-argv-by-rank"], &[], Refused("use -subst with %r")),
    row(O4, &["cf", "cartofile"], &["FILE"], Silent("the topology is read from the system")),
    row(O5, &["forward-signals"], &["LIST"], Silent("every signal that can be caught is forwarded")),
    row(O5, &["pset"], &["NAME"], Refused("names of process sets are not kept")),
    row(O5, &["singleton"], &["ID"], Refused("a program of Open MPI that was started alone cannot spawn; start it with mpirun -n 1")),

    // MVAPICH.
    row(M, &["ssh", "rsh"], &[], Silent("ssh is the default; see -launcher")),
    row(M, &["config"], &["FILE"], Words(&["-configfile", "{0}"])),
    row(M, &["show"], &[], Words(&["-dry-run"])),
    row(M, &["xterm"], &[], Refused(XTERM)),
    row(M, &["debug"], &[], Words(&["-d"])),
    row(M, &["legacy", "fastssh", "nopm"], &[], Silent(TREE)),
    row(M, &["use-xlauncher", "totalview-cmd"], &["VALUE"], Refused(TOTALVIEW)),
    row(M, &["export", "export-all"], &[], Silent("ranks get the whole environment")),
    row(M, &["sg"], &["GROUP"], Refused("ranks run with the groups of the daemon; use sg before mpdboot")),
    row(M, &["spawnfile"], &["FILE"], Refused("spawned processes use the hosts of the job")),
    row(M, &["dpm"], &[], Silent("ranks can always spawn")),

    // Cray PALS.
    row(P, &["depth", "d"], &["N"], Computed(binding::depth, "`-bind-to user:LIST` with N CPUs for each rank, in the order of their numbers")),
    row(P | I, &["cpu-bind"], &["METHOD"], Computed(binding::pals, "`none`, `core`, `thread`, `numa`, `socket`, `depth`: `-bind-to`; `list:` and `mask:`: `-bind-to user:LIST`")),
    row(P, &["label"], &[], Words(&["-prepend-pattern", "%h %r: "])),
    row(P, &["line-buffer"], &[], Silent(OUTPUT)),
    row(P, &["exclusive", "no-transfer", "transfer"], &[], Silent("programs are sent with -preload only")),
    row(P, &["mem-bind", "gpu-bind"], &["METHOD"], Refused("memory and GPUs are not bound; use a wrapper")),
    row(P, &["env", "e"], &["NAME=VALUE"], Words(&["-env", "{0}"])),
    row(P, &["hostlist", "w"], &["LIST"], Words(&["-hosts", "{0}"])),
    row(P, &["hostfile"], &["FILE"], Words(&["-f", "{0}"])),
    row(P, &["rlimits"], &["LIST"], Silent("all limits are passed")),
    row(P, &["no-abort-on-failure"], &[], Words(&["-on-failure", "continue"])),
    row(P, &["abort-on-failure"], &[], Silent("this is the default")),
    row(P, &["pmi", "network", "fabric"], &["NAME"], Silent("every MPI library is served")),
    row(P, &["no-vni"], &[], Silent("networks of Slingshot are not reserved")),
    row(P, &["vnis"], &[], Refused("networks of Slingshot are not reserved")),

    // LAM.
    row(L, &["O", "c2c", "toff", "nger", "ger", "nsigs", "sigs", "nw", "w", "f", "npty", "nx", "lamd"], &[], Silent("this concerns the daemons of LAM")),
    row(L, &["t", "ton"], &[], Accepted("communication is not traced")),
    row(L, &["ssi"], &["KEY", "VALUE"], Words(&["-genv", "LAM_MPI_SSI_{0}", "{1}"])),
    row(L, &["D"], &[], Refused("use -wdir with the directory of the program")),
    row(L, &["s"], &["NODE"], Words(&["-preload"])),
    row(L, &["p"], &["PREFIX"], Words(&["-prepend-pattern", "{0}"])),
    row(L, &["sa", "sf"], &[], Silent("the exit codes of ranks are reported")),
    row(L, &["c"], &["N"], Words(&["-n", "{0}"])),

    // The original MPD.
    row(D, &["ifhn", "if"], &["NAME"], Accepted(NETWORK)),
    row(D, &["recvtimeout"], &["SECONDS"], Accepted("mpirun waits as long as its daemon lives")),
    row(D, &["kx"], &[], Accepted("X is not forwarded")),
    row(D, &["bnr"], &[], Refused("MPICH 1 is not served")),
    row(D, &["tvsu"], &[], Refused(TOTALVIEW)),
    row(D, &["gexec"], &["PROGRAM"], Refused("write the program in each section")),
    row(D, &["f"], &["FILE"], Words(&["-file", "{0}"])),
    row(D, &["r"], &["FILE"], Words(&["-ecfn", "{0}"])),
    row(D, &["ga"], &["JOB"], Words(&["-gdba", "{0}"])),
    row(D, &["whole"], &[], Silent(OUTPUT)),
    row(D, &["i"], &[], Silent(TREE)),
    row(D, &["y"], &[], Refused("the MPI library chooses its network")),
    row(D, &["jid"], &["N"], Words(&["-a", "{0}"])),
    row(D, &["jidfile"], &["FILE"], Refused("name the job with -a ALIAS, or ask mpdlistjobs")),
    row(D, &["u"], &["USER"], Computed(own_user, "the user's own name; another one is refused")),
    row(D, &["copgm"], &["PROGRAM"], Refused("co-processes are not started; use a section of the command line")),
    row(D, &["cpm", "cpr"], &["PROGRAM"], Refused("co-processes are not started; use a section of the command line")),

    // Slurm.
    row(S, &["ntasks", "tasks"], &["N"], Words(&["-n", "{0}"])),
    row(S, &["ntasks-per-node", "tasks-per-node"], &["N"], Collected(|layout, values, _| layout.per_node(values[0]), "`-ppn N`; with `-n` or in a batch job at most N")),
    row(S, &["N", "nodes"], &["N[-M]"], Collected(|layout, values, _| layout.nodes(values[0]), "so many hosts: `-ppn`, or `-hosts` with the number of tasks of each host; without `-n` one process for each")),
    row(S, &["relative", "r"], &["N"], Collected(|layout, values, _| layout.relative(values[0]), "the hosts of the batch job from number N on")),
    row(S, &["cpus-per-task", "c"], &["N"], Collected(|layout, values, _| layout.width(values[0]), "`-bind-to hwthread:N`, with sockets in turn")),
    row(S, &["nodelist", "w"], &["LIST"], Words(&["-hosts", "{0}"])),
    row(S, &["nodefile", "F"], &["FILE"], Words(&["-f", "{0}"])),
    row(S, &["exclude", "x"], &["LIST"], Words(&["-exclude", "{0}"])),
    row(S, &["chdir", "D"], &["DIR"], Words(&["-wdir", "{0}"])),
    row(S, &["label", "l"], &[], Words(&["-l"])),
    row(S, &["output", "o"], &["PATTERN"], Computed(output::slurm_output, "`-output-pattern`; %t, %n, %N, %j, %J, %s, %x, %u, %A and %a are translated, with their widths; a number: `-output-from N`; `none` and `all`")),
    row(S, &["error", "e"], &["PATTERN"], Computed(output::slurm_error, "`-errfile-pattern`, with the same fields")),
    row(S, &["open-mode"], &["MODE"], Computed(srun::open_mode, "`truncate`: the default; `append` is refused")),
    row(S, &["input", "i"], &["MODE"], Computed(srun::input, "`all`, `none` or a number: `-s`; a file is refused: use `< FILE`")),
    row(S, &["pty"], &[], Words(&["-pty", "-output-from", "0"])),
    row(S, &["time", "t"], &["TIME"], Computed(srun::time, "`-timeout`; 0: never")),
    row(S, &["job-name", "J"], &["NAME"], Words(&["-a", "{0}"])),
    row(S, &["mpi"], &["TYPE"], Silent("PMI-1, PMI-2 and PMIx are always offered")),
    row(S, &["export"], &["LIST"], Computed(srun::export, "`ALL`: the default; `NONE`: `-genvnone`; a list: `-genvlist`, with the variables SLURM_*; `NAME=VALUE`: `-genv`")),
    row(S, &["preserve-env", "E"], &[], Silent("variables of the batch job are passed as they are")),
    row(S, &["distribution", "m"], &["METHOD"], Collected(|layout, values, _| layout.distribution(values[0]), "hosts: `block`; `cyclic`: `-rr`; `plane=N`: `-ppn N`; `arbitrary`: the hosts of the file SLURM_HOSTFILE. Sockets: `cyclic`; `block`: cores one after the other; `fcyclic`: the CPUs of a task on different sockets")),
    row(S, &["unbuffered", "u"], &[], Silent(OUTPUT)),
    row(S, &["kill-on-bad-exit", "K"], &["[0|1]"], Computed(srun::kill_on_bad_exit, "the default; 0: `-on-failure continue`")),
    row(S, &["no-kill", "k"], &["[off]"], Computed(srun::no_kill, "`-on-failure continue`; `off`: the default")),
    row(S, &["wait", "W"], &["SECONDS"], Computed(srun::wait, "0: the job ends with its last rank, as always; others are refused")),
    row(S, &["multi-prog"], &[], Collected(|layout, _, _| layout.multi_prog(), "the program is a file of programs for tasks, as for `srun`; see -configfile for our own form")),
    row(S, &["bcast"], &["[DEST]"], Computed(srun::bcast, "`-preload`; a path is refused")),
    row(S, &["bcast-exclude", "compress", "send-libs"], &["[VALUE]"], Accepted("-preload sends programs, without libraries")),
    row(S, &["propagate"], &["[LIMITS]"], Silent("all limits are passed")),
    row(S, &["quiet", "Q"], &[], Words(&["-quiet"])),
    row(S, &["test-only"], &[], Words(&["-dry-run"])),
    row(S, &["exclusive"], &["[WHAT]"], Silent("slots are not reserved")),
    row(S, &["exact", "overlap", "oversubscribe", "overcommit", "O", "s"], &[], Silent("slots are not reserved")),
    row(S, &["use-min-nodes", "spread-job", "contiguous", "hold", "H", "reboot"], &[], Request),
    row(S, &["disable-status", "X", "quit-on-interrupt"], &[], Silent("^C ends the job")),
    row(S, &["resv-ports", "immediate", "I", "nice"], &["[VALUE]"], Accepted("this concerns the daemons of Slurm")),
    row(S, &["threads", "T", "msg-timeout", "slurmd-debug", "network", "profile", "acctg-freq", "comment", "mcs-label", "power", "cpu-freq", "accel-bind"], &["VALUE"], Accepted("this concerns the daemons of Slurm")),
    row(S, &["partition", "p", "account", "A", "qos", "q", "reservation", "constraint", "C", "prefer", "cluster-constraint", "clusters", "M", "mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "tmp", "gres", "gres-flags", "gpus", "G", "gpus-per-node", "gpus-per-socket", "gpu-freq", "cpus-per-gpu", "ntasks-per-core", "ntasks-per-socket", "ntasks-per-gpu", "sockets-per-node", "cores-per-socket", "core-spec", "S", "thread-spec", "licenses", "L", "dependency", "d", "begin", "b", "deadline", "delay-boot", "jobid", "het-group", "mail-type", "mail-user", "priority", "signal", "switches", "time-min", "wckey", "bb", "bbf"], &["VALUE"], Request),
    row(S, &["gpus-per-task"], &["N"], Computed(srun::gpus_per_task, "`-gpus-per-proc N`, without the type")),
    row(S, &["gpu-bind"], &["METHOD"], Computed(srun::gpu_bind, "`none`: the default; `per_task:N`, `single:1` and `map_gpu:0,1,...`: `-gpus-per-proc`; others are refused")),
    row(S, &["mem-bind", "mem_bind"], &["METHOD"], Computed(srun::mem_bind, "`none`, and `local`, which Linux does by default; others are refused: use numactl before the program")),
    row(S, &["cpu-bind", "cpu_bind"], &["METHOD"], Collected(|layout, values, caller| layout.slurm_bind(values[0], caller), "`none`, `sockets`, `cores`, `threads`, `ldoms`: `-bind-to`; `rank_ldom`: NUMA nodes in turn; `rank`: CPUs in turn; `map_cpu:`, `mask_cpu:`, `map_ldom:` and `mask_ldom:`: `-bind-to user:LIST`; `verbose`: `-report-bindings`; with sockets in turn")),
    row(S, &["hint"], &["TYPE"], Collected(|layout, values, _| layout.hint(values[0]), "`nomultithread` and `compute_bound`: one thread of each core; `memory_bound`: one thread of one core of each socket; `multithread`: the default")),
    row(S, &["threads-per-core"], &["N"], Collected(|layout, values, _| layout.threads_per_core(values[0]), "1: one thread of each core")),
    row(S, &["extra-node-info", "B"], &["SOCKETS[:CORES[:THREADS]]"], Request),
    row(S, &["prolog", "epilog", "task-prolog", "task-epilog"], &["PROGRAM"], Refused("start the program by a script")),
    row(S, &["container", "container-image", "container-mounts", "container-name", "container-workdir"], &["VALUE"], Refused("write the container before the program, like apptainer exec IMAGE")),
    row(S, &["uid", "gid"], &["NAME"], Refused("ranks run as the user of the daemon")),
    row(S, &["no-allocate", "Z"], &[], Refused("name the hosts with -hosts")),
    row(S, &["x11"], &["[WHERE]"], Accepted("ssh decides about X (ForwardX11)")),
    ]
};
