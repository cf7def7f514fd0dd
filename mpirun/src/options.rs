//! The table of options. The scanner, the help, the man page and the shell completions use it. An
//! option's meaning is its [`Key`], and its scope is its [`Reach`]. The code for a key is in
//! `argsets` and `job_options`.

/// The setting that an option makes. Several options can make the same setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `-abort-scope`: what ends with a rank that fails.
    AbortScope,
    /// `-a`: the job's alias.
    Alias,
    /// `-alloc`: the allocation whose slots the job uses.
    Allocation,
    /// `-allow-alone`: ranks may use an MPI library that does not speak PMI.
    AllowAlone,
    /// `-host-timeout`.
    HostTimeout,
    /// `-arch`: the architecture that the program needs.
    Architecture,
    /// `-gdba`: debug a running job.
    Attach,
    /// `-r`: debug only these ranks.
    AttachRanks,
    /// `-1`: ring order begins after this host.
    Behind,
    /// `-bind-to`.
    Binding,
    /// `-cpus`: how many CPUs the job may use on each host.
    Cpus,
    /// `-configfile`.
    ConfigFile,
    /// `-on-failure continue` under the names of other launchers.
    ContinueOnFailure,
    /// `-dialect`: the launcher whose options follow.
    Dialect,
    /// `-d`: the ranks run under a debugger.
    Debug,
    /// `-batch`: end the debugger after the commands of the command line.
    DebugBatch,
    /// `-ex`: a command of the debugger.
    DebugCommand,
    /// `-gdb-path`: path of the debugger.
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
    /// `-elastic`: ranks may leave.
    Elastic,
    /// `-allow-user`: accounts of other names for daemons.
    AllowUser,
    /// `-exclude`: excluded hosts.
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
    /// An option without effect.
    Ignored,
    /// `-initial-errhandler`: MPI's first error handler.
    InitialErrorHandler,
    /// `-file`: a job as XML or TOML.
    JobFile,
    /// `-json`: print stacks, or a dry run, as JSON.
    Json,
    /// `-l`: labels.
    Label,
    /// `-label-fmt`: MPD's pattern, to which `": "` is added.
    LabelFormat,
    /// `-prepend-pattern`: Hydra's pattern, used without change.
    LabelPattern,
    /// `-launcher`: the launcher of daemons on other hosts.
    Launcher,
    /// `-launcher-args`: further arguments of it.
    LauncherArguments,
    /// `-launcher-exec`: its program.
    LauncherProgram,
    /// `-rlimit`.
    Limit,
    /// `-mem`: how much memory the job may use on each host.
    Memory,
    /// `-memory-alloc-kinds`.
    MemoryKinds,
    /// `-unique-names`: a publisher of a taken name gets another one.
    UniqueNames,
    /// `-no-pmix`: managers listen at no port for PMIx clients.
    NoPmix,
    /// `-map-by`: parts of a host in turn.
    MapBy,
    /// `-m`: merge identical lines.
    Merge,
    /// `-gpus-per-proc`: GPUs of each rank.
    Gpus,
    /// `-only-cpus`: the only CPUs that count.
    OnlyCpus,
    /// `-bind-if-room`: ranks are not bound on hosts with too few units.
    IfRoom,
    /// `-nooversubscribe`: more ranks than slots are an error.
    Strict,
    /// `-pick`: hosts by their number.
    Pick,
    /// `-rankfile`: the host and the CPUs of each rank.
    RankFile,
    /// `-report-bindings`: report the CPUs of each rank.
    ReportBindings,
    /// `-nolocal`: no rank on this host.
    NoLocal,
    /// `-on-crash`: the handling of crashed ranks.
    OnCrash,
    /// `-on-failure`.
    OnFailure,
    /// `-merge-stderr-to-stdout`.
    JoinErr,
    /// `-outfile-pattern`.
    OutFile,
    /// `-output-from`: the ranks whose output is kept.
    OutputFrom,
    /// `-output-pattern`: files for both streams.
    OutputFile,
    /// `-path`.
    Path,
    /// `-placement`.
    Placement,
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
    /// `-pty`: a terminal for each rank.
    Pty,
    /// `-quiet`.
    Quiet,
    /// `-report-pid`: prints the process id of mpirun.
    ReportPid,
    /// `-record`: directory for recordings of the managers' inputs.
    Record,
    /// `-ring`: name of the user's ring.
    Ring,
    /// `-rr`: place ranks on the hosts in turn.
    RoundRobin,
    /// `-rundir`: the run directory of the daemon.
    RunDir,
    /// `-pmi_args`: the only rank is a running program.
    Singleton,
    /// `-soft`.
    Soft,
    /// `-spawn-depth`.
    SpawnDepth,
    /// `-spawn-limit`.
    SpawnLimit,
    /// `-spawn-nice`.
    SpawnNice,
    /// `-spawn-policy`.
    SpawnPolicy,
    /// `-stacks`: print the stacks of a running job's ranks.
    Stacks,
    /// `-status-file`.
    StatusFile,
    /// `-s`: the receivers of standard input.
    Stdin,
    /// `-stdin-switch`: the receivers can be changed.
    StdinSwitch,
    /// `-tmpdir`: where the job's directory is made.
    TmpDir,
    /// `-gtool`: tools that start the programs of some ranks.
    Tool,
    /// `-tee`: files are copied to the console.
    Tee,
    /// `-timeout`.
    Timeout,
    /// `-timestamp`.
    Timestamp,
    /// `-subst`.
    Substitute,
    /// `-tv`: run this mpirun under TotalView.
    TotalView,
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
    /// `-wait`: the job waits for slots.
    Wait,
    /// `-now`: `-wait` does not wait.
    Now,
}

/// The scope of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The program of its section.
    Argset,
    /// Every section without its own setting.
    Defaults,
    /// The whole job; the option may be in any section.
    Job,
    /// No job: the option requests a text or files instead.
    Instead,
}

/// The group of the help that lists an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// The programs: what to run, and how many processes.
    Programs,
    /// The placement of ranks on hosts.
    Hosts,
    /// The environment of ranks.
    Environment,
    /// Labels, files, standard input.
    Io,
    /// Time limit, failures, exit codes.
    Ending,
    /// The debugger of all ranks.
    Debugger,
    /// The job itself, and help.
    Job,
    /// The defaults for several programs.
    Defaults,
    /// Options that exist for the command lines of other launchers.
    Accepted,
    /// Hidden options.
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

    /// The heading as text.
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

/// An option.
#[derive(Debug)]
pub struct Opt {
    /// The setting that it makes.
    pub key: Key,
    /// All its spellings without dashes. The help shows the first one.
    pub names: &'static [&'static str],
    /// Names of its values. The same number of arguments follows the option.
    pub values: &'static [&'static str],
    /// Its scope.
    pub reach: Reach,
    /// The group of the help that lists it.
    pub heading: Heading,
    /// Whether the short help shows it.
    pub basic: bool,
    /// Its description. The first line is for the short help.
    pub help: &'static str,
}

impl Opt {
    /// Whether the values `NAME VALUE` can also be one argument `NAME=VALUE`.
    pub fn takes_assignment(&self) -> bool {
        self.key == Key::EnvSet
    }

    /// Whether the help shows it.
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

/// Functions that change an entry of the table.
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

/// The table of options.
#[rustfmt::skip]
pub static OPTIONS: &[Opt] = {
    use Heading::{Accepted, Debugger, Defaults, Ending, Environment, Hidden, Hosts, Io, Job, Programs};
    use Reach::{Argset, Instead};
    const ALL: Reach = Reach::Defaults;
    &[
    opt(Programs, Key::Processes, &["n", "np"], &["N"],
        "run N processes (default: the number that the named hosts or the batch job give, else 1)").of(Argset).basic(),
    opt(Programs, Key::Soft, &["soft"], &["SPEC"],
        "run the largest number of processes in SPEC that is not above -n; SPEC is a list of numbers, \
         LOW:HIGH and LOW:HIGH:STEP, like 1,4:8,16:64:16").of(Argset),
    opt(Programs, Key::Directory, &["wdir", "wd"], &["DIR"],
        "run in directory DIR (default: the current one)").of(Argset).basic(),
    opt(Programs, Key::Path, &["path"], &["DIRS"],
        "search for the program in DIRS before PATH; DIRS is written like PATH").of(Argset),
    opt(Programs, Key::Umask, &["umask"], &["MASK"],
        "set the file mode creation mask: octal with a leading 0 (022), hexadecimal with 0x, or a single \
         digit").of(Argset),
    opt(Programs, Key::Limit, &["rlimit"], &["NAME=SOFT[:HARD]"],
        "set a resource limit: core, cpu, fsize, data, stack, rss, nproc, nofile, memlock, as (or vmem), \
         locks, sigpending, msgqueue, nice, rtprio, rttime; numbers may end in K, M or G, or be \
         'unlimited'; can be repeated").of(Argset),
    opt(Programs, Key::Substitute, &["subst"], &[],
        "replace in the program's arguments for each rank: %r rank, %l its number on the host, %h host, \
         %j job id, %s ranks, %% percent sign").of(Argset),
    opt(Programs, Key::Preload, &["preload", "preload-binary"], &[],
        "send the programs from this host to hosts that lack them, until the job ends; interpreters and \
         libraries are not sent"),
    opt(Programs, Key::Tool, &["gtool"], &["TOOL:RANKS"],
        "let a tool start the program of these ranks: 'valgrind -q:0,2' or 'strace -f:all', several with ; between them; a \
         part of a program with a tool is a program of its own"),
    opt(Programs, Key::ConfigFile, &["configfile"], &["FILE"],
        "read options and programs from FILE, one program per line; # starts a comment, \\ at the end \
         continues a line, quotes work as in a shell; no shell is used"),

    opt(Programs, Key::JobFile, &["file"], &["FILE"],
        "read options and programs from FILE, in XML of the original MPD or in TOML; see FILES in the manual"),
    opt(Programs, Key::InitialErrorHandler, &["initial-errhandler"], &["NAME"],
        "the error handler of MPI before the program sets one: mpi_errors_are_fatal, mpi_errors_abort or \
         mpi_errors_return; Open MPI 5 obeys it, MPICH and Intel MPI have no such setting").of(Argset),
    opt(Programs, Key::NoPmix, &["no-pmix"], &[],
        "open no port for PMIx clients; programs of Open MPI need it"),
    opt(Programs, Key::UniqueNames, &["unique-names", "unique"], &[],
        "if a rank publishes a name that another job has, publish NAME-2, NAME-3, … in its place; standard error and \
         mpdnames show the name"),
    opt(Programs, Key::MemoryKinds, &["memory-alloc-kinds"], &["LIST"],
        "the kinds of memory that the job wants to use with MPI, like mpi,system,cuda:device; MPICH 5 obeys \
         it, older MPI libraries do not know it"),

    opt(Hosts, Key::Hosts, &["hosts"], &["LIST"],
        "run on these hosts, in this order: a,b:4,c[01-16] or all (default); b:4 has room for 4 processes").basic(),
    opt(Hosts, Key::HostFile, &["f", "machinefile", "hostfile"], &["FILE"],
        "the same from a file: HOST, HOST:N, HOST slots=N").basic(),
    opt(Hosts, Key::Host, &["host", "H"], &["LIST"],
        "run this program on these hosts, written as for -hosts").of(Argset),
    opt(Hosts, Key::Exclude, &["exclude"], &["LIST"],
        "run nothing on these hosts; LIST may begin with ^; can be repeated; -hosts ^LIST and -host ^LIST are the same"),
    opt(Hosts, Key::AllowUser, &["allow-user"], &["HOST=USER"],
        "permit this account of another name that the host file names; needed if others can write or exchange that file; \
         can be repeated"),
    opt(Hosts, Key::Architecture, &["arch"], &["ARCH"],
        "run only if the hosts have this architecture, like x86_64, amd64 or 'x86*'; all hosts of a ring \
         have that of this host, so another one is refused").of(Argset),
    opt(Hosts, Key::NoLocal, &["nolocal"], &[],
        "run nothing on this host"),
    opt(Hosts, Key::PerHost, &["ppn", "perhost", "N", "npernode"], &["N"],
        "run N processes on a host before the next host is used (default: its number of CPUs); with \
         -hosts all and without -n: N processes on each host of the ring"),
    opt(Hosts, Key::RoundRobin, &["rr"], &[],
        "give each host one process in turn, as long as it has room"),
    opt(Hosts, Key::Placement, &["placement"], &["slots|load"],
        "the host of each rank: slots (default): a host fills its slots, then the next; load: the host whose CPUs are the \
         least busy, by its load, its slots and its speed (speed=X in the host file)"),
    opt(Hosts, Key::SpawnPolicy, &["spawn-policy"], &["rr|load|pack"],
        "the host of each process that ranks spawn: rr (default): the next host after the one used last; \
         load: the host whose CPUs are the least busy, by its load and speed, where blocked processes of the job do not \
         count; pack: fill the slots of the \
         host used last, then of the next; MPICH's test spaiccreate2 hangs with rr because of a fault of \
         MPICH, but not with pack"),
    opt(Hosts, Key::SpawnLimit, &["spawn-limit"], &["K"],
        "run at most K processes of the job for each slot of a host; further spawns wait in their order until a slot is \
         free or a host joins the ring; a process occupies no slot while it waits for a spawn, or for processes \
         that it has spawned"),
    opt(Hosts, Key::SpawnDepth, &["spawn-depth"], &["N"],
        "let a chain of spawns have at most N worlds, each spawned by the one before (100); a further spawn fails"),
    opt(Hosts, Key::SpawnNice, &["spawn-nice"], &["N"],
        "add N (-20 to 19) to the niceness of spawned processes, for each level of the tree of spawns; the highest is 19"),
    opt(Hosts, Key::Group, &["g"], &["K"],
        "keep groups of K ranks together on a host; they get MPD_GROUP_DIR for shared memory, \
         MPD_GROUP_SIZE and MPD_GROUP_RANK; the last group may be smaller"),
    opt(Hosts, Key::Behind, &["1"], &[],
        "begin with the next host of the ring instead of this one"),
    opt(Hosts, Key::Binding, &["bind-to", "binding"], &["none|core|hwthread|l3cache|numa|socket|slots|user:LIST"],
        "bind each rank to one core (core), hardware thread (hwthread), last-level cache (l3cache), NUMA node \
         (numa) or socket (socket); slots: to an equal share of the host's cores; core:2: to two cores each, and so with other units; \
         user:0+1,2-3: the first rank of a host to CPUs 0 and 1, the second to 2 and 3 (c0: a core, s1: a socket); \
         default: none; only CPUs that the daemon may use count; if there are more ranks than units, they are \
         used again from the first"),
    opt(Hosts, Key::MapBy, &["map-by"], &["node|slot|socket|numa|l3cache|core|hwthread"],
        "which part of its host the next rank uses: socket, numa, l3cache, core or hwthread in turn; with :block=N \
         for N ranks at a time, or :even for an equal share of the ranks; socket:2: two neighbours count as \
         one part; -bind-to chooses the CPUs there; node: hosts in turn, as -rr; slot: the default"),
    opt(Hosts, Key::IfRoom, &["bind-if-room"], &[],
        "do not bind the ranks of a host that has fewer cores (or hardware threads) than they need"),
    opt(Hosts, Key::OnlyCpus, &["only-cpus"], &["LIST"],
        "only these CPUs of each host count for -bind-to, and ranks that are not bound may use only these; LIST is \
         0-3,8 by the system's numbers, c0-3 for cores, s1 for a socket"),
    opt(Hosts, Key::Memory, &["mem"], &["SIZE"],
        "let the job have at most SIZE memory on each host, all its processes there together: 512M, 4G; K, M and G are \
         powers of 1024; the hosts need control groups that the system has delegated, else nothing starts"),
    opt(Hosts, Key::Cpus, &["cpus"], &["N"],
        "let the job have at most the time of N CPUs on each host, all its processes there together: 4, 1.5; as for -mem"),
    opt(Hosts, Key::RankFile, &["rankfile", "rf"], &["FILE"],
        "the host and the CPUs of each rank, as lines like rank 0=HOST slot=1:0-2, which means cores 0 to 2 of socket 1; \
         see FILES in the manual"),
    opt(Hosts, Key::Pick, &["pick"], &["WHICH"],
        "run one process on each of these hosts: n0-3,5 by number, N all; or on each of these slots: c0,2 by number, \
         C all; or lines: one for each line of the host file, in its order; the numbers count the named hosts, or those of \
         the ring; LAM writes N, C, n0-3 without -pick"),
    opt(Hosts, Key::Strict, &["nooversubscribe"], &[],
        "refuse more processes than slots"),
    opt(Hosts, Key::Allocation, &["alloc"], &["ID"],
        "use exactly the slots of this allocation of mpdalloc (default: MPD_ALLOC, which mpdalloc sets)"),
    opt(Hosts, Key::Wait, &["wait"], &[],
        "wait in the queue until there is a free slot for each process, and hold these slots, see mpdalloc(1); in an \
         allocation it has no effect"),
    opt(Hosts, Key::Now, &["now"], &[],
        "with -wait: refuse with exit code 125 if the slots are not free now"),
    opt(Hosts, Key::Gpus, &["gpus-per-proc"], &["N"],
        "give each rank N GPUs of its host in turn, by CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and \
         ZE_AFFINITY_MASK; gpus=N in the host file tells their number, otherwise the devices of the system count"),
    opt(Hosts, Key::ReportBindings, &["report-bindings"], &[],
        "print the CPUs of each rank when it has started"),
    opt(Hosts, Key::Launcher, &["launcher", "bootstrap"], &["ssh|srun|rsh|CMD"],
        "the command that starts daemons on named hosts if no daemon runs here (default: ssh; srun in a \
         Slurm job); CMD gets HOST and COMMAND as arguments"),
    opt(Hosts, Key::LauncherProgram, &["launcher-exec", "bootstrap-exec"], &["CMD"],
        "the path of the launcher's program; options may follow"),
    opt(Hosts, Key::LauncherArguments, &["launcher-args"], &["ARGS"],
        "further arguments of the launcher, like '-p 2222'"),
    opt(Hosts, Key::PrintRankMap, &["print-rank-map"], &[],
        "print which ranks run on which host, as in (h1:0-3)(h2:4,6)"),

    opt(Environment, Key::EnvSet, &["genv"], &["NAME", "VALUE"],
        "set a variable for all programs; also NAME=VALUE").of(ALL).basic(),
    opt(Environment, Key::EnvSet, &["env"], &["NAME", "VALUE"],
        "set a variable for this program; also NAME=VALUE").of(Argset).basic(),
    opt(Environment, Key::EnvList, &["genvlist"], &["A,B,..."],
        "pass only these variables and PATH to all programs; after -genvall: these in addition").of(ALL),
    opt(Environment, Key::EnvList, &["envlist"], &["A,B,..."],
        "the same for this program; after -envall: these in addition").of(Argset),
    opt(Environment, Key::EnvAll, &["genvall"], &[],
        "pass the whole environment to all programs (default)").of(ALL),
    opt(Environment, Key::EnvAll, &["envall"], &[],
        "pass the whole environment to this program").of(Argset),
    opt(Environment, Key::EnvNone, &["genvnone"], &[],
        "pass only PATH to all programs").of(ALL),
    opt(Environment, Key::EnvNone, &["envnone"], &[],
        "pass only PATH to this program").of(Argset).basic(),
    opt(Environment, Key::EnvExport, &["x"], &["NAME[=VALUE]"],
        "pass or set a variable for this program (option of Open MPI); with -d, the value is a file of \
         debugger commands, and an error skips the rest of the file; can be repeated").of(Argset),

    opt(Io, Key::Label, &["l", "prepend-rank"], &[],
        "put the rank in front of each line of output").basic(),
    opt(Io, Key::LabelFormat, &["label-fmt"], &["FORMAT"],
        "put FORMAT and ': ' in front of each line; implies -l; the fields are %r rank, %h host, %p process id, %j job id, \
         %a alias; %o stream (out or err), %w world and rank as in 1,0, and %% percent sign"),
    opt(Io, Key::LabelPattern, &["prepend-pattern"], &["FORMAT"],
        "like -label-fmt, but without the added ': '"),
    opt(Io, Key::Merge, &["m"], &[],
        "print identical lines of ranks once; implies -l").basic(),
    opt(Io, Key::Timestamp, &["timestamp"], &[],
        "put the time in front of each line of output"),
    opt(Io, Key::Stdin, &["s"], &["RANKS"],
        "ranks that get standard input: all, none, 1,3 or 0-3 (default 0)").basic(),
    opt(Io, Key::Pty, &["pty"], &[],
        "run each rank of this program on its own terminal, of the size of this terminal; the program \
         writes line by line, prints prompts, and standard error joins standard output; see pty(1)").of(Argset),
    opt(Io, Key::StdinSwitch, &["stdin-switch"], &[],
        "allow mpdstdin to give standard input to all ranks while the job runs; a rank that does not \
         receive it then waits for input, instead of reading an end of file"),
    opt(Io, Key::OutputFrom, &["output-from"], &["RANKS"],
        "keep the output of these ranks, like 0 or 1,4-7, and discard that of all others"),
    opt(Io, Key::OutFile, &["outfile-pattern"], &["FILE"],
        "write standard output to files (%r is the rank)").basic(),
    opt(Io, Key::ErrFile, &["errfile-pattern"], &["FILE"],
        "write standard error to files (%r is the rank)"),
    opt(Io, Key::OutputFile, &["output-pattern"], &["FILE"],
        "write both to files; %o is out or err, so that DIR/rank.%R/std%o makes two files in a directory for \
         each rank; without %o both are in one file; -errfile-pattern and -outfile-pattern come first"),
    opt(Io, Key::Tee, &["tee"], &[],
        "print the output as well that goes to files"),
    opt(Io, Key::JoinErr, &["merge-stderr-to-stdout"], &[],
        "let the standard error of each rank be its standard output, as 2>&1 in a shell"),

    opt(Ending, Key::Timeout, &["timeout"], &["SECONDS"],
        "end after SECONDS (MPIEXEC_TIMEOUT); 0: never").basic(),
    opt(Ending, Key::OnFailure, &["on-failure"], &["WHAT"],
        "after a failure: end the job (end, default), or let the other ranks run (continue, highest)").basic(),
    opt(Ending, Key::Elastic, &["elastic"], &[],
        "a rank may end with exit code 0 at any time, also without MPI_Finalize; the others continue"),
    opt(Ending, Key::ContinueOnFailure, &["disable-auto-cleanup", "k"], &[],
        "like -on-failure continue, but without messages about failed ranks (-v prints them); the exit \
         code is that of the first failed rank"),
    opt(Ending, Key::AbortScope, &["abort-scope"], &["job|world|connected"],
        "what ends with a rank that fails. job (default): all ranks of this job, except worlds that have disconnected \
         (MPI_Comm_disconnect of Open MPI; PMI-2, PMIx); world: only its world, so that spawned processes and their \
         spawners do not end each other, for MPI libraries that do not report a disconnect; connected: like job, and \
         this job also ends if a job fails with which its ranks are connected (MPI_Comm_connect, MPI_Comm_accept)"),
    opt(Ending, Key::AllowAlone, &["allow-alone"], &[],
        "accept that each rank ran alone, as rank 0 of 1, because its MPI library does not speak PMI (Open \
         MPI); without this option, mpirun reports it at the end and returns 1"),
    opt(Ending, Key::HostTimeout, &["host-timeout"], &["SECONDS"],
        "a host of the job is lost if nothing has come from its manager for SECONDS (3 or more; 8); the job waits as \
         long as that, also if the ring has lost the host before"),
    opt(Ending, Key::StatusFile, &["status-file"], &["FILE"],
        "write to FILE how each rank ended").basic(),
    opt(Ending, Key::ExitCodeFile, &["ecfn"], &["FILE"],
        "the same in the format of the original MPD, with the raw wait status"),
    opt(Ending, Key::PrintExitCodes, &["print-all-exitcodes"], &[],
        "print the exit codes of all ranks at the end"),

    opt(Debugger, Key::Debug, &["d", "gdb"], &[],
        "run every rank under gdb, with one prompt for all ranks; mpigdb is mpirun -d"),
    opt(Debugger, Key::DebugCommand, &["ex"], &["COMMAND"],
        "with -d: execute this debugger command before typed commands; can be repeated"),
    opt(Debugger, Key::DebugBatch, &["batch"], &[],
        "with -d: end after the commands of -x and -ex; the exit code is 1 if a command was refused"),
    opt(Debugger, Key::DebugPath, &["gdb-path"], &["PATH"],
        "use this gdb (default: gdb, as found on each host)"),
    opt(Debugger, Key::Attach, &["gdba", "p"], &["JOB"],
        "debug a running job: an id, as mpdlistjobs lists it, or an alias; -p only with -d or as mpigdb"),
    opt(Debugger, Key::Stacks, &["stacks"], &["JOB"],
        "print the call stacks of a running job, equal stacks together; the job continues"),
    opt(Debugger, Key::AttachRanks, &["r"], &["RANKS"],
        "with -gdba and -stacks: only these ranks, like 0,2-4"),
    opt(Debugger, Key::TotalView, &["tv"], &[],
        "run mpirun under TotalView, as totalview mpirun -a ... does"),
    opt(Debugger, Key::OnCrash, &["on-crash"], &["gdb"],
        "when ranks crash: on a terminal, open a debugger at them; otherwise, or with -batch, print their \
         stacks at the end"),

    opt(Job, Key::Alias, &["a"], &["ALIAS"],
        "give the job a name"),
    opt(Job, Key::Ring, &["ring"], &["NAME"],
        "run in the ring with this name, which must exist (default: MPD_RING, MPD_CON_EXT, the id of the \
         batch job)"),
    opt(Job, Key::RunDir, &["rundir"], &["DIR"],
        "use the running daemon with this run directory (default: MPD_RUNDIR)"),
    opt(Job, Key::TmpDir, &["tmpdir"], &["DIR"],
        "make the job's own directory in DIR on each host (default: TMPDIR, else /tmp); see MPD_JOB_TMPDIR"),
    opt(Job, Key::UniverseSize, &["usize"], &["N|SYSTEM|INFINITE"],
        "the universe size for MPI programs: a number; SYSTEM: the number of CPUs of the ring (of this \
         host, if no daemon runs here); INFINITE: unknown; by default the slots of the named hosts or of \
         the allocation, else those of this host"),
    opt(Job, Key::Dialect, &["dialect"], &["NAME"],
        "read the following options as those of another launcher: hydra, intel, openmpi4, openmpi5, mvapich, \
         pals, lam, mpd, srun or ours; the page of foreign options in the manual lists all of them"),
    opt(Job, Key::DryRun, &["dry-run"], &[],
        "show the job, hosts and programs; run nothing").basic(),
    opt(Job, Key::Json, &["json"], &[],
        "with -dry-run: print one JSON object; with -stacks: print complete stacks as JSON"),
    opt(Job, Key::Verbose, &["v", "verbose"], &[],
        "print each step and every notice").basic(),
    opt(Job, Key::Quiet, &["quiet"], &[],
        "show no progress on a terminal"),
    opt(Job, Key::TraceStartup, &["trace-startup"], &["FILE"],
        "write the times of the actions of each host and rank to FILE, for Perfetto or chrome://tracing"),
    opt(Job, Key::TraceHops, &["trace-hops"], &[],
        "print how many times the messages of the launch were forwarded"),
    opt(Job, Key::ProcTable, &["proctable"], &["FILE"],
        "write the host, executable and process id of each rank to FILE as JSON, when all ranks have \
         started"),
    opt(Job, Key::ReportPid, &["report-pid"], &["FILE|-|+"],
        "write the process id of mpirun to FILE, standard output (-) or standard error (+)"),
    opt(Job, Key::Record, &["record"], &["DIR"],
        "for bug reports: each manager records its inputs in DIR/JOB.HOST.recording on its host"),
    opt(Job, Key::Singleton, &["pmi_args"], &["PORT", "INTERFACE", "KEY", "PID"],
        "serve the program that waits at PORT; MPI libraries use this option in programs started without \
         mpirun"),
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

    opt(Accepted, Key::Ignored, &["rmk"], &["NAME"],
        "Hydra: the batch system; ignored, because it is detected"),
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
