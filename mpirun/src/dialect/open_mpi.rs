//! Values of options of Open MPI that need more than a pattern: parameters, lists of hosts, and displays.

use super::language::Facts;
use super::layout::Layout;
use super::made::{Made, words};

/// Hosts that have one slot unless they name a number.
pub(super) fn one_slot(values: &[&str], _: &dyn Facts) -> Made {
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
pub(super) fn host(layout: &mut Layout, values: &[&str], caller: &dyn Facts) -> Made {
    let mut made = one_slot(values, caller)?;
    if let Some(option) = made.first_mut().filter(|option| *option == "-hosts") {
        *option = "-host".to_owned();
    }
    layout.note_plain(values[0]);
    Ok(made)
}

/// `--mca KEY VALUE`: a variable of the ranks, and an option if the key has the effect of one.
pub(super) fn mca(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Made {
    parameter("OMPI_MCA_", layout, values)
}

/// `--prtemca KEY VALUE`.
pub(super) fn prte_mca(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Made {
    parameter("PRTE_MCA_", layout, values)
}

fn parameter(family: &str, layout: &mut Layout, values: &[&str]) -> Made {
    let [key, value] = values else { return Err("it needs a key and a value".to_owned()) };
    let mut made = effect(layout, key, value)?.unwrap_or_default();
    made.extend(words(&["-genv", &format!("{family}{key}"), value]));
    Ok(made)
}

/// The keys of parameters that have the effect of an option.
pub(crate) const KEYS: [&str; 16] = [
    "rmaps_base_mapping_policy",
    "rmaps_default_mapping_policy",
    "rmaps_base_ranking_policy",
    "rmaps_default_ranking_policy",
    "hwloc_base_binding_policy",
    "hwloc_default_binding_policy",
    "hwloc_base_cpu_set",
    "hwloc_base_cpu_list",
    "hwloc_default_cpu_list",
    "hwloc_base_use_hwthreads_as_cpus",
    "hwloc_base_report_bindings",
    "orte_report_bindings",
    "rmaps_base_no_oversubscribe",
    "rmaps_rank_file_path",
    "orte_rankfile",
    "rmaps_rank_file_physical",
];

/// Our options for a parameter; `None` if it has no effect on the launcher.
pub(crate) fn effect(
    layout: &mut Layout,
    key: &str,
    value: &str,
) -> Result<Option<Vec<String>>, String> {
    let is_yes = !["0", "no", "off", "false"].contains(&value.to_ascii_lowercase().as_str());
    Ok(Some(match key {
        "rmaps_base_mapping_policy" | "rmaps_default_mapping_policy" => layout.map_by(value)?,
        "rmaps_base_ranking_policy" | "rmaps_default_ranking_policy" => layout.rank_by(value)?,
        "hwloc_base_binding_policy" | "hwloc_default_binding_policy" => layout.bind_to(value)?,
        "hwloc_base_cpu_set" | "hwloc_base_cpu_list" | "hwloc_default_cpu_list" => {
            layout.cpu_list(value)?
        }
        "hwloc_base_use_hwthreads_as_cpus" if is_yes => layout.threads()?,
        "hwloc_base_report_bindings" | "orte_report_bindings" if is_yes => {
            words(&["-report-bindings"])
        }
        "rmaps_base_no_oversubscribe" if is_yes => words(&["-nooversubscribe"]),
        "rmaps_rank_file_path" | "orte_rankfile" => words(&["-rankfile", value]),
        "rmaps_rank_file_physical" if is_yes => {
            return Err("write slot=pN in the rank file".to_owned());
        }
        _ => return Ok(None),
    }))
}

pub(super) fn display(values: &[&str], _: &dyn Facts) -> Made {
    let mut made = Vec::new();
    for word in values[0].to_ascii_lowercase().split([',', ':']) {
        match word {
            "map" | "map-devel" => made.extend(words(&["-print-rank-map"])),
            "bind" | "binding" | "bindings" => made.extend(words(&["-report-bindings"])),
            _ => return Err(format!("'{word}' is not available; -dry-run shows hosts and CPUs")),
        }
    }
    Ok(made)
}

/// `--runtime-options LIST` of Open MPI 5.
pub(super) fn runtime_options(values: &[&str], _: &dyn Facts) -> Made {
    let mut made = Vec::new();
    for word in values[0].to_ascii_lowercase().split(',').filter(|word| !word.is_empty()) {
        match word {
            "continuous" => made.extend(words(&["-on-failure", "continue"])),
            "donotlaunch" => made.extend(words(&["-dry-run"])),
            _ => return Err(format!("'{word}' is not available; see -on-failure and -timeout")),
        }
    }
    Ok(made)
}

/// The directories of an installation before those of the caller.
pub(super) fn prefix(values: &[&str], caller: &dyn Facts) -> Made {
    let joined = |name: &str, below: &str| {
        let old = caller.variable(name.as_bytes()).filter(|old| !old.is_empty());
        let old = old.map(|old| format!(":{}", String::from_utf8_lossy(old))).unwrap_or_default();
        format!("{}/{below}{old}", values[0].trim_end_matches('/'))
    };
    let (path, libraries) = (joined("PATH", "bin"), joined("LD_LIBRARY_PATH", "lib"));
    Ok(words(&["-genv", "PATH", &path, "-genv", "LD_LIBRARY_PATH", &libraries]))
}
