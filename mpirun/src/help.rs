//! The texts of `-help`, `-help-all` and `-version`, made from the table of options.

use std::fmt::Write as _;

use crate::options::{Heading, OPTIONS, Opt};

/// Width of the texts: a terminal's default.
const WIDTH: usize = 80;

/// Where descriptions begin.
const COLUMN: usize = 30;

/// The most used options; fits a screen.
pub fn short(name: &str) -> String {
    let mut text = usage(name);
    sections(&mut text, |o| o.basic);
    text.push_str("\nExamples:\n");
    for example in EXAMPLES {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "  {}", example.replacen("mpirun", name, 1));
    }
    text
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
pub(crate) const EVERYWHERE_MEANS: [&str; 7] =
    ["-hosts", "all", "-ppn", "1", "-m", "-on-failure", "highest"];

/// The version.
pub fn version(name: &str) -> String {
    format!("{name} (MPD) {}\n", env!("CARGO_PKG_VERSION"))
}

/// What the table cannot say.
pub(crate) const NOTES: [&str; 8] = [
    "Options end at the program; what follows it are the program's arguments, up to a ':' that is \
     a word of its own. Options for one program stand in its section, before it; options for the \
     job can stand in any section, or in a first one without a program. Each option can be \
     written with one dash or two, and -option VALUE also as -option=VALUE. A '--' ends the \
     options.",
    "Exit code: 0 if all ranks exited with 0; else that of the first rank that failed, or 128 + \
     the signal that killed it; 124 after -timeout; 125 if mpirun itself fails; 126 and 127 if a \
     program cannot be executed or found. With -on-failure continue \
     the other ranks run on after a failure; with highest they do, too, and the exit code is the \
     highest of all ranks', also of spawned ones.",
    "A host takes one process for each of its CPUs, or as many as -ppn or its list says, then the \
     next host does; when all are full the first begins again. Names may be short, and localhost \
     is this host.",
    "If no daemon is running here, the job has this host alone, or, if other hosts are named, daemons \
     there that are started for it by ssh (-launcher) and end with it. A batch system (Slurm, PBS, LSF, \
     Grid Engine) gives hosts, slots and the number of processes to whoever names no hosts.",
    "Every rank gets the caller's environment, directory, umask and limits unless told otherwise, \
     less the variables of a launcher that mpirun itself was started under.",
    "Started as mpdexec it runs a command once on every host of the ring and prints equal lines \
     once: 'mpdexec uptime' is 'mpirun -hosts all -ppn 1 -m -on-failure highest uptime'.",
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
    "On a terminal (input, output and errors, in the foreground, with a daemon on this host) such a process is held as it \
     was instead, and the debugger opens at the ranks that crashed together (300 ms), as mpigdb -p JOB -r RANKS would, 64 at \
     most. Keys are the debugger's then; what the other ranks print still appears. Ranks that crash meanwhile have a \
     session of their own behind it, and can be attached to from another terminal at once. After quit the processes die \
     of their signals, and the job ends as without, with -on-failure continue if it would. 'signal 0', twice, goes on behind the \
     signal; continue does not. A limit of time, mpdkilljob and SIGTERM end what is held, too. -batch has stacks printed on a terminal \
     as elsewhere.",
    "Where hosts restrict ptrace (Yama), ranks let the debuggers of their daemon attach; their children do not.",
];

/// What every rank finds in its environment, for the man page.
pub(crate) const VARIABLES: [(&str, &str); 9] = [
    ("PMI_RANK", "the rank"),
    ("PMI_SIZE", "how many ranks the job has"),
    ("MPI_LOCALRANKID", "the rank's number among those on its host, from 0"),
    ("MPI_LOCALNRANKS", "how many ranks of the job are on its host"),
    ("MPD_JOB_ID", "the job, as mpdlistjobs shows it"),
    ("MPD_JOB_TMPDIR", "a directory on the rank's host that is removed with the job"),
    (
        "MPD_GROUP_KEY",
        "with -g: what the rank's group and nobody else calls its shared memory. As it is \
         (/mpd-0001e240) a name for shm_open and sem_open, its eight hexadecimal digits as a \
         number a key for shmget, semget and msgget. Whatever is called so, or in /dev/shm \
         begins so, is removed at the end of the job",
    ),
    ("MPD_GROUP_RANK", "with -g: the rank's number in its group, from 0"),
    ("MPD_GROUP_SIZE", "with -g: how many ranks its group has"),
];

/// What the files are that mpirun writes, for the man page.
pub(crate) const FILES: [(&str, &str); 4] = [
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
