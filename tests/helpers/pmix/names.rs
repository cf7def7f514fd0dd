//! Published pairs.

use pmix_proto::Persistence;
use pmix_proto::view::{Pair, Proc, Published};

#[derive(Default)]
pub(crate) struct Names(Vec<(Published, Persistence)>);

impl Names {
    pub(crate) fn publish(
        &mut self,
        owner: &Proc,
        pairs: Vec<Pair>,
        persistence: Persistence,
    ) -> bool {
        let taken = |pair: &Pair| self.0.iter().any(|(one, _)| one.key == pair.key);
        if pairs.iter().any(taken) {
            return false;
        }
        let published = pairs.into_iter().map(|Pair { key, value }| {
            (Published { owner: owner.clone(), key, value }, persistence)
        });
        self.0.extend(published);
        true
    }

    /// Those of the keys that are there, if they are as many as wanted.
    pub(crate) fn find(&mut self, keys: &[Vec<u8>], wanted: usize) -> Option<Vec<Published>> {
        let is_asked = |one: &Published| keys.contains(&one.key);
        let found: Vec<_> =
            self.0.iter().map(|(one, _)| one).filter(|one| is_asked(one)).cloned().collect();
        if found.len() < wanted.max(1) {
            return None;
        }
        self.0.retain(|(one, stay)| *stay != Persistence::FirstRead || !is_asked(one));
        Some(found)
    }

    pub(crate) fn unpublish(&mut self, owner: &Proc, keys: &[Vec<u8>]) {
        self.0.retain(|(one, _)| {
            one.owner != *owner || !(keys.is_empty() || keys.contains(&one.key))
        });
    }
}
