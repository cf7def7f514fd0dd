//! Values of foreign options that need more than a pattern: policies of mapping and binding, and lists.

use std::collections::BTreeSet;

use super::Made;
use super::language::Facts;

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

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
    Ok(words(&["-hosts", &hosts.join(",")]))
}

/// `--map-by POLICY[:MODIFIERS]`, also with `ppr:N:PART`.
pub(super) fn map_by(values: &[&str], caller: &dyn Facts) -> Made {
    let value = values[0].to_ascii_lowercase();
    let mut fields = value.split(':');
    let policy = fields.next().unwrap_or_default();
    let mut made = match policy {
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
            ("nolocal", "") => made.extend(words(&["-nolocal"])),
            ("hwtcpus" | "corecpus", "") => {}
            _ => return Err(format!("the modifier '{modifier}' is not available")),
        }
    }
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
pub(super) fn bind_to(values: &[&str], _: &dyn Facts) -> Made {
    let value = values[0].to_ascii_lowercase();
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

pub(super) fn pals_bind(values: &[&str], caller: &dyn Facts) -> Made {
    match values[0] {
        // The depth decides, or the rank may use all CPUs.
        "depth" => Ok(Vec::new()),
        value => bind_to(&[value], caller),
    }
}

pub(super) fn display(values: &[&str], _: &dyn Facts) -> Made {
    let mut made = Vec::new();
    for word in values[0].split([',', ':']) {
        match word {
            "map" | "map-devel" => made = words(&["-print-rank-map"]),
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
