//! Processes as a message names them.

use crate::output::Pid;

/// Most processes in a message.
const MAX_NAMED: usize = 8;

/// The first eight processes, each as `describe` names it, and the number of further ones.
pub fn names_of(processes: &[Pid], describe: impl Fn(Pid) -> String) -> String {
    let names: Vec<String> =
        processes.iter().take(MAX_NAMED).map(|&process| describe(process)).collect();
    let more = match processes.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_eight_processes_and_counts_the_others() {
        let processes: Vec<Pid> = (1..=10).map(Pid).collect();
        let names = |count: usize| names_of(&processes[..count], |Pid(pid)| format!("p{pid}"));
        assert_eq!(names(2), "p1, p2");
        assert_eq!(names(10), "p1, p2, p3, p4, p5, p6, p7, p8 and 2 more");
    }
}
