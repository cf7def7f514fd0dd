//! The texts of `-help`, `-help-all` and `-version`, made from the table of options.

use std::fmt::Write as _;

use crate::debug;
use crate::dialect::Dialect;
use crate::options::{Heading, Key, OPTIONS, Opt};

/// Width of the texts, the default width of a terminal.
const WIDTH: usize = 80;

/// Column of the descriptions.
const COLUMN: usize = 30;

/// The most used options, which fit on a screen.
pub fn short(name: &str) -> String {
    let mut text = usage(name);
    match name {
        EVERYWHERE => paragraphs(&mut text, &EVERYWHERE_ABOUT),
        debug::NAME => paragraphs(&mut text, &DEBUGGER_ABOUT),
        _ => {}
    }
    let (shown, examples): (fn(&Opt) -> bool, &[&str]) = match name {
        EVERYWHERE => (of_everywhere, &EVERYWHERE_EXAMPLES),
        debug::NAME => (of_debugger, &DEBUGGER_EXAMPLES),
        _ => (|o| o.basic, &EXAMPLES),
    };
    sections(&mut text, shown);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "\nExamples (compatible with {}):", launchers(name));
    for example in examples {
        let _ = writeln!(text, "  {}", example.replacen("mpirun", name, 1));
    }
    text
}

fn paragraphs(text: &mut String, paragraphs: &[&str]) {
    for paragraph in paragraphs {
        Wrapped::new(text, 0).words(paragraph);
        text.push('\n');
    }
}

/// The purpose of `mpdexec`.
const EVERYWHERE_ABOUT: [&str; 2] = [
    "Runs a command once on every host of the ring. The name of the host is in front of each line of output. A \
     line that several hosts print appears once, with the names of all these hosts. The command runs to its end \
     on each host. The exit code is the highest of all hosts.",
    "mpdexec is mpirun with '-hosts all -ppn 1 -m -prepend-pattern \"%h: \" -on-failure highest'. Other options \
     of mpirun may precede the command if they do not contradict these options.",
];

const EVERYWHERE_EXAMPLES: [&str; 3] = [
    "mpdexec uptime",
    "mpdexec sh -c 'df -h /scratch | tail -n 1'",
    "mpdexec -ring work -timeout 10 uname -r",
];

/// The options for `mpdexec`.
fn of_everywhere(opt: &Opt) -> bool {
    let keys = [
        Key::Directory,
        Key::EnvSet,
        Key::Stdin,
        Key::OutFile,
        Key::Timeout,
        Key::Ring,
        Key::RunDir,
        Key::Preload,
        Key::DryRun,
        Key::HelpAll,
    ];
    opt.is_shown() && keys.contains(&opt.key)
}

/// The purpose of `mpigdb`.
const DEBUGGER_ABOUT: [&str; 3] = [
    "Runs every rank of a program under gdb, with one prompt for all ranks. With -p JOB it attaches to a \
     running job. The name mpigdb means mpirun -d. Options of mpirun may precede the program.",
    "You can type any command of gdb at the prompt. It goes to the addressed ranks. 'z 0,2-4' addresses these \
     ranks, 'z' addresses all ranks, and 'z ?' lists the state of all ranks. 'run' starts the program, ^C \
     interrupts the running ranks, and 'quit' ends the session. 'help z' shows this text.",
    "The manual page, man mpigdb, has the details in its section DEBUGGING.",
];

const DEBUGGER_EXAMPLES: [&str; 3] = [
    "mpigdb -np 3 ./cpi",
    "mpigdb -np 3 -ex 'break main' -ex run ./cpi 1000",
    "mpigdb -p 3 -r 0,2-4",
];

/// The options for `mpigdb`.
fn of_debugger(opt: &Opt) -> bool {
    let keys =
        [Key::Processes, Key::Hosts, Key::Directory, Key::EnvExport, Key::Ring, Key::HelpAll];
    let is_own = opt.heading == Heading::Debugger && !matches!(opt.key, Key::Debug | Key::OnCrash);
    opt.is_shown() && (is_own || keys.contains(&opt.key))
}

/// All options.
pub fn complete(name: &str) -> String {
    let mut text = usage(name);
    for paragraph in NOTES {
        let mut indented = Wrapped::new(&mut text, 0);
        indented.words(paragraph);
        text.push('\n');
    }
    sections(&mut text, |o| o.is_shown());
    text
}

/// The program name that runs a command once on every host.
pub(crate) const EVERYWHERE: &str = "mpdexec";

/// The arguments of `mpirun` that this name stands for.
pub(crate) const EVERYWHERE_MEANS: [&str; 9] =
    ["-hosts", "all", "-ppn", "1", "-m", "-prepend-pattern", "%h: ", "-on-failure", "highest"];

/// The version, in one line with the number at its end. Scripts search it for the words of launchers, and then use
/// the options of the launcher that they find. Under the name of another launcher it has the words of this launcher
/// only. Intel MPI is not named, because scripts that find it also search for the faults of its versions.
pub fn version(name: &str) -> String {
    let words = launchers(name);
    format!("{name} (MPD, compatible with {words}) {}\n", env!("CARGO_PKG_VERSION"))
}

/// The launchers whose options this name has, by the words for which scripts search the version and the help.
fn launchers(name: &str) -> &'static str {
    Dialect::of_program(name)
        .map_or("HYDRA of MPICH and OpenRTE of Open MPI", Dialect::words_of_version)
}

/// Notes for the full help that are not in the table of options.
pub(crate) const NOTES: [&str; 14] = [
    "mpirun runs one or more programs as one parallel job, on the hosts of a ring of MPD daemons or on named \
     hosts. A process of the job is called a rank.",
    "Options end at the program. The following words are the program's arguments, up to a ':' that is a \
     separate word. Options for one program precede it, in its section. Options for the job can be in any \
     section, or in a first section without a program. Each option can be written with one dash or two, and \
     -option VALUE also as -option=VALUE. '--' ends the options.",
    "Exit code: 0 if all ranks exited with 0, otherwise the code of the first rank that failed, or 128 + the \
     signal that killed it. With -abort-scope connected, if another job has ended this one: the code of that job, or \
     125 if it has ended without a report. Further codes: 1 if each rank ran alone (see -allow-alone); 124 after -timeout; 126 \
     if a program cannot be executed, 127 if it is not found; 125 if mpirun itself fails, or if ranks use different \
     MPI libraries. The code is also 125 if a process of the job has become another user's and cannot be killed. \
     It is 125 as well if all ranks exited with 0 but a FILE of -status-file, -ecfn, -trace-startup or \
     -proctable cannot be written. With \
     -on-failure continue, the other ranks continue after a failure. With -on-failure highest they continue \
     too, and the exit code is the highest of all ranks, spawned ranks included.",
    "Ranks of Open MPI in separately started jobs of one ring can connect (MPI_Comm_accept, MPI_Comm_connect). If \
     one of these jobs fails, the others continue. A job with -abort-scope connected ends if a connected job fails: by \
     MPI_Abort, by a failed rank, by a signal, or with its host. The message names that job and its failure. Only the \
     option of the job that is to end counts. After MPI_Comm_disconnect, the jobs are independent. mpirun does not know \
     the connections of other MPI libraries.",
    "With -dry-run, mpirun shows the hosts, CPUs, programs, environments and MPI libraries of the job, and runs \
     nothing. If a daemon runs here, the hosts are those of its ring. Otherwise they are the hosts of the ring that \
     the job would start. Numbers of CPUs that no daemon has reported are those of this host. The exit code is 125 \
     if the ranks cannot be placed. With -json, the answer is one JSON object; see FILES.",
    "A host takes one process for each of its CPUs, or N with -ppn N or HOST:N. Then the next host takes \
     processes. When all hosts are full, the first host takes processes again, and mpirun reports this on a \
     terminal or with -v. Names of hosts may be short, and localhost is this host.",
    "Without -n, a program has one process for each named host: N for HOST:N, or K with -ppn K. If no host is named, it has one process (K with -ppn K). If a job has several programs, each program without -n has one process.",
    "If standard input, output or error of mpirun is closed (>&-), it is closed in the ranks too. If it is the \
     input, it is closed only in the ranks of -s; the input of the other ranks is empty. A stream stays open in \
     the ranks if a file (-outfile-pattern), a terminal (-pty) or -stdin-switch replaces it. If standard input \
     cannot be read to its end, the ranks receive the part before the error. The exit code is then 125 if all \
     ranks exited with 0.",
    "If no daemon runs on this host, mpirun starts one for the job. If other hosts are named, it starts daemons \
     there by ssh (see -launcher). They end with the job. A batch job (Slurm, PBS, LSF, Grid Engine) gives the \
     hosts, their slots and the number of processes, unless you name hosts.",
    "A job without a daemon has the name pPID, where PID is the process id of its mpirun. On the host of its \
     mpirun, the tools mpdlistjobs, mpdkilljob, mpdsigjob and mpdstdin find it by this name. So do -stacks and \
     mpigdb -p. For this, the run directory must be writable. A debugger that is attached to such a job ends \
     with the job.",
    "Every rank gets the caller's environment, directory, umask, niceness and limits, unless options say \
     otherwise. The variables of another launcher, under which mpirun itself was started, are removed.",
    "With the name mpdexec, mpirun runs a command once on every host of the ring and prints equal lines once, \
     with their hosts. 'mpdexec uptime' is 'mpirun -hosts all -ppn 1 -m -prepend-pattern \"%h: \" -on-failure \
     highest uptime'.",
    "With the name mpigdb, mpirun debugs the program: 'mpigdb -np 3 ./cpi' is 'mpirun -d -np 3 ./cpi'. 'mpigdb \
     -p JOB' debugs a running job.",
    "'mpirun -stacks JOB' prints where the ranks of a hanging job are.",
];

/// Debugging a job, for the man page.
pub(crate) const DEBUGGER: [&str; 19] = [
    "With -d (also -gdb, or as mpigdb), every rank runs under its own gdb on its host. There is one prompt for \
     all ranks, (mpigdb). It appears when every addressed rank has answered. You can type any gdb command. \
     Lines of the debuggers and the programs have the ranks in front. A line of several ranks is shown once, as \
     in '0-2,5: Breakpoint 1, main ()'. You can give the program's arguments on the command line or after \
     'run'.",
    "The command 'z' addresses all ranks. 'z 0' or 'z 1-2,5' addresses these ranks only, until the next 'z'. 'z \
     ?' shows which ranks are addressed, which run, and where the others are stopped.",
    "The command 'run' starts the program on the addressed ranks. If one of them has already run, all ranks are \
     killed and started again together as a new parallel program. The debuggers stay and keep their \
     breakpoints.",
    "A spawned rank has a debugger from its start, and a number after those of the job. It gets the breakpoints \
     that were set for all ranks, and its program starts at once. Its debugger ends with the program.",
    "While the addressed ranks run, typed lines are the input of their programs, and ^D is its end. If only \
     some ranks run, you can also type 'z': 'z 0' addresses rank 0, and the prompt appears if rank 0 is \
     stopped. ^C interrupts the addressed ranks that run. A second ^C within two seconds offers to kill the \
     job. An empty line repeats the last 'next', 'step', 'continue' and similar commands.",
    "The command 'quit', or ^D at the prompt, kills the programs and ends the debuggers. The exit code is then 0.",
    "Commands of several lines ('commands', 'define', 'if', 'while', 'python') must be in a gdb script that \
     every host can read: 'source FILE'. If a debugger ends, the session reports it once and continues without \
     its rank.",
    "-x FILE and -ex COMMAND are executed in their order, before typed commands. If a command is refused, the \
     rest of its file is skipped. With -batch, the session ends after these commands.",
    "If standard input or output is no terminal, mpirun reads commands line by line, each when it can be \
     executed. The program never receives them. No prompt is printed, errors of gdb go to standard error, and \
     the end of the input means 'quit'. On a terminal, lines can be edited, TAB completes as in gdb, and \
     ~/.mpigdb_history stores the typed lines.",
    "-gdba JOB (with mpigdb also -p JOB) attaches to the ranks of a running job on all its hosts. JOB is an id \
     of mpdlistjobs (3 or 3@host) or an alias. A program or options of a job are not allowed. -r 0,2-4 attaches \
     to these ranks only, and they keep their numbers. The prompt appears after the lines that show where the \
     ranks are stopped.",
    "In such a session, 'quit' and any other end of the session let the job continue. 'detach' lets the \
     addressed ranks continue at once. 'kill' kills them, and their job then ends as after any killed rank. \
     'run' is refused. A second ^C offers to detach from the job.",
    "The user of the session must be allowed to attach to the processes on their hosts. The session attaches to \
     the process that was started for the rank, or with -pty to the program on the terminal. If this is a \
     script or a tool like valgrind, use mpdlistjobs and gdb for its children. Ranks of a job with -on-crash \
     are already traced. You can attach to them only when they have crashed and are held.",
    "-stacks JOB attaches to each rank (with -r: to some ranks) for a moment. It prints the calls of all \
     threads as one tree, each call with its ranks. Calls before main and calls inside libraries are left out. \
     If several threads of a rank are in a call, their number is printed. The user's settings of gdb are not \
     read. A thread that gdb cannot read is shown as '?? (thread NUMBER: reason)', with gdb's number.",
    "-json prints the complete stacks: a list of calls, each with 'call', 'ranks', 'threads' and 'calls'. A \
     stack cannot be read if the debugger does not answer for 30 seconds, for example. Then standard error has \
     a message, and the exit code is 1.",
    "With -on-crash gdb, mpirun reports where ranks crash. A crash is the death of a rank's process, or of a \
     descendant, by SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS or SIGTRAP. Before the process dies, gdb \
     reads the stacks of its threads. At the end of the job mpirun prints these stacks, equal stacks together. \
     A process with its own handler for the signal is not affected. Exit codes, output, input and signals stay \
     the same. Only the start is slower, by one process for each rank. Option -gdb-path names another gdb. \
     Option -pty can be combined with -on-crash, option -d cannot.",
    "On a terminal (input, output and error, in the foreground), such a process is held instead. The debugger \
     opens at the ranks that crash within 300 ms, at most 64, like mpigdb -p JOB -r RANKS. The keyboard belongs \
     to the debugger then, and output of other ranks still appears. The next session is for ranks that crash \
     later. You can also attach to them from another terminal at once.",
    "After 'quit', the processes die of their signals, and the job ends as without the debugger. With \
     -on-failure continue, the job continues. The command 'signal 0', typed twice, continues a process without \
     its signal; 'continue' does not. A time limit, mpdkilljob and SIGTERM also end held processes.",
    "With -batch, mpirun opens no debugger on a terminal, and prints stacks at the end. The same holds for a \
     job without a daemon whose run directory is not writable, because a debugger would not find it.",
    "If a host restricts ptrace (Yama), ranks still allow the debuggers of their daemon to attach. Their \
     children do not.",
];

/// The files and variables that `mpirun` reads, for the man page.
pub(crate) const OWN_VARIABLES: [(&str, &str); 13] = [
    ("MPD_RUNDIR", "the run directory of the daemon, unless -rundir names it"),
    (
        "MPD_RING, MPD_CON_EXT",
        "the name of the ring, unless -ring names it; the first variable that is set counts",
    ),
    (
        "SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, JOB_ID, FLUX_JOB_ID, COBALT_JOBID",
        "the id of the batch job; it is the name of the ring if nothing else names it",
    ),
    ("XDG_RUNTIME_DIR", "the parent of the run directory, if nothing names the run directory"),
    ("MPIEXEC_TIMEOUT, I_MPI_JOB_TIMEOUT", "the time limit in seconds, unless -timeout gives it"),
    ("MPIEXEC_UNIVERSE_SIZE, MPIEXEC_USIZE", "the universe size, unless -usize gives it"),
    (
        "HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE, MPIEXEC_MACHINEFILE",
        "the host file, unless an option names hosts",
    ),
    ("I_MPI_PERHOST", "the number of processes of a host, unless -ppn gives it"),
    (
        "I_MPI_PIN, I_MPI_PIN_DOMAIN, I_MPI_PIN_PROCESSOR_LIST",
        "the binding, unless -bind-to gives it; also if -genv sets them. Known are off, core, socket, numa, cache, node, \
         auto, omp, a number of hardware threads, masks like [3,C], and a list of processors",
    ),
    (
        "MV2_ENABLE_AFFINITY, MV2_CPU_MAPPING, MV2_CPU_BINDING_POLICY, MV2_CPU_BINDING_LEVEL",
        "the binding as MVAPICH means it, unless -bind-to gives it; also if -genv sets them",
    ),
    (
        "HYDRA_LAUNCHER, I_MPI_HYDRA_BOOTSTRAP, HYDRA_ENV, and others of MPIEXEC_, HYDRA_ and I_MPI_",
        "what the option of the same name does, unless that option is given; a variable that cannot be obeyed is \
         reported in one line",
    ),
    (
        "PBS_NODEFILE, PE_HOSTFILE, OAR_NODEFILE, COBALT_NODEFILE, PJM_O_NODEINF",
        "the file with the hosts of the batch job, if no option names hosts and no daemon runs here",
    ),
    (
        "TMPDIR",
        "the directory of the job's temporary directory on each host, where it can be used (default: /tmp)",
    ),
];

/// Related man pages.
pub(crate) const SEE_ALSO: &str = "mpd(1), mpdboot(1), mpdlistjobs(1), mpdkilljob(1), mpdsigjob(1), mpdstdin(1), \
    mpdtop(1), mpdtrace(1), mpdhelp(1), pty(1), gdb(1)";

/// The variables that every rank gets, for the man page.
pub(crate) const VARIABLES: [(&str, &str); 12] = [
    ("PMI_RANK", "the rank"),
    ("PMI_SIZE", "the number of ranks of the job"),
    ("MPI_LOCALRANKID", "the number of the rank among the ranks of its host, from 0"),
    ("MPI_LOCALNRANKS", "the number of ranks of the job on its host"),
    (
        "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE, \
         OMPI_COMM_WORLD_NODE_RANK, and MV2_COMM_WORLD_ with RANK, SIZE, LOCAL_RANK and LOCAL_SIZE",
        "the same numbers by the names of Open MPI and MVAPICH, for scripts",
    ),
    ("MPD_JOB_ID", "the id of the job, as mpdlistjobs shows it"),
    (
        "MPD_JOB_TMPDIR",
        "a directory on the rank's host, below TMPDIR/mpd-UID; it is removed with the job",
    ),
    (
        "MPD_GROUP_DIR",
        "with -g: a directory in memory (/dev/shm) for the rank's group. Other users cannot enter it. It is the \
         recommended place for shared memory, and is removed at the end of the job with all its files",
    ),
    (
        "MPD_GROUP_KEY",
        "with -g: a random name (/mpd- and 16 digits) for one object of the rank's group, for shm_open or sem_open \
         with mode 0600. At the end of the job, the objects with this name, and the files in /dev/shm whose names \
         begin with it, are removed. The name is public as soon as the object exists, so put further objects into \
         MPD_GROUP_DIR",
    ),
    (
        "MPD_GROUP_IPC_KEY",
        "with -g: a random number above 0, as a key for shmget, semget and msgget with mode 0600. It was unused \
         when the job began. Objects with this key are removed at the end of the job",
    ),
    ("MPD_GROUP_RANK", "with -g: the number of the rank in its group, from 0"),
    ("MPD_GROUP_SIZE", "with -g: the number of ranks of its group"),
];

/// The files that mpirun writes, for the man page.
pub(crate) const FILES: [(&str, &str); 13] = [
    (
        "-dry-run -json",
        "prints one JSON object. 'format' is 1, and changes when a member gets another meaning. 'processes' is the \
         number of ranks. 'options' has the options of the job that differ from the default, as texts. 'remarks' has \
         the options and variables without effect. 'programs' is a list in rank order. Each has 'program', \
         'arguments', 'substitute', 'directory', 'search', 'umask', 'terminal', 'limits', 'mpi_library' and \
         'environment'. 'file' is its path on this host, or null; 'problem' is the reason then. The environment has \
         'base' (caller or empty), 'without' and 'with'. 'daemons' is standing or started. 'hosts' has 'name', \
         'here', 'cpus', 'assumed' (no daemon has reported the number), 'addresses', 'ranks', and 'problem' if the \
         resolver does not know the name. 'ranks' has 'rank', 'host', 'program' (an index), 'cpus', 'bound_to' and \
         'gpus'. CPUs are null if the rank is not bound, or not on this host. GPUs are null unless the host file has \
         their number. 'notices' has the notices of the placement. If the ranks cannot be \
         placed, 'problem' replaces these members. A text that is not UTF-8 is an object with a list 'bytes'.",
    ),
    (
        "-file FILE",
        "is XML if it begins with '<', otherwise TOML. In TOML, keys at the top are options of the job without \
         dashes, like timeout = 60. Each table [[program]] has the words of a program in 'command', like command = \
         [\"./a\", \"x\"], and its options. An option without a value has the value true. A list stands for an option \
         that is given several times. A table has variables, like env = { A = \"1\" }. The XML is that of the \
         original MPD: create-process-group with totalprocs, and process-spec with range and exec. Its ranks get \
         only the variables of the file, and PATH.",
    ),
    (
        "-f FILE",
        "has one host per line: HOST, HOST:N, HOST N, or HOST with slots=N or cpu=N. The keys user=NAME (or \
         NAME@HOST), port=N and ifhn=NAME apply to the start of a daemon. With max_slots=N, a job with more ranks \
         there is refused. gpus=N is the number of GPUs for -gpus-per-proc. The key speed=X is the speed of the host for -placement load.",
    ),
    (
        "-bind-to user:LIST",
        "has the CPUs of the first, second, ... rank of each host, separated by commas. More ranks use the list again. \
         CPUs of one rank are joined by +. Numbers like 3 and 4-7 are CPUs by the system's numbers. With c before \
         them (c3, c4-7) they are cores, counted as for -bind-to core. A socket is s1, and some of its cores are s1c0-1. If a CPU is missing, or the daemon may not use it, \
         the job does not start.",
    ),
    (
        "-rankfile FILE",
        "has one line for each rank: 'rank 0=HOST slot=CPUS', with # for comments. CPUS is 1:0-2 (cores 0 to 2 of \
         socket 1), 1:* (a socket), 0,2-3 (cores), p5 (CPU 5 by the system's number), or * (all CPUs). HOST is a name, \
         or +n0, +n1, ... by the place in the list of named hosts. Without -n the job has as many ranks as lines.",
    ),
    (
        "-report-bindings",
        "prints a line for each rank, like 'rank 3 on h1: CPUs 0,4 (core 0 of socket 0)'. The manager of the host reads \
         the CPUs from the system when the process has started. -dry-run shows the plan.",
    ),
    (
        "-gpus-per-proc N",
        "gives rank i of a host the GPUs from i*N on, in a circle. Without gpus=N in the list of hosts, the devices \
         /dev/nvidia* count, otherwise /dev/dri/renderD*. A host without a GPU is refused. If ranks share GPUs, mpirun \
         reports it once for each host. A variable that is set already stays, which mpirun reports as well.",
    ),
    (
        "-outfile-pattern FILE, -errfile-pattern FILE, -output-pattern FILE",
        "%r is the rank, %h its host, %j the id of the job, %a its alias, %% a percent sign. %R is the rank with leading \
         zeros, so that all have the same length. %3r has at least three digits. %n is the number of the host, from 0; hosts are ordered by their \
         lowest ranks. In -output-pattern, %o is out or err. The files are on the \
         host of mpirun, for ranks of all hosts. They and missing directories are created before the ranks start, and old \
         content is lost. Files have no labels and no times. With -tee, the output is printed as well, with labels. \
         If the pattern gives the same name for several ranks, these ranks write to one file, line by line. For a \
         spawned rank, %r is its rank and its world, as in its label. With out.%r, rank 0 of world 2 writes to \
         out.0,2. Its file is closed when its output has ended. If a file cannot be created, the spawn returns an \
         error. If the pattern has no %r, spawned ranks write to the files of the other ranks.",
    ),
    (
        "-status-file FILE",
        "is written at the end of the job. Each line has items NAME=VALUE, separated by spaces. The first two lines \
         are 'mpd-status 1' and 'job=ID ranks=NUMBER', where NUMBER does not count spawned ranks. One line for each \
         of these ranks follows, in order: 'rank=0 host=h1 pid=4711 code=0'. A rank that was killed has signal=9 \
         instead of code, and core=1 if it left a core dump. A rank that never ran has 'state=not-started' instead \
         of pid and code, and a rank that was lost with its host has 'state=lost'. Lines of spawned ranks follow, \
         with their world: 'world=2 rank=0 host=h1 pid=4712 code=0'. Ranks of a failed spawn never ran, or were \
         killed at once. At most 100,000 spawned ranks with code=0 and 100,000 others are listed. A last line \
         left-out=NUMBER gives the number of missing ranks.",
    ),
    (
        "-ecfn FILE",
        "has the format of the original MPD, in order of the ranks: 'exit-codes', 'jobid=ID', and 'rank=0 status=0 \
         pid=4711 host=h1' for each rank except spawned ranks. The status is that of wait(2).",
    ),
    (
        "-proctable FILE, -trace-startup FILE",
        "do not contain spawned ranks, and -print-all-exitcodes does not either.",
    ),
    (
        "-timeout SECONDS",
        "also limits the wait for the reader of the output. Output that nothing reads is discarded 0.5 s after the \
         time limit, or 0.5 s after the end of the ranks if that is later. If output is discarded, the job has \
         failed with 124.",
    ),
    (
        "FILE",
        "of -status-file, -ecfn, -trace-startup and -proctable may be a FIFO that another process reads. If the \
         reader does not read for 2 s, this is an error, like any failed write. The job continues then. mpirun \
         prints 'cannot write FILE: reason' and returns 125 instead of 0.",
    ),
];

/// Tools that run the ranks' program, for the man page: a command line and its result.
pub(crate) const WRAPPERS: [(&str, &str); 5] = [
    (
        "mpirun -np 4 -subst valgrind --log-file=vg.%r ./cpi",
        "a report of valgrind for each rank; without --log-file all reports go to standard error",
    ),
    ("mpirun -np 4 -subst strace -f -o out.%r ./cpi", "the system calls of each rank"),
    (
        "mpirun -np 4 -subst perf record -o perf.%r ./cpi",
        "a profile of each rank, if the hosts permit users to record profiles",
    ),
    ("mpirun -np 4 nice -n 5 ./cpi", "any program that runs another program"),
    (
        "mpirun -np 4 ./wrap.sh ./cpi",
        "a script that ends with exec \"$@\", or with \"$@\" if it has to do something afterwards; it finds the \
         rank in PMI_RANK, and its exit code counts",
    ),
];

/// Rules for these tools.
pub(crate) const WRAPPING: &str = "\
    A tool that runs the program precedes it on the command line, so the ranks run the tool. The tool must pass \
    on its environment and descriptor 3, by which the program speaks PMI. Signals reach both processes. At the \
    end of the job, the remaining processes of both are killed. With -subst, %r, %l, %h, %j, %s and %% are replaced \
    in all arguments of the program's section. A percent sign for the program is then written %%.";

/// The interface for debuggers, for the man page.
pub(crate) const DEBUGGERS: [&str; 4] = [
    "Parallel debuggers and tools (TotalView, DDT, LaunchMON) find the processes of a job in mpirun, by the \
     MPIR Process Acquisition Interface 1.0. Start mpirun under the debugger, as in 'totalview mpirun -a -np 4 \
     ./cpi', or attach to a running mpirun. MPIR_proctable has the host, executable and process id of each \
     rank. -proctable FILE writes the same data as JSON.",
    "If the debugger has set MPIR_being_debugged before mpirun submits the job, ranks wait in MPI_Init, until \
     the debugger continues at MPIR_Breakpoint. They wait for the answer to their first PMI request. The \
     debugger does not have to set anything in the ranks (MPIR_partial_attach_ok). Programs that do not use PMI \
     do not wait. The time of -timeout runs meanwhile.",
    "If a failure ends the job, MPIR_debug_state is 2 (aborting), and MPIR_debug_abort_string has the reason. \
     Spawned processes are not in the table. Paths are those of this host, or as typed if the program is not on \
     this host.",
    "The symbols are in the symbol table of every build, and debug information describes their types. If mpirun \
     was linked by mold or gold, tools do not find the type MPIR_PROCDESC there.",
];

/// Examples for a start.
pub(crate) const EXAMPLES: [&str; 3] = [
    "mpirun -np 4 ./cpi",
    "mpirun -np 32 -ppn 2 -hosts c[01-16] ./cpi",
    "mpirun -l -n 1 ./first : -n 3 -wdir /tmp ./others input.dat",
];

fn usage(name: &str) -> String {
    if name == EVERYWHERE {
        return format!("Usage: {name} [options] command [arguments]\n\n");
    }
    format!("Usage: {name} [options] program [arguments] [: [options] program [arguments]]...\n\n")
}

fn sections(text: &mut String, shown: impl Fn(&Opt) -> bool) {
    let mut first = true;
    for heading in Heading::SHOWN {
        let mut options = OPTIONS.iter().filter(|o| o.heading == heading && shown(o)).peekable();
        if options.peek().is_none() {
            continue;
        }
        if !std::mem::take(&mut first) {
            text.push('\n');
        }
        text.push_str(heading.title());
        text.push_str(":\n");
        options.for_each(|o| row(text, o));
    }
}

fn row(text: &mut String, opt: &Opt) {
    let mut left = String::from("  ");
    for (i, name) in opt.names.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = write!(left, "{comma}-{name}");
    }
    for value in opt.values {
        let _ = write!(left, " {value}");
    }
    text.push_str(&left);
    let mut wrapped = Wrapped { text, at: left.len(), indent: COLUMN };
    if left.len() + 2 > COLUMN {
        wrapped.line();
    }
    wrapped.pad();
    wrapped.words(opt.help);
}

/// Wraps words to lines.
struct Wrapped<'a> {
    text: &'a mut String,
    at: usize,
    indent: usize,
}

impl<'a> Wrapped<'a> {
    fn new(text: &'a mut String, indent: usize) -> Self {
        Self { text, at: 0, indent }
    }

    fn words(&mut self, words: &str) {
        for word in words.split(' ') {
            if self.at > self.indent {
                if self.at + 1 + word.len() > WIDTH {
                    self.line();
                    self.pad();
                } else {
                    self.text.push(' ');
                    self.at += 1;
                }
            }
            self.text.push_str(word);
            self.at += word.len();
        }
        self.text.push('\n');
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.at = 0;
    }

    fn pad(&mut self) {
        while self.at < self.indent {
            self.text.push(' ');
            self.at += 1;
        }
    }
}
