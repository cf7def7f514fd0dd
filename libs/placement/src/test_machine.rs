//! A machine for the tests of this crate.

use crate::cpu::Cpu;

/// Two nodes of two cores of two threads, numbered as Linux does: the second threads come last.
pub(crate) fn machine() -> Vec<Cpu> {
    let cpu = |number| {
        let node = number % 4 / 2;
        Cpu { node, socket: node, cache: node, core: number % 4, number }
    };
    (0..8).map(cpu).collect()
}
