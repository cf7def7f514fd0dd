//! The texts of `-help`, `-help-all` and `-version`, made from the table of options.

use std::fmt::Write as _;

use crate::debug;
use crate::options::{Heading, Key, OPTIONS, Opt};

/// Width of the texts: a terminal's default.
const WIDTH: usize = 80;

/// Where descriptions begin.
const COLUMN: usize = 30;

/// The most used options; fits a screen.
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
    text.push_str("\nExamples:\n");
    for example in examples {
        // Writing to a String cannot fail, here and below.
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

/// What `mpdexec` is for.
const EVERYWHERE_ABOUT: [&str; 2] = [
    "Runs a command once on every host of the ring. Each line of output stands behind the name of its \
     host; a line that several hosts have in common is printed once, behind the names of all of them. The \
     command runs to its end on each host, and the exit code is the highest of all.",
    "It is mpirun with '-hosts all -ppn 1 -m -prepend-pattern \"%h: \" -on-failure highest'. Other options \
     of mpirun that do not contradict these can stand before the command.",
];

const EVERYWHERE_EXAMPLES: [&str; 3] = [
    "mpdexec uptime",
    "mpdexec sh -c 'df -h /scratch | tail -n 1'",
    "mpdexec -ring work -timeout 10 uname -r",
];

/// What `mpdexec` is used with.
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

/// What `mpigdb` is for.
const DEBUGGER_ABOUT: [&str; 3] = [
    "Runs every rank of a program under gdb, with one prompt for all of them, or attaches to a job that \
     runs (-p JOB). It is mpirun with -d; options of mpirun can stand before the program.",
    "At the prompt any command of gdb can be typed; it goes to the ranks that are addressed. 'z 0,2-4' \
     addresses these ranks, z all again, and 'z ?' shows who is where. run starts the program, and ^C interrupts \
     the ranks that run. 'help z' shows this, and quit ends the session.",
    "The section DEBUGGING of the manual page says more: man mpigdb.",
];

const DEBUGGER_EXAMPLES: [&str; 3] = [
    "mpigdb -np 3 ./cpi",
    "mpigdb -np 3 -ex 'break main' -ex run ./cpi 1000",
    "mpigdb -p 3 -r 0,2-4",
];

/// What `mpigdb` is used with.
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

/// The name under which the program runs a command once on every host.
pub(crate) const EVERYWHERE: &str = "mpdexec";

/// The words of `mpirun` that it stands for.
pub(crate) const EVERYWHERE_MEANS: [&str; 9] =
    ["-hosts", "all", "-ppn", "1", "-m", "-prepend-pattern", "%h: ", "-on-failure", "highest"];

/// The version.
pub fn version(name: &str) -> String {
    format!("{name} (MPD) {}\n", env!("CARGO_PKG_VERSION"))
}

/// What the table cannot say.
pub(crate) const NOTES: [&str; 10] = [
    "Options end at the program; what follows it are the program's arguments, up to a ':' that is \
     a word of its own. Options for one program stand in its section, before it; options for the \
     job can stand in any section, or in a first one without a program. Each option can be \
     written with one dash or two, and -option VALUE also as -option=VALUE. A '--' ends the \
     options.",
    "Exit code: 0 if all ranks exited with 0; else that of the first rank that failed, or 128 + \
     the signal that killed it; 1 if each rank ran alone (see -allow-alone); 124 after -timeout; 125 if mpirun itself fails, \
     if a process of the job has become another user's and cannot be killed, or if all ranks exited with 0 and a \
     FILE of -status-file, -ecfn, -trace-startup or -proctable cannot be written; 126 and 127 if a \
     program cannot be executed or found. With -on-failure continue \
     the other ranks run on after a failure; with highest they do, too, and the exit code is the \
     highest of all ranks', also of spawned ones.",
    "A host takes one process for each of its CPUs, or as many as -ppn or its list says, then the \
     next host does; when all are full the first begins again, and mpirun reports that on a terminal \
     or with -v. Names may be short, and localhost \
     is this host. Without -n a program has one process for each named host, N for HOST:N, or K for each with -ppn K; \
     if none is named, one, or K; of several programs each one.",
    "If standard input, output or errors are closed (>&-), they are closed in the ranks, too: output and errors in all \
     of them, input in those that -s names; the others find it empty. A rank has open what a file \
     (-outfile-pattern), a terminal (-pty) or -stdin-switch gives it instead. If standard input cannot be \
     read to its end, the ranks get what came before, and the exit code is 125 if all of them exited with 0.",
    "If no daemon is running here, the job has this host alone, or, if other hosts are named, daemons \
     there that are started for it by ssh (-launcher) and end with it. A batch system (Slurm, PBS, LSF, \
     Grid Engine) gives hosts, slots and the number of processes to whoever names no hosts.",
    "A job without a daemon is called pPID, PID being the process id of its mpirun. On the host of its mpirun, \
     mpdlistjobs, mpdkilljob, mpdsigjob, mpdstdin, -stacks and mpigdb -p find it by that name, if the run directory can be \
     written. A debugger that is attached to it ends with it.",
    "Every rank gets the caller's environment, directory, umask, niceness and limits unless told otherwise, \
     less the variables of a launcher that mpirun itself was started under.",
    "Started as mpdexec it runs a command once on every host of the ring and prints equal lines \
     once, behind their hosts: 'mpdexec uptime' is \
     'mpirun -hosts all -ppn 1 -m -prepend-pattern \"%h: \" -on-failure highest uptime'.",
    "Started as mpigdb it debugs the program: 'mpigdb -np 3 ./cpi' is 'mpirun -d -np 3 ./cpi'. 'mpigdb -p JOB' \
     debugs a job that runs.",
    "'mpirun -stacks JOB' says where the ranks of a job are that does not go on.",
];

/// How a job is debugged, for the man page.
pub(crate) const DEBUGGER: [&str; 13] = [
    "With -d (also -gdb, or as mpigdb) every rank runs under a gdb of its own on its host, and one prompt, \
     (mpigdb), stands for all: it appears when every addressed rank has answered. Any gdb command can be typed. \
     What the debuggers and the programs say has the ranks in front; what several say alike is shown once, as in \
     '0-2,5: Breakpoint 1, main ()'. The program's arguments may stand on the command line or behind run.",
    "z addresses all ranks, 'z 0' or 'z 1-2,5' these alone, until the next z; 'z ?' shows who is addressed, who \
     runs, and who is stopped where.",
    "run starts the program on the addressed ranks. If one of them has run already, all ranks are killed and \
     started again together, as a new parallel program under the same debuggers, which keep their breakpoints.",
    "While the addressed ranks run, what is typed is their programs' input, and ^D its end. If some are stopped \
     and others still run, z can be typed too: 'z 0' goes on with those that are ready. ^C interrupts the \
     addressed ranks that run; a second ^C within two seconds offers to kill the job. An empty line repeats the \
     last next, step, continue and the like.",
    "quit, or ^D at the prompt, kills the programs, ends the debuggers and gives exit code 0.",
    "Commands that go over several lines (commands, define, if, while, python) belong in a gdb script that every \
     host can read: 'source FILE'. A rank whose debugger has ended is told once and left out.",
    "-x FILE and -ex COMMAND, in their order, come before what is typed. A command that is refused ends its file. \
     With -batch the session ends behind them.",
    "Where standard input or output is no terminal, commands are read line by line, each when it can be carried \
     out, and never given to the program; no prompt is printed, what gdb refuses goes to standard error, and the \
     end of the input is quit. On a terminal lines are edited, TAB completes as gdb does, and ~/.mpigdb_history \
     keeps what was typed.",
    "-gdba JOB, with mpigdb also -p JOB, attaches to the ranks of a job that runs, on whatever hosts: JOB is what \
     mpdlistjobs lists (3 or 3@host), or its alias. No program and no options for jobs are named; -r 0,2-4 attaches to \
     these ranks alone, which keep their numbers. When it has said where they are stopped, the prompt appears. quit, and the \
     end of the session for whatever reason, let the job go on; detach lets the addressed ranks go at once; kill kills \
     them, as any signal would, with what comes of it for their job; run is refused. A second ^C offers to let the job go. \
     Whoever may attach to the processes on their hosts may do this. What is attached to is the process that the rank \
     was started as: if that is a script or a tool like valgrind, it is that one; use mpdlistjobs and gdb for its children. \
     Ranks of a job with -on-crash are traced already, and cannot be attached to unless they crashed and are held.",
    "-stacks JOB (with -r, some ranks) attaches for a moment to each rank, and prints the calls of all threads as one \
     tree, each with the ranks that are in it: what leads to main and what goes on inside of libraries is left out, and \
     where a rank has several threads in a call, these are counted. -json prints the whole stacks: a list of calls, with \
     call, ranks, threads and calls. gdb runs without the user's settings. A thread that gdb cannot read is shown as \
     '?? (thread NUMBER: why)', by gdb's number. Ranks of which no stack can be had are told on standard error, those \
     whose debugger says nothing for 30 seconds, too; the exit code is 1 then.",
    "With -on-crash gdb each rank is watched. When a process of it, wherever in its tree, is about to die of SIGSEGV, \
     SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS or SIGTRAP, gdb looks where its threads are before it dies; \
     mpirun prints that at the end of the job, ranks that crashed in one place together. Who handles such a signal is left \
     alone; exit codes, output, input and signals are as without. Until then nothing runs slower but the start, by a \
     process for each rank. -gdb-path names another gdb. It cannot be had together with -d or -pty.",
    "On a terminal (input, output and errors, in the foreground) such a process is held as it \
     was instead, and the debugger opens at the ranks that crashed together (300 ms), as mpigdb -p JOB -r RANKS would, 64 at \
     most. Keys are the debugger's then; what the other ranks print still appears. Ranks that crash meanwhile have a \
     session of their own behind it, and can be attached to from another terminal at once. After quit the processes die \
     of their signals, and the job ends as without, with -on-failure continue if it would. 'signal 0', twice, goes on behind the \
     signal; continue does not. A limit of time, mpdkilljob and SIGTERM end what is held, too. -batch has stacks printed on a terminal \
     as elsewhere. So has a job without a daemon whose run directory cannot be written: a debugger would not find it.",
    "Where hosts restrict ptrace (Yama), ranks let the debuggers of their daemon attach; their children do not.",
];

/// What `mpirun` itself reads, for the man page.
pub(crate) const OWN_VARIABLES: [(&str, &str); 6] = [
    ("MPD_RUNDIR", "the run directory of the daemon, where -rundir does not name it"),
    (
        "MPD_RING, MPD_CON_EXT",
        "the name of the ring, where -ring does not; the first one that is set counts",
    ),
    (
        "SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, JOB_ID, FLUX_JOB_ID, COBALT_JOBID",
        "the batch job, whose id is the name of the ring if nothing else names it",
    ),
    ("XDG_RUNTIME_DIR", "the directory in which the run directory is, if nothing names that"),
    ("MPIEXEC_TIMEOUT", "the limit of time in seconds, where -timeout does not say it"),
    (
        "TMPDIR",
        "where the temporary directory of the job is made on each host; /tmp if it is not set",
    ),
];

/// Other pages.
pub(crate) const SEE_ALSO: &str = "mpd(1), mpdboot(1), mpdlistjobs(1), mpdkilljob(1), mpdsigjob(1), mpdstdin(1), \
    mpdtop(1), mpdtrace(1), mpdhelp(1), pty(1), gdb(1)";

/// What every rank finds in its environment, for the man page.
pub(crate) const VARIABLES: [(&str, &str); 11] = [
    ("PMI_RANK", "the rank"),
    ("PMI_SIZE", "how many ranks the job has"),
    ("MPI_LOCALRANKID", "the rank's number among those on its host, from 0"),
    ("MPI_LOCALNRANKS", "how many ranks of the job are on its host"),
    ("MPD_JOB_ID", "the job, as mpdlistjobs shows it"),
    (
        "MPD_JOB_TMPDIR",
        "a directory on the rank's host, below TMPDIR/mpd-UID, that is removed with the job",
    ),
    (
        "MPD_GROUP_DIR",
        "with -g: a directory in memory (/dev/shm) that the rank's group shares and other users \
         cannot enter, the recommended place for shared memory. It is removed with all that is in it \
         at the end of the job",
    ),
    (
        "MPD_GROUP_KEY",
        "with -g: a random name for one object of the rank's group (/mpd- and 16 digits), for shm_open \
         or sem_open with mode 0600. What is called so, or in /dev/shm begins so, is removed at the end \
         of the job. The name is public as soon as the object exists: further objects belong in \
         MPD_GROUP_DIR",
    ),
    (
        "MPD_GROUP_IPC_KEY",
        "with -g: a random number above 0 that was free when the job began, as a key for shmget, semget \
         and msgget with mode 0600. What has that key is removed at the end of the job",
    ),
    ("MPD_GROUP_RANK", "with -g: the rank's number in its group, from 0"),
    ("MPD_GROUP_SIZE", "with -g: how many ranks its group has"),
];

/// What the files are that mpirun writes, for the man page.
pub(crate) const FILES: [(&str, &str); 6] = [
    (
        "-outfile-pattern FILE, -errfile-pattern FILE",
        "%r is the rank, %h its host, %j the job's id, %a its alias, %% a percent sign. The files are on the host of \
         mpirun, wherever ranks run, and are made before the ranks start; what was in them is lost. Ranks for which the pattern gives \
         one name write to one file, line by line. Of a rank that was spawned %r is its rank and the number of its \
         world, as in its label: out.0,2 with out.%r, beside out.0 of the job itself. Its file is closed when nobody \
         writes to its output any more. If a file cannot be made, the spawn is an error for its spawner. A pattern without %r gives \
         spawned ranks the files of the others.",
    ),
    (
        "-status-file FILE",
        "is written at the end of the job, in lines of NAME=VALUE with spaces between. The first two are 'mpd-status 1' and \
         'job=ID ranks=NUMBER', with the ranks that the job began with; then comes one for each of these, in order: 'rank=0 host=h1 \
         pid=4711 code=0', or instead of code signal=9 (with core=1 if it left a core dump); 'state=not-started' instead of pid and code for \
         one that never ran, 'state=lost' for one that was lost with its host. Behind them comes the same for \
         ranks that were spawned, with their world in front: 'world=2 rank=0 host=h1 pid=4712 code=0'; those of a spawn \
         that failed never ran, or were killed at once. Of these at most 100,000 with code=0 and 100,000 others are listed, \
         and a last line left-out=NUMBER says how many more there were.",
    ),
    (
        "-ecfn FILE",
        "as MPD wrote it, in order of the ranks: 'exit-codes', 'jobid=ID', and 'rank=0 status=0 pid=4711 host=h1' for each rank that the job \
         began with, the status as wait gives it.",
    ),
    (
        "-proctable FILE, -trace-startup FILE",
        "tell of the ranks that the job began with alone, as -print-all-exitcodes does.",
    ),
    (
        "-timeout SECONDS",
        "bounds the wait for the reader of the output, too. 0.5 s after it, or after the end of the ranks if that comes later, \
         output that nobody reads is thrown away; if some is, the job has failed with 124.",
    ),
    (
        "FILE",
        "of -status-file, -ecfn, -trace-startup and -proctable may be a FIFO that a process has open for reading. What it has not read \
         after 2 s is an error, as any other reason why a file cannot be written. The job goes on then; mpirun prints \
         'cannot write FILE: reason' and returns 125 if it would return 0.",
    ),
];

/// Tools around the program, for the man page: what is typed, and what comes of it.
pub(crate) const WRAPPERS: [(&str, &str); 5] = [
    (
        "mpirun -np 4 -subst valgrind --log-file=vg.%r ./cpi",
        "a report of valgrind for each rank; without --log-file all go to standard error",
    ),
    ("mpirun -np 4 -subst strace -f -o out.%r ./cpi", "the system calls of each rank"),
    (
        "mpirun -np 4 -subst perf record -o perf.%r ./cpi",
        "a profile of each rank, as far as the hosts let users record one",
    ),
    ("mpirun -np 4 nice -n 5 ./cpi", "any program that runs another one"),
    (
        "mpirun -np 4 ./wrap.sh ./cpi",
        "a script that ends with exec \"$@\", or with \"$@\" if it has something to do afterwards; PMI_RANK \
         tells it the rank, and its exit code counts",
    ),
];

/// What is to be known of them.
pub(crate) const WRAPPING: &str = "A tool that runs the program stands before it: the ranks run the \
    tool. It has to leave the environment and descriptor 3 to the program, by which that speaks to its \
    manager. Signals reach both, and at the end of the job whatever is left of either is killed. \
    With -subst %r, %h, %j, %s and %% are filled in, in all arguments of the section's program; a percent sign \
    that the program is to see is then written %%.";

/// What debuggers find, for the man page.
pub(crate) const DEBUGGERS: [&str; 4] = [
    "Parallel debuggers and tools (TotalView, DDT, LaunchMON) find the processes of a job in mpirun, by \
     the MPIR Process Acquisition Interface 1.0: start mpirun under the debugger, as in 'totalview mpirun -a \
     -np 4 ./cpi', or attach to a mpirun that runs. MPIR_proctable holds host, executable and process id of \
     each rank, -proctable FILE writes the same as JSON.",
    "Where the debugger has set MPIR_being_debugged before mpirun submits the job, ranks wait in \
     MPI_Init, for the answer to their first PMI request, until the debugger goes on at MPIR_Breakpoint; nothing has to \
     be set in the ranks (MPIR_partial_attach_ok). Programs that do not use PMI are not held. \
     -timeout counts meanwhile.",
    "When the job is ended for a failure, MPIR_debug_state is 2 (aborting) and MPIR_debug_abort_string says why. \
     Processes that ranks spawn are not in the table. Paths are those of this host, or what was typed if \
     the program is not here.",
    "The symbols are in the symbol table of every build, with the types that the interface says, as C lays them out; \
     no debug information describes them.",
];

/// What people start with.
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

/// Fills lines with words.
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
