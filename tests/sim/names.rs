//! Names: the publications through the daemons, and the names that every member must know.

use std::collections::{BTreeMap, BTreeSet};

use mpd_ring::{Input, Output, Publication, RequestId};
use mpd_wire::names::Claim;

use crate::world::World;

/// Published names that were not unpublished, according to the daemons' answers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    asked: BTreeMap<RequestId, Claim>,
    /// By host and name.
    pub(crate) claims: BTreeMap<(usize, String), Claim>,
}

impl Published {
    pub(crate) fn asked(&mut self, request: RequestId, claim: &Claim) {
        self.asked.insert(request, claim.clone());
    }

    /// An input of a daemon.
    pub(crate) fn given(&mut self, host: usize, input: &Input) {
        match input {
            Input::Unpublish { name, job, .. } => {
                let over = |claim: &Claim| claim.name == *name && claim.job == *job;
                self.claims.retain(|(of, _), claim| *of != host || !over(claim));
            }
            Input::JobOver(job) => {
                self.claims.retain(|(of, _), claim| *of != host || claim.job != *job);
            }
            _ => {}
        }
    }

    /// An output of a daemon.
    pub(crate) fn said(&mut self, host: usize, output: &Output) {
        match output {
            Output::Published { request, result } => {
                let claim = self.asked.remove(request).expect("the request of a publication");
                if *result == Publication::Done {
                    self.claims.insert((host, claim.name.clone()), claim);
                }
            }
            Output::NameLost { name, .. } => {
                self.claims.remove(&(host, name.clone()));
            }
            _ => {}
        }
    }

    pub(crate) fn forget_daemon(&mut self, host: usize) {
        self.claims.retain(|(of, _), _| *of != host);
    }
}

/// After a calm time every member knows the same names: those published and not unpublished through the daemons
/// of the group.
pub(crate) fn names_agree(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let published = world.watch.names.claims.iter();
    let ours = published.filter(|((host, _), _)| group.contains(host));
    let mut expected: Vec<&Claim> = ours.map(|(_, claim)| claim).collect();
    expected.sort();
    let mut violations = Vec::new();
    for &host in group {
        let known: Vec<&Claim> = world.ring(host).names().iter().map(|(_, claim)| *claim).collect();
        if known != expected {
            violations.push(format!("h{host} knows {known:?}, published are {expected:?}"));
        }
    }
    violations
}
