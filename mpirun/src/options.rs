//! The one table of options: what the scanner accepts, what the help, the man page and the shell
//! completions show. An option's meaning is its [`Key`]; what it applies to is its [`Reach`]. The
//! code that gives a key its effect is in `argsets` and `job_options`.

/// Which setting an option makes. Several options can make the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `-a`: the job's alias.
    Alias,
    /// `-allow-alone`: ranks may use an MPI library that does not speak PMI.
    AllowAlone,
    /// `-gdba`: what is debugged is a job that runs.
    Attach,
    /// `-r`: some of its ranks.
    AttachRanks,
    /// `-1`: ring order begins behind this host.
    Behind,
    /// `-bind-to`.
    Binding,
    /// `-configfile`.
    ConfigFile,
    /// `-on-failure continue` in other launchers' words.
    ContinueOnFailure,
    /// `-d`: the ranks run under a debugger.
    Debug,
    /// `-batch`: nothing is read behind its commands.
    DebugBatch,
    /// `-ex`: one of them.
    DebugCommand,
    /// `-gdb-path`: which debugger.
    DebugPath,
    /// `-wdir`.
    Directory,
    /// `-dry-run`.
    DryRun,
    /// `-ecfn`: MPD's file of exit codes.
    ExitCodeFile,
    /// `-env`.
    EnvSet,
    /// `-envlist`.
    EnvList,
    /// `-envall`.
    EnvAll,
    /// `-envnone`.
    EnvNone,
    /// `-x`: Open MPI's way to export a variable; with `-d` a file of the debugger's commands.
    EnvExport,
    /// `-errfile-pattern`.
    ErrFile,
    /// `-exclude`: hosts to avoid.
    Exclude,
    /// `--generate-docs`, for `scripts/install`.
    GenerateDocs,
    /// `-g`: groups of ranks.
    Group,
    /// `-help`.
    Help,
    /// `-help-all`.
    HelpAll,
    /// `-host`: the hosts of one program.
    Host,
    /// `-f`: the job's hosts from a file.
    HostFile,
    /// `-hosts`: the job's hosts.
    Hosts,
    /// Has no effect here.
    Ignored,
    /// `-l`: labels.
    Label,
    /// `-label-fmt`: MPD's pattern, to which `": "` is added.
    LabelFormat,
    /// `-prepend-pattern`: Hydra's pattern, taken as it is.
    LabelPattern,
    /// `-launcher`: what starts daemons on other hosts.
    Launcher,
    /// `-launcher-exec`: its program.
    LauncherProgram,
    /// Recognised, so that it can be refused by name.
    Later,
    /// `-rlimit`.
    Limit,
    /// `-m`: merge identical lines.
    Merge,
    /// `-nolocal`: not on this host.
    NoLocal,
    /// `-on-crash`: what is done about a rank that crashes.
    OnCrash,
    /// `-on-failure`.
    OnFailure,
    /// `-outfile-pattern`.
    OutFile,
    /// `-path`.
    Path,
    /// `-preload`.
    Preload,
    /// `-ppn`.
    PerHost,
    /// `-print-all-exitcodes`.
    PrintExitCodes,
    /// `-print-rank-map`.
    PrintRankMap,
    /// `-proctable`.
    ProcTable,
    /// `-n`.
    Processes,
    /// `-pty`: each rank on a terminal.
    Pty,
    /// `-ring`: which of the user's rings.
    Ring,
    /// `-rr`: hosts take ranks in turn.
    RoundRobin,
    /// `-rundir`: the run directory of the daemon.
    RunDir,
    /// `-pmi_args`: the one rank is a program that runs already.
    Singleton,
    /// `-soft`.
    Soft,
    /// `-spawn-policy`.
    SpawnPolicy,
    /// `-stacks`: where the ranks of a job that runs are.
    Stacks,
    /// `-json`: the same for programs.
    StacksJson,
    /// `-status-file`.
    StatusFile,
    /// `-s`: the receivers of standard input.
    Stdin,
    /// `-stdin-switch`: they can be changed.
    StdinSwitch,
    /// `-timeout`.
    Timeout,
    /// `-timestamp`.
    Timestamp,
    /// `-subst`.
    Substitute,
    /// `-trace-hops`.
    TraceHops,
    /// `-trace-startup`.
    TraceStartup,
    /// `-umask`.
    Umask,
    /// `-usize`.
    UniverseSize,
    /// `-verbose`.
    Verbose,
    /// `-version`.
    Version,
}

/// What an option applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The program of its own section.
    Argset,
    /// Every section that does not say otherwise itself.
    Defaults,
    /// The whole job, wherever it is written.
    Job,
    /// There will be no job: something is printed or written instead.
    Instead,
    /// Nothing: the text says what this option needs that this version does not have.
    Unavailable(&'static str),
}

/// Under which heading the help shows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// What is run, how often and how.
    Programs,
    /// Which ranks run on which host.
    Hosts,
    /// The variables that ranks get.
    Environment,
    /// Labels, files, standard input.
    Io,
    /// Time limit, failures, exit codes.
    Ending,
    /// The debugger of all ranks.
    Debugger,
    /// All that concerns the job as such, and help.
    Job,
    /// The defaults for several programs.
    Defaults,
    /// What exists so that other launchers' command lines work.
    Accepted,
    /// Not shown.
    Hidden,
}

impl Heading {
    /// The headings in the order of the help.
    pub const SHOWN: [Self; 9] = [
        Self::Programs,
        Self::Hosts,
        Self::Environment,
        Self::Io,
        Self::Ending,
        Self::Debugger,
        Self::Job,
        Self::Defaults,
        Self::Accepted,
    ];

    /// The heading as it is printed.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Programs => "Programs",
            Self::Hosts => "Hosts",
            Self::Environment => "Environment",
            Self::Io => "Input and output",
            Self::Ending => "End of the job",
            Self::Debugger => "Debugger",
            Self::Job => "Job and information",
            Self::Defaults => "Defaults for all programs, unless a program has its own",
            Self::Accepted => "Accepted without effect",
            Self::Hidden => "",
        }
    }
}

/// One option.
#[derive(Debug)]
pub struct Opt {
    /// What it sets.
    pub key: Key,
    /// All its spellings without dashes, the one we show first.
    pub names: &'static [&'static str],
    /// What its values are called; as many words follow it.
    pub values: &'static [&'static str],
    /// What it applies to.
    pub reach: Reach,
    /// Where the help shows it.
    pub heading: Heading,
    /// Whether the short help shows it.
    pub basic: bool,
    /// What it does. The first line is for the short help.
    pub help: &'static str,
}

impl Opt {
    /// Whether the two values `NAME VALUE` can also be the one word `NAME=VALUE`.
    pub fn takes_assignment(&self) -> bool {
        self.key == Key::EnvSet
    }

    /// Whether people should hear of it.
    pub fn is_shown(&self) -> bool {
        self.heading != Heading::Hidden
    }
}

/// The option called `name` (without dashes).
pub fn find(name: &[u8]) -> Option<&'static Opt> {
    OPTIONS.iter().find(|o| o.names.iter().any(|n| n.as_bytes() == name))
}

/// An option of the full help.
const fn opt(
    heading: Heading,
    key: Key,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Opt {
    Opt { key, names, values, reach: Reach::Job, heading, basic: false, help }
}

/// What the table's rows are refined with.
impl Opt {
    const fn basic(mut self) -> Self {
        self.basic = true;
        self
    }

    const fn of(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }
}

/// An option that this version refuses, with what it needs.
const fn later(names: &'static [&'static str], needs: &'static str) -> Opt {
    opt(Heading::Hidden, Key::Later, names, &[], "").of(Reach::Unavailable(needs))
}

/// The table.
#[rustfmt::skip]
pub static OPTIONS: &[Opt] = {
    use Heading::{Accepted, Debugger, Defaults, Ending, Environment, Hidden, Hosts, Io, Job, Programs};
    use Reach::{Argset, Instead};
    const ALL: Reach = Reach::Defaults;
    &[
    opt(Programs, Key::Processes, &["n", "np"], &["N"],
        "run N processes (default: 1 for each host that is named, N for HOST:N; a batch job's slots; else 1)").of(Argset).basic(),
    opt(Programs, Key::Soft, &["soft"], &["SPEC"],
        "run the largest number of processes that SPEC names and that is not above -n; SPEC is a \
         list like 1,4:8,16:64:16 of numbers, LOW:HIGH and LOW:HIGH:STEP").of(Argset),
    opt(Programs, Key::Directory, &["wdir", "wd"], &["DIR"],
        "run in directory DIR (default: the current one)").of(Argset).basic(),
    opt(Programs, Key::Path, &["path"], &["DIRS"],
        "look for the program in DIRS, written as in PATH, before PATH").of(Argset),
    opt(Programs, Key::Umask, &["umask"], &["MASK"],
        "set the file mode creation mask: octal with a leading 0 (022) or hexadecimal with 0x; \
         a single digit needs neither").of(Argset),
    opt(Programs, Key::Limit, &["rlimit"], &["NAME=SOFT[:HARD]"],
        "set a resource limit: core, cpu, fsize, data, stack, rss, nproc, nofile, memlock, as \
         (or vmem), locks, sigpending, msgqueue, nice, rtprio, rttime; numbers may end in K, M, \
         G or be 'unlimited'; can be repeated").of(Argset),
    opt(Programs, Key::Substitute, &["subst"], &[],
        "fill in the program's arguments for each rank: %r rank, %h host, %j job id, %s number of \
         ranks, %% percent sign").of(Argset),
    opt(Programs, Key::Preload, &["preload", "preload-binary"], &[],
        "bring the programs from this host to those that lack them, for as long as the job runs; \
         interpreters and libraries have to be there"),
    opt(Programs, Key::ConfigFile, &["configfile"], &["FILE"],
        "read options and programs from FILE, one program per line; # starts a comment, \\ at \
         the end continues a line, quotes work as in a shell, and no shell is involved"),

    opt(Hosts, Key::Hosts, &["hosts"], &["LIST"],
        "run on these hosts, in this order: a,b:4,c[01-16] or all (default); b:4 has room for 4 \
         processes").basic(),
    opt(Hosts, Key::HostFile, &["f", "machinefile", "hostfile"], &["FILE"],
        "the same from a file: HOST, HOST:N, HOST slots=N").basic(),
    opt(Hosts, Key::Host, &["host", "H"], &["LIST"],
        "run this program on these hosts, written as for -hosts").of(Argset),
    opt(Hosts, Key::Exclude, &["exclude"], &["LIST"],
        "run nothing on these hosts; LIST may begin with ^; can be repeated"),
    opt(Hosts, Key::NoLocal, &["nolocal"], &[],
        "run nothing on this host"),
    opt(Hosts, Key::PerHost, &["ppn", "perhost", "N", "npernode"], &["N"],
        "run N processes on a host, then as many on the next (default: one for each of its CPUs); \
         with -hosts all and without -n, on each host of the ring"),
    opt(Hosts, Key::RoundRobin, &["rr"], &[],
        "give each host one process in turn, as long as it has room"),
    opt(Hosts, Key::SpawnPolicy, &["spawn-policy"], &["rr|load|pack"],
        "put each process that ranks spawn on the next host after the one used last (rr, default), on \
         the one with the fewest processes of the job for each CPU, or fill the slots of the one used \
         last and then of the next; MPICH's test spaiccreate2 hangs with rr, by a fault of MPICH that \
         Hydra's default placement avoids, and does not hang with pack"),
    opt(Hosts, Key::Group, &["g"], &["K"],
        "keep groups of K ranks together on a host; they get MPD_GROUP_DIR for shared memory, \
         MPD_GROUP_SIZE and MPD_GROUP_RANK, and the last group may be smaller"),
    opt(Hosts, Key::Behind, &["1"], &[],
        "begin with the next host of the ring instead of this one"),
    opt(Hosts, Key::Binding, &["bind-to", "binding"], &["none|core|numa|slots"],
        "bind each rank to a core of its own, to the cores of a NUMA node, or to its share of the \
         host's cores (default none), as far as the daemon may use them; when ranks outnumber \
         cores, cores are given out again from the first"),
    opt(Hosts, Key::Launcher, &["launcher", "bootstrap"], &["ssh|srun|rsh|CMD"],
        "what starts daemons on named hosts if none is running here (default ssh; srun in an \
         allocation of Slurm); CMD gets HOST and COMMAND"),
    opt(Hosts, Key::LauncherProgram, &["launcher-exec", "bootstrap-exec"], &["CMD"],
        "the launcher's program, if it is another one; options can follow it"),
    opt(Hosts, Key::PrintRankMap, &["print-rank-map"], &[],
        "print which ranks run where, as in (h1:0-3)(h2:4,6)"),

    opt(Environment, Key::EnvSet, &["genv"], &["NAME", "VALUE"],
        "set a variable for all programs; also NAME=VALUE").of(ALL).basic(),
    opt(Environment, Key::EnvSet, &["env"], &["NAME", "VALUE"],
        "set a variable for this program; also NAME=VALUE").of(Argset).basic(),
    opt(Environment, Key::EnvList, &["genvlist"], &["A,B,..."],
        "pass only these variables and PATH, to all programs; after -genvall: these too").of(ALL),
    opt(Environment, Key::EnvList, &["envlist"], &["A,B,..."],
        "the same for this program; after -envall: these too").of(Argset),
    opt(Environment, Key::EnvAll, &["genvall"], &[],
        "pass the whole environment to all programs (default)").of(ALL),
    opt(Environment, Key::EnvAll, &["envall"], &[],
        "pass the whole environment to this program").of(Argset),
    opt(Environment, Key::EnvNone, &["genvnone"], &[],
        "pass nothing but PATH to all programs").of(ALL),
    opt(Environment, Key::EnvNone, &["envnone"], &[],
        "pass nothing but PATH to this program").of(Argset).basic(),
    opt(Environment, Key::EnvExport, &["x"], &["NAME[=VALUE]"],
        "pass or set a variable for this program (Open MPI's spelling); with -d: -x FILE has commands for \
         the debugger, carried out up to the first error; can be repeated").of(Argset),

    opt(Io, Key::Label, &["l", "prepend-rank"], &[],
        "put the rank in front of each line of output").basic(),
    opt(Io, Key::LabelFormat, &["label-fmt"], &["FORMAT"],
        "put FORMAT and ': ' in front of each line: %r rank, %h host, %p process id, %j job id, \
         %a alias, %% a percent sign; implies -l"),
    opt(Io, Key::LabelPattern, &["prepend-pattern"], &["FORMAT"],
        "the same with nothing added to FORMAT"),
    opt(Io, Key::Merge, &["m"], &[],
        "print identical lines of ranks once; implies -l").basic(),
    opt(Io, Key::Timestamp, &["timestamp"], &[],
        "put the time in front of each line of output"),
    opt(Io, Key::Stdin, &["s"], &["RANKS"],
        "ranks that get standard input: all, none, 1,3 or 0-3 (default 0)").basic(),
    opt(Io, Key::Pty, &["pty"], &[],
        "run each rank of this program on a terminal of its own, of the size of this one: it writes line \
         by line, prompts and asks as for a person; its two outputs are one; see pty").of(Argset),
    opt(Io, Key::StdinSwitch, &["stdin-switch"], &[],
        "let mpdstdin give standard input to any other ranks while the job runs; ranks that do not \
         get it then wait for its end, instead of finding it empty"),
    opt(Io, Key::OutFile, &["outfile-pattern"], &["FILE"],
        "write standard output to files (%r is the rank)").basic(),
    opt(Io, Key::ErrFile, &["errfile-pattern"], &["FILE"],
        "write standard error to files (%r is the rank)"),

    opt(Ending, Key::Timeout, &["timeout"], &["SECONDS"],
        "end after SECONDS (MPIEXEC_TIMEOUT); 0: never").basic(),
    opt(Ending, Key::OnFailure, &["on-failure"], &["WHAT"],
        "after a failure: end (default), continue, highest").basic(),
    opt(Ending, Key::ContinueOnFailure, &["disable-auto-cleanup", "k"], &[],
        "as -on-failure continue, and print no line about a failed rank (-v prints it); the exit code is that of the first \
         rank that failed, never 0 then"),
    opt(Ending, Key::AllowAlone, &["allow-alone"], &[],
        "end with 0 although each rank was rank 0 of 1, because its MPI library does not speak PMI (Open MPI); without \
         this option mpirun says so at the end, and the exit code is 1"),
    opt(Ending, Key::StatusFile, &["status-file"], &["FILE"],
        "write to FILE how each rank ended").basic(),
    opt(Ending, Key::ExitCodeFile, &["ecfn"], &["FILE"],
        "the same in MPD's format, with the raw wait status"),
    opt(Ending, Key::PrintExitCodes, &["print-all-exitcodes"], &[],
        "print the exit codes of all ranks at the end"),

    opt(Debugger, Key::Debug, &["d", "gdb"], &[],
        "run every rank under gdb, with one prompt for all; also the meaning of the name mpigdb"),
    opt(Debugger, Key::DebugCommand, &["ex"], &["COMMAND"],
        "with -d: carry out a command before those that are typed; can be repeated"),
    opt(Debugger, Key::DebugBatch, &["batch"], &[],
        "with -d: end after these commands; the exit code is 1 if one of them was refused"),
    opt(Debugger, Key::DebugPath, &["gdb-path"], &["PATH"],
        "use this gdb (default: gdb, as found on each host)"),
    opt(Debugger, Key::Attach, &["gdba", "p"], &["JOB"],
        "debug a job that runs: an id, as mpdlistjobs lists it, or an alias; -p with -d (mpigdb)"),
    opt(Debugger, Key::Stacks, &["stacks"], &["JOB"],
        "print where the ranks of a job that runs are, those in one place together; it goes on"),
    opt(Debugger, Key::AttachRanks, &["r"], &["RANKS"],
        "with -gdba and -stacks: these ranks only, like 0,2-4"),
    opt(Debugger, Key::StacksJson, &["json"], &[],
        "with -stacks: print the whole stacks, as JSON"),
    opt(Debugger, Key::OnCrash, &["on-crash"], &["gdb"],
        "if ranks crash: on a terminal, open a debugger at them, else (and with -batch) say at the end where they were"),

    opt(Job, Key::Alias, &["a"], &["ALIAS"],
        "give the job a name of your own"),
    opt(Job, Key::Ring, &["ring"], &["NAME"],
        "run in the ring of that name (default: MPD_RING, MPD_CON_EXT, the batch job's id); it must be up"),
    opt(Job, Key::RunDir, &["rundir"], &["DIR"],
        "ask the daemon with that run directory (default: MPD_RUNDIR); it must be running"),
    opt(Job, Key::UniverseSize, &["usize"], &["N|SYSTEM|INFINITE"],
        "the universe size that MPI programs are told: a number, the number of CPUs of the ring \
         (of this host, if no daemon is running here), or unknown (default)"),
    opt(Job, Key::DryRun, &["dry-run"], &[],
        "show what would be run, and run nothing").basic(),
    opt(Job, Key::Verbose, &["v", "verbose"], &[],
        "say what is being done, and print every notice").basic(),
    opt(Job, Key::TraceStartup, &["trace-startup"], &["FILE"],
        "write to FILE what each host and each rank did when, for Perfetto or chrome://tracing"),
    opt(Job, Key::TraceHops, &["trace-hops"], &[],
        "say how many times the words of the launch were passed on"),
    opt(Job, Key::ProcTable, &["proctable"], &["FILE"],
        "write to FILE, as JSON, the host, executable and process id of each rank once all are started"),
    opt(Job, Key::Singleton, &["pmi_args"], &["PORT", "INTERFACE", "KEY", "PID"],
        "serve the program that waits at PORT; MPI libraries run this in programs started without mpirun"),
    opt(Job, Key::Version, &["V", "version"], &[],
        "print the version").of(Instead),
    opt(Job, Key::Help, &["h", "help"], &[],
        "print the most used options").of(Instead),
    opt(Job, Key::HelpAll, &["help-all"], &[],
        "print all options").of(Instead).basic(),
    opt(Hidden, Key::GenerateDocs, &["generate-docs"], &["DIR"],
        "write man pages and shell completions to DIR").of(Instead),

    opt(Defaults, Key::Processes, &["gn", "gnp"], &["N"], "as -n").of(ALL),
    opt(Defaults, Key::Soft, &["gsoft"], &["SPEC"], "as -soft").of(ALL),
    opt(Defaults, Key::Host, &["ghost"], &["LIST"], "as -host").of(ALL),
    opt(Defaults, Key::Directory, &["gwdir"], &["DIR"], "as -wdir").of(ALL),
    opt(Defaults, Key::Path, &["gpath"], &["DIRS"], "as -path").of(ALL),
    opt(Defaults, Key::Umask, &["gumask"], &["MASK"], "as -umask").of(ALL),
    opt(Defaults, Key::Pty, &["gpty"], &[], "as -pty").of(ALL),
    opt(Defaults, Key::Substitute, &["gsubst"], &[], "as -subst").of(ALL),
    opt(Defaults, Key::Limit, &["grlimit"], &["NAME=SOFT[:HARD]"], "as -rlimit").of(ALL),

    opt(Accepted, Key::Ignored, &["arch"], &["ARCH"],
        "the host's architecture; all hosts count as alike").of(Argset),
    opt(Accepted, Key::Ignored, &["rmk"], &["NAME"],
        "Hydra: the batch system; it is found out"),
    opt(Accepted, Key::Ignored, &["oversubscribe"], &[],
        "Open MPI: more processes than CPUs; always allowed"),
    opt(Accepted, Key::Ignored, &["allow-run-as-root"], &[],
        "Open MPI: run as root; always allowed"),

    later(&["ifhn", "iface"], "a network chosen for a job (mpdboot's ifhn chooses the ring's)"),
    later(&["map-by", "rank-by"], "Open MPI's words for placement (see -ppn, -rr, -bind-to)"),
    later(&["file", "gexec"], "MPD's XML jobs and default program"),
    later(&["tv", "tvsu"], "a TotalView that mpirun starts (write totalview mpirun -a ... instead)"),
    ]
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_means_two_things() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.iter().flat_map(|o| o.names) {
            assert!(seen.insert(name), "{name} is in the table twice");
        }
    }

    #[test]
    fn a_hidden_option_is_found() {
        assert_eq!(find(b"generate-docs").unwrap().key, Key::GenerateDocs);
        assert!(find(b"").is_none() && find(b"NP").is_none());
    }
}
