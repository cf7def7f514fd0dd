//! The signals that a rank may have sent to another one.

/// Whether programs send each other signals of this number on Linux. Signal 0 only tests a process. The C library
/// reserves 32 and 33, the first real-time signals, for its threads.
pub const fn is_for_programs(signal: i32) -> bool {
    matches!(signal, 1..=31 | 34..=64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_signals_are_for_programs_and_those_of_the_c_library_are_not() {
        for signal in [1, 9, 31, 34, 49, 64] {
            assert!(is_for_programs(signal), "{signal}");
        }
        for signal in [-1, 0, 32, 33, 65, 256 + 10] {
            assert!(!is_for_programs(signal), "{signal}");
        }
    }
}
