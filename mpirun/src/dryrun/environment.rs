//! The environment of a program as its difference from the caller's.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::job::{Argset, Bytes, JobSpec};

use crate::caller::Caller;

/// A variable: its name and its value.
pub(super) type Variable<'a> = (&'a [u8], &'a [u8]);

/// An environment, described in the shorter way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference<'a> {
    /// The caller's environment without some variables and with others.
    Callers { without: Vec<&'a [u8]>, with: Vec<Variable<'a>> },
    /// Only these variables.
    Only(Vec<Variable<'a>>),
}

impl<'a> Difference<'a> {
    pub(super) fn new(environment: &'a [Bytes], caller: &'a Caller) -> Self {
        let old: BTreeMap<&[u8], &[u8]> =
            caller.environment.iter().rev().map(|entry| split(entry)).collect();
        let names: BTreeSet<&[u8]> = environment.iter().map(|v| split(v).0).collect();
        let without: Vec<&[u8]> = old.keys().copied().filter(|n| !names.contains(n)).collect();
        let variables = environment.iter().map(|variable| split(variable));
        if without.len() > environment.len() {
            return Self::Only(variables.collect());
        }
        let with = variables.filter(|(name, value)| old.get(name) != Some(value)).collect();
        Self::Callers { without, with }
    }
}

/// The environment of the ranks of `argset`.
pub(super) fn of<'a>(spec: &'a JobSpec, argset: &Argset) -> &'a [Bytes] {
    spec.environments.get(argset.environment as usize).map_or(&[], Vec::as_slice)
}

fn split(variable: &[u8]) -> Variable<'_> {
    let at = variable.iter().position(|&b| b == b'=').unwrap_or(variable.len());
    (&variable[..at], variable.get(at + 1..).unwrap_or_default())
}
