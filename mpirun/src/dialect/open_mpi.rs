//! Values of foreign options that need more than a pattern: policies of mapping and binding, and lists.

use std::collections::BTreeSet;

use super::cpus;
use super::language::Facts;
use super::made::{Made, words};

/// Our name for a part of a host.
fn part(name: &str) -> Option<&'static str> {
    Some(match name {
        "hwthread" | "hwt" | "thread" => "hwthread",
        "core" | "cpu" => "core",
        "l3cache" | "l3" => "l3cache",
        "numa" => "numa",
        "socket" | "package" => "socket",
        _ => return None,
    })
}

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
    match hosts.iter().map(place).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()) {
        // Places in the list of hosts.
        Some(places) => Ok(words(&["-pick", &places.join(" ")])),
        None => Ok(words(&["-hosts", &hosts.join(",")])),
    }
}

/// `--map-by POLICY[:MODIFIERS]`, also with `ppr:N:PART`.
pub(super) fn map_by(values: &[&str], caller: &dyn Facts) -> Made {
    let value = values[0].to_ascii_lowercase();
    if value.starts_with("rankfile") {
        return rank_file(values[0]);
    }
    let mut fields = value.split(':');
    let policy = fields.next().unwrap_or_default();
    let list = policy.strip_prefix("pe-list=");
    let mut made = match policy {
        _ if list.is_some() => cpus::cores(&[list.unwrap_or_default()], caller)?,
        "ppr" => {
            let (number, part) =
                (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            per_part(number, part, caller)?
        }
        "slot" | "" => Vec::new(),
        "node" => words(&["-rr"]),
        _ => match part(policy) {
            Some(part) => words(&["-map-by", part]),
            None => return Err(format!("the policy '{policy}' is not available")),
        },
    };
    for modifier in fields.flat_map(|field| field.split(',')) {
        match modifier.split_once('=').unwrap_or((modifier, "")) {
            ("pe", number) if is_number(number) => {
                made.extend(words(&["-bind-to", &format!("core:{number}")]));
            }
            ("oversubscribe" | "inherit" | "noinherit" | "", "") => {}
            ("ordered", "") if list.is_some() => made.extend(words(&["-bind-to", "core"])),
            ("nooversubscribe", "") => made.extend(words(&["-nooversubscribe"])),
            ("nolocal", "") => made.extend(words(&["-nolocal"])),
            ("hwtcpus" | "corecpus", "") => {}
            _ => return Err(format!("the modifier '{modifier}' is not available")),
        }
    }
    Ok(made)
}

/// `rankfile:file=PATH`, whose path keeps its letters.
fn rank_file(value: &str) -> Made {
    let mut fields = value.split(':').skip(1);
    let is_key = |field: &&str| field.to_ascii_lowercase().starts_with("file=");
    match (fields.next().filter(is_key), fields.next()) {
        (Some(field), None) => Ok(words(&["-rankfile", &field["file=".len()..]])),
        _ => Err("it must be rankfile:file=PATH".to_owned()),
    }
}

/// `--mca KEY VALUE`: a variable of the ranks, and an option if the key has the effect of one.
pub(super) fn mca(values: &[&str], caller: &dyn Facts) -> Made {
    parameter("OMPI_MCA_", values, caller)
}

/// `--prtemca KEY VALUE`.
pub(super) fn prte_mca(values: &[&str], caller: &dyn Facts) -> Made {
    parameter("PRTE_MCA_", values, caller)
}

fn parameter(family: &str, values: &[&str], caller: &dyn Facts) -> Made {
    let [key, value] = values else { return Err("it needs a key and a value".to_owned()) };
    let is_yes = !["0", "no", "off", "false"].contains(&value.to_ascii_lowercase().as_str());
    let mut made = match *key {
        "rmaps_base_mapping_policy" | "rmaps_default_mapping_policy" => map_by(&[value], caller)?,
        "rmaps_base_ranking_policy" | "rmaps_default_ranking_policy" => rank_by(&[value], caller)?,
        "hwloc_base_binding_policy" | "hwloc_default_binding_policy" => bind_to(&[value], caller)?,
        "hwloc_base_cpu_set" | "hwloc_base_cpu_list" | "hwloc_default_cpu_list" => {
            cpus::cores(&[value], caller)?
        }
        "hwloc_base_report_bindings" | "orte_report_bindings" if is_yes => {
            words(&["-report-bindings"])
        }
        "rmaps_base_no_oversubscribe" if is_yes => words(&["-nooversubscribe"]),
        "rmaps_rank_file_path" | "orte_rankfile" => words(&["-rankfile", value]),
        "rmaps_rank_file_physical" if is_yes => {
            return Err("write slot=pN in the rank file".to_owned());
        }
        _ => Vec::new(),
    };
    made.extend(words(&["-genv", &format!("{family}{key}"), value]));
    Ok(made)
}

/// `N:PART`, possibly several of them.
pub(super) fn ppr(values: &[&str], caller: &dyn Facts) -> Made {
    match values[0].split_once(':') {
        Some((number, part)) if !part.contains(',') => per_part(number, part, caller),
        _ => Err("it must be N:PART, like 2:socket".to_owned()),
    }
}

pub(super) fn per_socket(values: &[&str], caller: &dyn Facts) -> Made {
    per_part(values[0], "socket", caller)
}

/// So many ranks for each part of each host. The parts are those of this host, because hosts of a job are alike.
fn per_part(number: &str, name: &str, caller: &dyn Facts) -> Made {
    let wrong = || format!("{number:?} is not a number of processes");
    let number: u32 = number.parse().ok().filter(|&number| number > 0).ok_or_else(wrong)?;
    if name == "node" {
        return Ok(words(&["-ppn", &number.to_string()]));
    }
    let part = part(name).ok_or_else(|| format!("the part '{name}' is not available"))?;
    let cpus = caller.cpus();
    let parts: BTreeSet<(u32, u32)> = cpus
        .iter()
        .map(|cpu| match part {
            "hwthread" => (cpu.number, 0),
            "core" => (cpu.node, cpu.core),
            "l3cache" => (cpu.node, cpu.cache),
            "numa" => (cpu.node, 0),
            _ => (cpu.socket, 0),
        })
        .collect();
    let parts = u32::try_from(parts.len()).unwrap_or(1).max(1);
    let all = number.saturating_mul(parts).to_string();
    Ok(words(&["-ppn", &all, "-map-by", &format!("{part}:{number}")]))
}

pub(super) fn rank_by(values: &[&str], _: &dyn Facts) -> Made {
    match values[0].to_ascii_lowercase().as_str() {
        "slot" | "fill" => Ok(Vec::new()),
        "node" => Ok(words(&["-rr"])),
        other => Err(format!(
            "the policy '{other}' is not available; ranks are numbered in the order of -map-by"
        )),
    }
}

/// `--bind-to UNIT[:MODIFIERS]`.
pub(super) fn bind_to(values: &[&str], caller: &dyn Facts) -> Made {
    let value = values[0].to_ascii_lowercase();
    match value.as_str() {
        // --cpu-list gave the list.
        "cpu-list:ordered" | "cpulist:ordered" => return Ok(words(&["-bind-to", "core"])),
        "cpu-list" | "cpulist" => return Ok(words(&["-bind-to", "none"])),
        "rr" => return Ok(cpus::round_robin(caller)),
        _ => {}
    }
    let (unit, modifiers) = value.split_once(':').unwrap_or((&value, ""));
    for modifier in modifiers.split(',').filter(|modifier| !modifier.is_empty()) {
        if !["overload-allowed", "if-supported", "overload"].contains(&modifier) {
            return Err(format!("the modifier '{modifier}' is not available"));
        }
    }
    match unit {
        "none" | "board" | "machine" => Ok(words(&["-bind-to", "none"])),
        _ => match part(unit) {
            Some(part) => Ok(words(&["-bind-to", part])),
            None => Err(format!("the unit '{unit}' is not available")),
        },
    }
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
