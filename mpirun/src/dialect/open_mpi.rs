//! Values of options of Open MPI that need more than a pattern: lists of hosts, displays and behaviour of the launcher.

use super::language::Facts;
use super::layout::Layout;
use super::translation::{Translation, is_yes, listed, one_of, words};

/// Hosts that have one slot unless they name a number.
pub(super) fn one_slot(values: &[&str], _: &dyn Facts) -> Translation {
    if values[0].starts_with('^') {
        return Ok(words(&["-exclude", values[0]]));
    }
    let mut hosts = Vec::new();
    let mut depth = 0_usize;
    let mut host = String::new();
    for sign in values[0].chars().chain([',']) {
        match sign {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            // Lists of scripts often end with a comma.
            ',' if depth == 0 => {
                match host.is_empty() {
                    true => {}
                    false if host.contains(':') && !host.ends_with(']') => hosts.push(host),
                    false => hosts.push(host + ":1"),
                }
                host = String::new();
                continue;
            }
            _ => {}
        }
        host.push(sign);
    }
    let place =
        |host: &String| host.strip_prefix("+n")?.strip_suffix(":1").map(|n| format!("n{n}"));
    // All hosts are empty, since a job has them alone.
    if let [only] = &hosts[..]
        && let Some(number) = only.strip_prefix("+e")
    {
        return match number.trim_start_matches(':').parse::<u32>() {
            _ if only == "+e:1" && !values[0].contains(':') => Ok(words(&["-pick", "N"])),
            Ok(number @ 1..) => Ok(words(&["-pick", &format!("n0-{}", number - 1)])),
            _ => Err("it must be +e or +e:NUMBER".to_owned()),
        };
    }
    match hosts.iter().map(place).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()) {
        // Places in the list of hosts.
        Some(places) => Ok(words(&["-pick", &places.join(" ")])),
        None => Ok(words(&["-hosts", &hosts.join(",")])),
    }
}

/// `--host` of Open MPI: the hosts of one program. Hosts without a number are noted.
pub(super) fn host(layout: &mut Layout, values: &[&str], caller: &dyn Facts) -> Translation {
    // A complement of a program's hosts, which holds for all programs.
    if values[0].starts_with('^') {
        return Ok(words(&["-host", values[0]]));
    }
    let mut made = one_slot(values, caller)?;
    if let Some(option) = made.first_mut().filter(|option| *option == "-hosts") {
        *option = "-host".to_owned();
    }
    layout.note_plain(values[0]);
    Ok(made)
}

/// `--display LIST` of Open MPI 5.
pub(super) fn display(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Translation {
    let mut made = Vec::new();
    for word in listed(values[0]) {
        let (key, _) = word.split_once('=').unwrap_or((&word, ""));
        match key {
            "map" | "map-devel" => made.extend(words(&["-print-rank-map"])),
            "bind" | "binding" | "bindings" => made.extend(words(&["-report-bindings"])),
            "allocation" | "allocation-devel" => layout.ignore(key, "-dry-run shows the hosts"),
            "topo" | "cpus" => layout.ignore(key, "use lstopo"),
            "parseable" | "parsable" => layout.ignore(key, "-dry-run -json is for programs"),
            _ => return Err(format!("'{word}' is not available; -dry-run shows hosts and CPUs")),
        }
    }
    Ok(made)
}

/// The words of `--runtime-options` of Open MPI 5. A word may be shortened.
const RUNTIME: [&str; 21] = [
    "abort-nonzero-status",
    "aggregate-help-messages",
    "autorestart",
    "continuous",
    "default-exec-agent",
    "donotlaunch",
    "error-nonzero-status",
    "exec-agent",
    "fwd-environment",
    "get-stack-traces",
    "max-restarts",
    "notifyerrors",
    "output-proctable",
    "recoverable",
    "report-child-jobs-separately",
    "report-state-on-timeout",
    "show-progress",
    "spawn-timeout",
    "stop-in-app",
    "stop-in-init",
    "stop-on-exec",
];

/// `--runtime-options LIST` of Open MPI 5.
pub(super) fn runtime_options(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Translation {
    let mut made = Vec::new();
    for item in values[0].split(',').filter(|item| !item.is_empty()) {
        let (word, value) = item.split_once('=').unwrap_or((item, "1"));
        let word = word.to_ascii_lowercase();
        if word == "timeout" {
            made.extend(time(value)?);
            continue;
        }
        let known = one_of(&RUNTIME, &word, "; see -on-failure and -timeout")?;
        made.extend(runtime_option(layout, known, value)?);
    }
    Ok(made)
}

/// `DAYS:HOURS:MINUTES:SECONDS`, from the right, as `-timeout`.
fn time(text: &str) -> Translation {
    let wrong = || format!("timeout={text}: it must be a time, like 90 or 1:30");
    let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number < 100_000_000);
    let fields: Option<Vec<u64>> = text.rsplit(':').map(number).collect();
    let fields = fields.filter(|fields| fields.len() <= 4).ok_or_else(wrong)?;
    let seconds: u64 =
        fields.iter().zip([1, 60, 3600, 86_400]).map(|(field, unit)| field * unit).sum();
    Ok(words(&["-timeout", &seconds.to_string()]))
}

fn runtime_option(layout: &mut Layout, known: &str, value: &str) -> Translation {
    let is_yes = is_yes(value);
    let lets_run = words(&["-on-failure", "continue"]);
    match known {
        "abort-nonzero-status" | "error-nonzero-status" if !is_yes => return Ok(lets_run),
        "continuous" | "recoverable" | "notifyerrors" if is_yes => return Ok(lets_run),
        "donotlaunch" => return Ok(words(&["-dry-run"])),
        "autorestart" | "max-restarts" if is_yes => {
            layout.ignore(known, "a failed rank is not started again");
        }
        "get-stack-traces" | "report-state-on-timeout" if is_yes => {
            layout.ignore(known, "mpirun -stacks JOB prints the stacks of a running job");
        }
        "spawn-timeout" => layout.ignore(known, "-timeout limits the whole job"),
        "output-proctable" => layout.ignore(known, "-proctable FILE writes the processes"),
        "show-progress" if is_yes => layout.ignore(known, "a terminal shows the progress"),
        "exec-agent" => return Err("write the agent before the program".to_owned()),
        "stop-on-exec" | "stop-in-init" | "stop-in-app" => {
            return Err(format!("'{known}': use -d, or a controlling tool with MPIR"));
        }
        _ => {}
    }
    Ok(Vec::new())
}

/// `--with-ft TYPE` of Open MPI 5.
pub(super) fn fault_tolerance(values: &[&str], _: &dyn Facts) -> Translation {
    match values[0].to_ascii_lowercase().as_str() {
        "no" | "none" | "false" | "0" => Ok(Vec::new()),
        "ulfm" | "mpi" | "yes" | "true" | "1" => {
            let enabled = ["-genv", "OMPI_MCA_mpi_ft_enable", "1", "-on-failure", "continue"];
            Ok(words(&enabled))
        }
        _ => Err("it must be ulfm, mpi or no".to_owned()),
    }
}

/// The directories of an installation before those of the caller.
pub(super) fn prefix(values: &[&str], caller: &dyn Facts) -> Translation {
    let joined = |name: &str, below: &str| {
        let old = caller.variable(name.as_bytes()).filter(|old| !old.is_empty());
        let old = old.map(|old| format!(":{}", String::from_utf8_lossy(old))).unwrap_or_default();
        format!("{}/{below}{old}", values[0].trim_end_matches('/'))
    };
    let (path, libraries) = (joined("PATH", "bin"), joined("LD_LIBRARY_PATH", "lib"));
    Ok(words(&["-genv", "PATH", &path, "-genv", "LD_LIBRARY_PATH", &libraries]))
}
