//! The parts of a host that some of its CPUs are, for people: `core 0 of socket 1`, `NUMA nodes 0-1`.

use mpd_wire::job::Binding;

use crate::cpu::{Cpu, parts};
use crate::locality::list;

/// The kinds of parts from large to small, with their names.
const KINDS: [(Binding, &str); 5] = [
    (Binding::Socket, "socket"),
    (Binding::Numa, "NUMA node"),
    (Binding::Cache, "L3 cache"),
    (Binding::Core, "core"),
    (Binding::Thread, "hardware thread"),
];

/// What `cpus` are among all CPUs of a host that the job may use. Parts are counted from 0.
pub fn describe(cpus: &[u32], all: &[Cpu]) -> String {
    let is_bound = |cpu: &Cpu| cpus.contains(&cpu.number);
    if all.iter().all(is_bound) {
        return "all CPUs".to_owned();
    }
    for (kind, name) in KINDS {
        let parts = parts(all, kind);
        let touched = |part: &&Vec<Cpu>| part.iter().any(is_bound);
        if parts.iter().filter(touched).flatten().all(is_bound) {
            let at = (0..).zip(&parts).filter(|(_, part)| touched(part)).map(|(at, _)| at);
            let text = numbered(name, at.collect());
            return match kind {
                Binding::Core | Binding::Thread => text + &of_sockets(cpus, all),
                _ => text,
            };
        }
    }
    "unknown CPUs".to_owned()
}

/// ` of socket 1`, unless there is only one socket.
fn of_sockets(cpus: &[u32], all: &[Cpu]) -> String {
    let sockets = parts(all, Binding::Socket);
    let is_touched = |part: &Vec<Cpu>| part.iter().any(|cpu| cpus.contains(&cpu.number));
    let at = (0..).zip(&sockets).filter(|(_, part)| is_touched(part)).map(|(at, _)| at);
    match sockets.len() {
        0 | 1 => String::new(),
        _ => format!(" of {}", numbered("socket", at.collect())),
    }
}

fn numbered(name: &str, numbers: Vec<u32>) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{name}{plural} {}", list(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_machine::machine;

    #[test]
    fn cpus_are_described_by_the_largest_whole_parts() {
        for (cpus, text) in [
            (&[0, 4][..], "core 0 of socket 0"),
            (&[1, 2, 5, 6], "cores 1-2 of sockets 0-1"),
            (&[2, 3, 6, 7], "socket 1"),
            (&[4], "hardware thread 1 of socket 0"),
            (&[0, 1, 2, 3], "hardware threads 0,2,4,6 of sockets 0-1"),
            (&[0, 1, 2, 3, 4, 5, 6, 7], "all CPUs"),
        ] {
            assert_eq!(describe(cpus, &machine()), text);
        }
        let one: Vec<Cpu> = machine().into_iter().filter(|cpu| cpu.socket == 0).collect();
        assert_eq!(describe(&[1], &one), "hardware thread 2");
        assert_eq!(describe(&[1, 5], &one), "core 1");
    }
}
