//! A farm of requests: ten slots are requested one by one, each process is started when its slot is granted, and requests
//! that are not needed are cancelled.
//!
//!     cargo run -p mpd-requests --example request_farm -- 25 /bin/hostname

#![expect(clippy::print_stdout, reason = "the output is for people")]

use std::collections::BTreeMap;
use std::error::Error;

use mpd_requests::{RequestId, Session, State, Wanted};

/// Requests that are outstanding at a time.
const OUTSTANDING: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let tasks: usize =
        words.next().ok_or("usage: request_farm TASKS PROGRAM [ARGUMENT...]")?.parse()?;
    let program = words.next().ok_or("usage: request_farm TASKS PROGRAM [ARGUMENT...]")?;
    let arguments: Vec<String> = words.collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();

    let session = Session::new()?;
    let mut requests: Vec<RequestId> = Vec::new();
    let (mut started, mut codes) = (0, BTreeMap::new());
    for _ in 0..OUTSTANDING {
        requests.extend(session.allocate(&Wanted { count: 1, ..Wanted::default() })?);
    }
    while !requests.is_empty() {
        for (index, status) in session.wait_some(&requests)? {
            match status.state {
                State::Granted if started < tasks => {
                    started += 1;
                    session.set_exec(requests[index], program.as_bytes())?;
                    session.set_args(requests[index], &arguments)?;
                    session.start(requests[index])?;
                }
                // No task is left for this slot.
                State::Granted => session.cancel(requests[index])?,
                state => {
                    if let Some(code) = state.code() {
                        *codes.entry(code).or_insert(0) += 1;
                    }
                }
            }
        }
        requests.retain(|request| session.is_known(*request));
        while requests.len() < OUTSTANDING && started < tasks {
            requests.extend(session.allocate(&Wanted { count: 1, ..Wanted::default() })?);
        }
    }
    for (code, count) in codes {
        println!("exit code {code}: {count}");
    }
    Ok(())
}
