//! The table of the options of the original MPD (generation C, version 1.0.1), and of its programs without options here.

use super::Answer::{Accepted, Computed, Refused, Same, Silent, Words};
use super::Takes::{Itself, Nothing, Optional, Value};
use super::When::{Alone, Always, Beside};
use super::{Answer, Row, Takes, When};

const fn row(
    program: &'static str,
    names: &'static [&'static str],
    takes: Takes,
    when: When,
    answer: Answer,
    examples: &'static [&'static str],
) -> Row {
    Row { program, names, takes, when, answer, examples }
}

const SECOND: &str = "a second daemon on a host needs a name and a directory of its own: mpd --name NAME --rundir DIR, \
                      or mpdboot -1";
const CONSOLES: &str = "every daemon has a socket for consoles, which only its user can open; a second daemon on a host has its own";

/// `HOST_PORT`; the host may contain `_`.
fn entry(value: &str) -> Result<Vec<String>, String> {
    let parts = value.rsplit_once('_').filter(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|number| number > 0)
    });
    let (host, port) = parts.ok_or("HOST_PORT is wanted")?;
    Ok(vec!["--join".to_owned(), format!("{host}:{port}")])
}

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    row("mpd", &["-h"], Nothing, Alone, Words(&["--help"]), &["-h"]),
    row("mpd", &["-h", "--host"], Value("HOST"), Always, Same, &["-h a -p 7", "--host=a -p 7"]),
    row("mpd", &["-p"], Value("PORT"), Always, Same, &["-h a -p 7"]),
    row("mpd", &["--port"], Value("PORT"), Beside(&["-h", "--host"]), Words(&["-p", "{0}"]), &["--host=a --port=7", "-h a --port 7"]),
    row("mpd", &["-hp"], Value("HOST_PORT"), Always, Computed(entry, "`--join HOST:PORT`"), &["-hp a_7 -d"]),
    row("mpd", &["-n", "--noconsole"], Nothing, Always, Refused(SECOND), &["-n", "-d --noconsole"]),
    row("mpd", &["-e", "--echo"], Nothing, Always, Same, &["-e", "--echo -d"]),
    row("mpd", &["-d", "--daemon"], Nothing, Always, Same, &["-d", "--daemon"]),
    row("mpd", &["-t", "--trace"], Nothing, Always, Words(&["-vv"]), &["-t", "--trace"]),
    row("mpd", &["--debug"], Nothing, Always, Words(&["-v"]), &["--debug"]),
    row("mpd", &["-b", "--bulletproof"], Nothing, Always, Accepted("mpdboot --keep lets the daemons start dead daemons again"), &["-b", "--bulletproof"]),
    row("mpd", &["--ncpus"], Value("N"), Always, Same, &["--ncpus=4"]),
    row("mpd", &["--ifhn"], Value("NAME"), Always, Same, &["--ifhn=localhost"]),
    row("mpd", &["-l", "--listenport"], Value("PORT"), Always, Words(&["--port", "{0}"]), &["-l 5000", "--listenport=5000"]),
    row("mpd", &["--conlistenport"], Value("PORT"), Always, Refused("consoles reach the daemon by its socket in the run directory only"), &["--conlistenport=5000"]),
    row("mpd", &["--pid"], Optional("FILE", "/var/run/mpd.pid"), Always, Words(&["--pid-file", "{0}"]), &["--pid", "--pid=f"]),
    row("mpd", &["--tmpdir"], Optional("DIR", "/tmp"), Always, Refused("--rundir DIR is the directory of the socket and the log; consoles find it by --rundir or MPD_RUNDIR"), &["--tmpdir=/tmp", "--tmpdir"]),
    row("mpd", &["-zc"], Value("N"), Always, Refused("daemons do not search the network: enter a ring with --join HOST:PORT, or start it with mpdboot -f FILE"), &["-zc 1"]),

    row("mpdboot", &["-n", "--totalnum"], Value("N"), Always, Same, &["-n 4", "--totalnum=4"]),
    row("mpdboot", &["-f", "--file"], Value("FILE"), Always, Same, &["-f h", "--file=h"]),
    row("mpdboot", &["-r", "--rsh"], Value("CMD"), Always, Same, &["-r rsh", "--rsh=rsh"]),
    row("mpdboot", &["-u", "--user"], Value("USER"), Always, Same, &["-u al", "--user=al"]),
    row("mpdboot", &["-m", "--mpd"], Value("CMD"), Always, Same, &["-m /opt/mpd", "--mpd=/opt/mpd"]),
    row("mpdboot", &["-s", "--shell"], Nothing, Always, Silent("it had no effect in the original either"), &["-s", "--shell -n 2"]),
    row("mpdboot", &["-v", "--verbose"], Nothing, Always, Same, &["-v", "--verbose"]),
    row("mpdboot", &["-d", "--debug"], Nothing, Always, Words(&["-v"]), &["-d", "--debug -f h", "-d -v"]),
    row("mpdboot", &["-1"], Nothing, Always, Same, &["-1 -n 2"]),
    row("mpdboot", &["--ncpus"], Value("N"), Always, Same, &["--ncpus=2"]),
    row("mpdboot", &["--ifhn"], Value("NAME"), Always, Same, &["--ifhn=ib0"]),
    row("mpdboot", &["--loccons", "--remcons"], Nothing, Always, Accepted(CONSOLES), &["--loccons --remcons -n 2"]),
    row("mpdboot", &["-c", "--chkup"], Nothing, Always, Same, &["-c", "--chkup"]),
    row("mpdboot", &["--chkuponly"], Nothing, Always, Same, &["--chkuponly"]),
    row("mpdboot", &["--maxbranch"], Value("N"), Always, Accepted("a daemon gets the whole list of members at its start; --window sets how many hosts one host starts"), &["--maxbranch=4 -n 2", "--maxbranch 4"]),

    row("mpdtrace", &["-l"], Nothing, Always, Same, &["-l"]),
    row("mpdringtest", &["N"], Itself, Always, Same, &["1000"]),
    row("mpdexit", &["MPDID", "localmpd"], Itself, Always, Same, &["h_5000", "localmpd"]),
    row("mpdlistjobs", &["-u", "--user"], Value("USER"), Always, Same, &["-u al", "--user=al"]),
    row("mpdlistjobs", &["-a", "--alias"], Value("ALIAS"), Always, Same, &["-a x", "--alias=x"]),
    row("mpdlistjobs", &["-j", "--jobid"], Value("JOB"), Always, Same, &["-j 1", "--jobid=1@h"]),
    row("mpdlistjobs", &["--sss"], Nothing, Always, Same, &["--sss"]),
    row("mpdkilljob", &["JOBNUM", "JOBNUM@MPDID", "JOBNUM MPDID"], Itself, Always, Same, &["1", "1@h", "1 h_5000", "1 h"]),
    row("mpdkilljob", &["-a"], Value("ALIAS"), Always, Same, &["-a x"]),
    row("mpdsigjob", &["SIGNAL", "-SIGNAL"], Itself, Always, Same, &["INT -j 1", "SIGINT -j 1", "2 -j 1"]),
    row("mpdsigjob", &["-j"], Value("JOBID"), Always, Same, &["INT -j 1@h"]),
    row("mpdsigjob", &["-a"], Value("ALIAS"), Always, Same, &["INT -a x"]),
    row("mpdsigjob", &["-s"], Nothing, Always, Same, &["INT -j 1 -s"]),
    row("mpdsigjob", &["-g"], Nothing, Always, Same, &["INT -j 1 -g"]),

    row("mpdcleanup", &["-v", "--verbose"], Nothing, Always, Same, &["-v", "--verbose"]),
    row("mpdcleanup", &["-f", "--file"], Value("FILE"), Always, Same, &["-f h", "--file=h"]),
    row("mpdcleanup", &["-r", "--rsh"], Value("RSH"), Always, Same, &["-f h -r rsh", "-f h --rsh=rsh"]),
    row("mpdcleanup", &["-u", "--user"], Value("USER"), Always, Same, &["-f h -u al", "-f h --user=al"]),
    row("mpdcleanup", &["-n"], Value("NUM"), Always, Same, &["-f h -n 3"]),
    row("mpdcleanup", &["-c", "--clean"], Value("CMD"), Always, Refused("mpdcleanup removes the files itself, and only if no daemon uses them"), &["-c rm", "--clean=rm -f h"]),
    row("mpdcleanup", &["-k", "--kill"], Value("CMD"), Always, Refused("jobs end with mpdkilljob, and mpdexec COMMAND runs a command on all hosts of a ring; without a ring use ssh"), &["-k x", "-f h --kill=x"]),

    row("mpdcheck", &["-v"], Nothing, Always, Same, &["-v"]),
    row("mpdcheck", &["-l"], Nothing, Always, Same, &["-l"]),
    row("mpdcheck", &["-pc"], Nothing, Always, Words(&["--pc"]), &["-pc"]),
    row("mpdcheck", &["-f"], Value("FILE"), Always, Same, &["-f h"]),
    row("mpdcheck", &["-ssh"], Nothing, Always, Words(&["--ssh"]), &["-f h -ssh"]),
    row("mpdcheck", &["-s"], Nothing, Always, Same, &["-s"]),
    row("mpdcheck", &["-c"], Value("HOST PORT"), Always, Same, &["-c h 5000"]),
];

/// Programs of the original, also of its first generation, that take no option or have another name here.
pub(super) const PROGRAMS: [(&str, &str); 21] = [
    ("mpdallexit", "the same; it has no options"),
    ("mpdhelp", "the same; it has no options"),
    ("mpdrun, mpiexec, mpirun", "`mpirun`; their options are in the tables above"),
    ("mpigdb PROGRAM", "`mpigdb -np N PROGRAM`; it takes the options of `mpirun`"),
    ("mpigdb -a JOBID", "`mpigdb -p JOB`"),
    ("mpiexec -gdb, mpiexec -gdba JOBID", "`mpirun -gdb`, `mpirun -gdba JOB`"),
    ("mpdman", "the manager of a job; `mpd` starts it, and it has no command line"),
    ("mpdgdbdrv", "part of `mpd`; `mpigdb` uses it"),
    ("mpdroot", "not needed: the daemon learns the user of a console from the kernel"),
    ("mpdchkpyver, mpdwrapcli, mtv", "not needed"),
    ("mpdringsize", "`mpdtrace | wc -l`"),
    ("mpdshutdown ID", "`mpdexit MEMBER`"),
    ("mpdbomb ID", "`kill -9` the daemon"),
    ("mpdclean", "`mpdkilljob JOB` for each job of `mpdlistjobs`"),
    ("mpddump", "`mpdstate`"),
    ("mpdmandump JOB RANK", "`mpdstate JOB` on the host of the rank"),
    ("mpdmpexec", "`mpirun`"),
    ("mpichboot, startdaemons, startmpds", "`mpdboot -f FILE`"),
    ("newboot", "`mpdboot -f FILE`"),
    (
        "cleanipcs",
        "not needed: a job removes its shared memory; `mpdcleanup` removes files of dead daemons",
    ),
    ("pty", "the same"),
];
