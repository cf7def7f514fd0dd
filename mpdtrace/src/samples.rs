//! Rings for tests of the pure modules.

use std::collections::BTreeMap;

use mpd_wire::message::{MemberView, RingView};
use mpd_wire::{Address, DaemonName, Instance, Standing};

pub(crate) fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

/// A whole ring of live members. The first member is the local one. Ports count from 5000.
pub(crate) fn ring(names: &[&str]) -> RingView {
    let live = names.iter().enumerate();
    RingView {
        ring: String::new(),
        me: name(names[0]),
        key: "ab12cd34".into(),
        whole: true,
        rhs: names.get(1).map(|n| name(n)),
        lhs: names.last().filter(|_| names.len() > 1).map(|n| name(n)),
        members: live.map(|(i, n)| member(n, i)).collect(),
        events: BTreeMap::new(),
    }
}

/// The `i`-th live member.
pub(crate) fn member(text: &str, i: usize) -> MemberView {
    MemberView {
        name: name(text),
        standing: Standing::Live,
        instance: Instance::from_bytes([u8::try_from(i % 256).unwrap(); 16]),
        ordinal: i as u64,
        ncpus: 4,
        addresses: vec![Address::new(&format!("10.0.0.{}:{}", i % 250 + 1, 5000 + i)).unwrap()],
        suspect: false,
        draining: false,
        by: None,
    }
}
