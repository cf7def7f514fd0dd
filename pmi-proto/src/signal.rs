//! Which signals a rank may have sent to another one.

/// Whether programs send each other signals of this number on Linux. Nothing is sent by 0, and 32 and 33 are what the C
/// library keeps for its threads, in front of the real-time signals.
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
