//! `mpirun` (also `mpiexec`, `mpigdb` and `mpdexec`): starts a job and represents all of its
//! processes to the user.

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use mpd_io::clock::wall;
use mpd_io::terminal::controlling;
use mpd_wire::job::exit;
use mpirun::caller::Caller;
use mpirun::cli::{self, Request, Run as Job};
use mpirun::launch::Submission;
use mpirun::messages::Messages;
use mpirun::reports::Reports;
use mpirun::session::{self, Finished};
use mpirun::{caught, docs, exits, launch, mpir};

mpd_io::program!(console);

fn console() -> ExitCode {
    mpd_io::process::identity::take_name();
    // Reading from a lost terminal is then an error instead of a stop.
    mpd_io::ignore_signal(libc::SIGTTIN);
    let (name, result) = match Caller::snapshot() {
        Ok(caller) => (caller.name.clone(), serve(&caller)),
        Err(e) => ("mpirun".to_owned(), Err(e.into())),
    };
    result.unwrap_or_else(|error| {
        let text = mpd_io::files::logging::one_line(&format!("{error:#}"));
        let _ = writeln!(io::stderr(), "{name}: {text}");
        ExitCode::from(exit::SUITE)
    })
}

fn serve(caller: &Caller) -> Result<ExitCode> {
    match cli::parse(caller) {
        Err(usage) => {
            let _ = writeln!(io::stderr(), "{usage}");
            Ok(ExitCode::from(usage.exit_code()))
        }
        Ok(Request::Help(text) | Request::Version(text)) => {
            print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(Request::DryRun(answer)) => {
            print(&answer.text)?;
            Ok(if answer.is_placed { ExitCode::SUCCESS } else { ExitCode::from(exit::SUITE) })
        }
        Ok(Request::GenerateDocs(directory)) => {
            docs::generate(&directory)
                .with_context(|| format!("cannot write below {}", directory.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(Request::TotalView(arguments)) => {
            let own = std::env::args_os().next().unwrap_or_else(|| "mpirun".into());
            let mut tool = Command::new("totalview");
            let error = tool.arg(own).arg("-a").args(arguments).exec();
            Err(error).context("cannot run totalview")
        }
        Ok(Request::Run(job)) => {
            mpd_io::ring::slots::end_with_owner();
            for remark in &job.remarks {
                let text = mpd_io::files::logging::one_line(remark);
                let _ = writeln!(io::stderr(), "{}: {text}", caller.name);
            }
            run(&caller.name, *job)
        }
    }
}

fn print(text: &str) -> Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has seen enough is no error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn run(name: &str, mut job: Job) -> Result<ExitCode> {
    let began = wall();
    if let Some(wait) = &job.wait {
        return Err(wait.begin(&job.ring_options, job.quiet));
    }
    if job.call.is_some() {
        // Descriptors that the program had open belong to the program. Another process may wait for
        // their end.
        mpd_io::close_inherited().context("cannot close what the program had open")?;
    }
    // A controlling tool attaches to the ranks before they leave MPI_Init.
    job.spec.hold = mpir::is_being_debugged() && !job.spec.adopted;
    if let Some(on_crash) = &mut job.spec.on_crash {
        // Without a terminal no user can debug, and a controlling tool debugs already.
        on_crash.hold &= !job.spec.hold && controlling::is_ours();
    }
    if let Some(file) = &job.report_pid {
        report_pid(file)?;
    }
    let mut signals = caught::catch_signals()?;
    if let Some(target) = job.target.take() {
        let (numbers, endpoint) = target.aim(&job.ring_options, &mut job.spec)?;
        (job.numbers, job.endpoint) = (Some(numbers), Some(endpoint));
    }
    let adopted = job.call.map(|call| call.answer(&mut job.spec)).transpose()?;
    let (passed, pipes) = launch::passed(&job, adopted)?;
    let submitted = match launch::submit(&job, &passed, &mut signals)? {
        Submission::Done(submitted) => submitted,
        Submission::Cut(cut) => return Ok(ExitCode::from(cut.code())),
    };
    let mut finished = session::accompany(name, &job, submitted, passed, pipes, signals)?;
    report(name, &job, &mut finished, began);
    let run = finished.run();
    let code = match job.exits.highest && !run.was_cut_short() {
        true => run.ends().highest(finished.code),
        false => finished.code,
    };
    Ok(ExitCode::from(match code {
        0 if finished.reports.have_failed() => exit::SUITE,
        code => code,
    }))
}

/// Writes the id of this process.
fn report_pid(file: &Path) -> Result<()> {
    let text = format!("{}\n", std::process::id());
    match file.to_str() {
        Some("-") => return print(&text),
        Some("+") => io::stderr().write_all(text.as_bytes()).context("-report-pid")?,
        _ => {
            let mut reports = Reports::default();
            reports.write(file, text);
            reports.finish();
            if let Some(problem) = reports.take_problems().first() {
                bail!("-report-pid: {problem}");
            }
        }
    }
    Ok(())
}

/// Writes the requested reports; `began` is the start time of this process.
fn report(name: &str, job: &Job, finished: &mut Finished, began: u64) {
    let (run, reports) = finished.parts();
    let wanted = &job.exits;
    let ends = run.ends();
    let id = run.job().map(|(id, _)| id.to_string()).unwrap_or_default();
    if let Some(path) = &wanted.status_file {
        reports.write(path, exits::render_status_file(&id, ends));
    }
    if let Some(path) = &wanted.ecfn {
        reports.write(path, exits::render_ecfn(&id, ends.first()));
    }
    if let Some(path) = &job.trace.file {
        let took = wall().saturating_sub(began);
        reports.write(path, run.timeline().render(&id, (began, took)));
    }
    reports.finish();
    let mut messages = Messages::new(name, false);
    reports.take_problems().iter().for_each(|problem| messages.print(problem));
    if wanted.print_all {
        messages.report(&exits::render_all_exitcodes(ends.first()));
    }
    messages.finish();
}
