//! Values of options of Slurm's `srun` that are about neither hosts, CPUs nor files of output.

use super::language::Facts;
use super::translation::{Translation, words};
use crate::usage::Usage;

/// A request to the batch system. In a job, Slurm ignores it too. Where there is no Slurm, one line says that it has no effect.
///
/// # Errors
/// Slurm is here, and its job has not begun.
pub(super) fn request(shown: &str, caller: &dyn Facts) -> Result<Option<String>, Usage> {
    if caller.variable(b"SLURM_JOB_ID").is_some_and(|id| !id.is_empty()) {
        return Ok(None);
    }
    match caller.has_program("salloc") {
        true => Err(Usage::new(format!(
            "{shown}: this is a request to the batch system: put it into sbatch or salloc, and mpirun into their job"
        ))),
        false => Ok(Some(format!("{shown} has no effect: there is no Slurm here"))),
    }
}

/// `--time`: minutes, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`.
pub(super) fn time(values: &[&str], _: &dyn Facts) -> Translation {
    let text = values[0];
    let wrong = || "it must be a time, like 30 (minutes), 1:30:00 or 2-12".to_owned();
    let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number < 1_000_000);
    let numbers = |text: &str| text.split(':').map(number).collect::<Option<Vec<u64>>>();
    if ["infinite", "unlimited"].contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(words(&["-timeout", "0"]));
    }
    let seconds = match text.split_once('-') {
        Some((days, rest)) => {
            let days = number(days).ok_or_else(wrong)?;
            let rest = numbers(rest).filter(|fields| fields.len() <= 3).ok_or_else(wrong)?;
            let units = [3600, 60, 1];
            days * 86_400 + rest.iter().zip(units).map(|(field, unit)| field * unit).sum::<u64>()
        }
        None => match numbers(text).ok_or_else(wrong)?[..] {
            [minutes] => minutes * 60,
            [minutes, seconds] => minutes * 60 + seconds,
            [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
            _ => return Err(wrong()),
        },
    };
    Ok(words(&["-timeout", &seconds.to_string()]))
}

/// `--export=ALL,NAME=VALUE`, `NONE`, or a list. Variables of Slurm are always passed.
pub(super) fn export(values: &[&str], caller: &dyn Facts) -> Translation {
    let items: Vec<&str> = values[0].split(',').filter(|item| !item.is_empty()).collect();
    let is_word = |word: &str| items.iter().any(|item| item.eq_ignore_ascii_case(word));
    let slurm = || caller.variables(b"SLURM").join(",");
    let mut made = Vec::new();
    if is_word("NONE") || is_word("NIL") {
        if items.len() > 1 {
            return Err("NONE and other variables contradict each other".to_owned());
        }
        return Ok(match slurm() {
            names if names.is_empty() => words(&["-genvnone"]),
            names => words(&["-genvlist", &names]),
        });
    }
    let names =
        items.iter().filter(|item| !item.contains('=') && !item.eq_ignore_ascii_case("ALL"));
    let names: Vec<&str> = names.copied().collect();
    if !is_word("ALL") {
        let all = [slurm(), names.join(",")].join(",");
        let all = all.trim_matches(',');
        made.extend(if all.is_empty() {
            words(&["-genvnone"])
        } else {
            words(&["-genvlist", all])
        });
    }
    for item in items.iter() {
        let Some((name, _)) = item.split_once('=') else { continue };
        // With ALL, the caller's variable comes first, as there.
        if !is_word("ALL") || caller.variable(name.as_bytes()).is_none() {
            made.extend(words(&["-genv", item]));
        }
    }
    Ok(made)
}

/// `--kill-on-bad-exit[=0|1]`.
pub(super) fn kill_on_bad_exit(values: &[&str], _: &dyn Facts) -> Translation {
    match values.first() {
        None | Some(&"1") => Ok(Vec::new()),
        Some(&"0") => Ok(words(&["-on-failure", "continue"])),
        Some(_) => Err("it must be 0 or 1".to_owned()),
    }
}

/// `--no-kill[=off]`.
pub(super) fn no_kill(values: &[&str], _: &dyn Facts) -> Translation {
    match values.first() {
        None => Ok(words(&["-on-failure", "continue"])),
        Some(&"off") => Ok(Vec::new()),
        Some(_) => Err("it must be off".to_owned()),
    }
}

/// `--wait=SECONDS` after the end of the first task.
pub(super) fn wait(values: &[&str], _: &dyn Facts) -> Translation {
    match values[0].parse::<u64>() {
        Ok(0) => Ok(Vec::new()),
        Ok(_) => {
            Err("the job ends with its last rank; -timeout limits its time, and see -on-failure"
                .to_owned())
        }
        Err(_) => Err("it must be a number".to_owned()),
    }
}

/// `--open-mode`.
pub(super) fn open_mode(values: &[&str], _: &dyn Facts) -> Translation {
    match values[0] {
        "truncate" | "t" => Ok(Vec::new()),
        "append" | "a" => Err("old content of files is removed; name other files".to_owned()),
        _ => Err("it must be truncate or append".to_owned()),
    }
}

/// `--input=MODE`.
pub(super) fn input(values: &[&str], _: &dyn Facts) -> Translation {
    match values[0] {
        mode if mode == "all" || mode == "none" || mode.parse::<u32>().is_ok() => {
            Ok(words(&["-s", mode]))
        }
        file => Err(format!("a file is not read; write < {file}")),
    }
}

/// `--bcast[=DEST]`.
pub(super) fn bcast(values: &[&str], _: &dyn Facts) -> Translation {
    match values.first() {
        None => Ok(words(&["-preload"])),
        Some(_) => Err("the place is chosen; write --bcast alone".to_owned()),
    }
}

/// A number, which may follow the type of the GPU.
fn typed(text: &str) -> Option<u32> {
    text.rsplit(':').next()?.parse().ok().filter(|&number| number > 0)
}

/// `--gpus-per-task=[TYPE:]N`.
pub(super) fn gpus_per_task(values: &[&str], _: &dyn Facts) -> Translation {
    let number = typed(values[0]).ok_or_else(|| "it must be a number of GPUs".to_owned())?;
    Ok(words(&["-gpus-per-proc", &number.to_string()]))
}

/// `--gpu-bind=[verbose,]METHOD`.
pub(super) fn gpu_bind(values: &[&str], _: &dyn Facts) -> Translation {
    let text = values[0].trim_start_matches("verbose,").trim_start_matches("v,");
    let in_order = |list: &str| {
        let numbers = list.split(',').map(|word| word.parse::<u32>().ok());
        numbers.enumerate().all(|(at, number)| number == u32::try_from(at).ok())
    };
    match text.split_once(':').unwrap_or((text, "")) {
        ("none", "") => Ok(Vec::new()),
        ("per_task", number) if typed(number).is_some() => Ok(words(&["-gpus-per-proc", number])),
        ("single", "1") => Ok(words(&["-gpus-per-proc", "1"])),
        ("map_gpu", list) if in_order(list) => Ok(words(&["-gpus-per-proc", "1"])),
        _ => Err("GPUs are given in turn (-gpus-per-proc); others need a wrapper".to_owned()),
    }
}

/// `--mem-bind=[quiet,|verbose,]METHOD`.
pub(super) fn mem_bind(values: &[&str], _: &dyn Facts) -> Translation {
    let mut fields = values[0].split(',');
    match fields.rfind(|word| !["quiet", "q", "verbose", "v", "nosort", "sort"].contains(word)) {
        None | Some("none" | "no" | "local") => Ok(Vec::new()),
        Some(_) => Err("memory is not bound; use numactl before the program".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use mpd_placement::cpu::Cpu;

    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Facts for Nobody {
        fn variable(&self, _: &[u8]) -> Option<&[u8]> {
            None
        }

        fn variables(&self, _: &[u8]) -> Vec<String> {
            vec!["SLURM_JOB_ID".to_owned()]
        }

        fn cpus(&self) -> Vec<Cpu> {
            Vec::new()
        }

        fn has_program(&self, name: &str) -> bool {
            name == "salloc"
        }

        fn has_library(&self, _: &str) -> bool {
            false
        }
    }

    fn joined(made: Translation) -> String {
        made.map_or_else(|error| format!("error: {error}"), |words| words.join(" "))
    }

    #[test]
    fn a_time_has_the_forms_of_slurm() {
        for (text, seconds) in [
            ("30", "1800"),
            ("1:30", "90"),
            ("1:00:05", "3605"),
            ("2-1", "176400"),
            ("0-1:30", "5400"),
            ("0-0:0:7", "7"),
            ("UNLIMITED", "0"),
            ("0", "0"),
        ] {
            assert_eq!(joined(time(&[text], &Nobody)), format!("-timeout {seconds}"), "{text}");
        }
        for text in ["", "x", "1:2:3:4", "1-1:1:1:1", "-5", "9999999"] {
            assert!(
                joined(time(&[text], &Nobody)).starts_with("error: it must be a time"),
                "{text}"
            );
        }
    }

    #[test]
    fn exported_variables_are_all_some_or_none() {
        for (text, made) in [
            ("ALL", ""),
            ("ALL,A=1,B", "-genv A=1"),
            ("NONE", "-genvlist SLURM_JOB_ID"),
            ("A,B=2", "-genvlist SLURM_JOB_ID,A -genv B=2"),
            ("NONE,A", "error: NONE and other variables contradict each other"),
        ] {
            assert_eq!(joined(export(&[text], &Nobody)), made, "{text}");
        }
    }

    #[test]
    fn a_request_needs_a_job_where_slurm_is() {
        let error = request("-p debug", &Nobody).unwrap_err().to_string();
        assert!(error.contains("-p debug: this is a request to the batch system"), "{error}");
    }

    #[test]
    fn memory_and_gpus_are_bound_only_where_the_meaning_is_the_same() {
        assert_eq!(joined(gpu_bind(&["map_gpu:0,1,2"], &Nobody)), "-gpus-per-proc 1");
        assert_eq!(joined(gpu_bind(&["verbose,per_task:2"], &Nobody)), "-gpus-per-proc 2");
        assert!(joined(gpu_bind(&["map_gpu:1,0"], &Nobody)).starts_with("error"));
        assert!(joined(gpu_bind(&["closest"], &Nobody)).starts_with("error"));
        assert_eq!(joined(mem_bind(&["verbose,local"], &Nobody)), "");
        assert!(joined(mem_bind(&["map_mem:0"], &Nobody)).starts_with("error"));
        assert_eq!(joined(gpus_per_task(&["a100:2"], &Nobody)), "-gpus-per-proc 2");
    }
}
