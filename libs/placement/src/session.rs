//! The share of a session among the sessions of a host, if the kernel shares the CPUs among them.

/// Niceness that gives one session the share of so many sessions with one process each.
///
/// A step of niceness is a factor of 1.25, as in `sched_prio_to_weight` of the kernel. The most is 20 steps: 87 sessions.
pub fn niceness_of_session(processes: usize) -> i8 {
    // The weight is right within half a step, 12 %.
    let steps = (f64::from(u32::try_from(processes.max(1)).unwrap_or(u32::MAX)).ln()
        / 1.25_f64.ln())
    .round();
    #[expect(clippy::cast_possible_truncation, reason = "at most 20")]
    let steps = steps.min(20.0) as i8;
    -steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_many_processes_weighs_as_much_as_many_sessions() {
        // The kernel's weights of the niceness 0, -3, -6 and -20 are 1024, 1991, 3906 and 88761.
        assert_eq!(
            [0, 1, 2, 4, 64, 87, 100_000].map(niceness_of_session),
            [0, 0, -3, -6, -19, -20, -20]
        );
    }
}
