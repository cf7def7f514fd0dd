//! The data that the ranks of one namespace have committed.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::encoding::{Encoding, Value};
use crate::job_info::blob;
use crate::limits::{ENTRY_COST, MAX_RANK_BYTES};
use crate::message::{Put, Scope, write_pairs};
use crate::status::Status;
use crate::view::{Info, Pair, Proc};

/// Most bytes of a rank whose encoded pairs are kept as well. A library has some kilobytes.
const MAX_KEPT_ENCODED: usize = 1024 * 1024;

/// The node of the process that requests data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The node of the rank that committed them.
    Local,
    /// Another node.
    Remote,
}

/// The committed pairs of a namespace.
#[derive(Debug, Default)]
pub struct Modex {
    ranks: BTreeMap<u32, Committed>,
}

#[derive(Debug, Default)]
struct Committed {
    /// Whether the rank has sent a commit.
    has_committed: bool,
    pairs: BTreeMap<(Vec<u8>, Scope), Value>,
    /// Values that are valid for one group only. Their keys may repeat.
    qualified: Vec<Pair>,
    bytes: usize,
    encoded: Encoded,
}

/// All pairs for a view in an encoding, since the last commit. All clients of a node need the same bytes.
#[derive(Debug, Default)]
struct Encoded([[OnceCell<Vec<u8>>; 2]; 2]);

impl Modex {
    /// Adds the pairs of a commit. A pair replaces an earlier pair of its key and scope.
    ///
    /// # Errors
    ///
    /// The pairs of the rank exceed the limit. The pairs up to the limit are kept.
    pub fn commit(&mut self, rank: u32, puts: impl IntoIterator<Item = Put>) -> Result<(), Status> {
        self.commit_beside(0, rank, puts)
    }

    /// The same for a rank for which the manager keeps `others` bytes elsewhere.
    ///
    /// # Errors
    ///
    /// As those of [`Modex::commit`].
    pub fn commit_beside(
        &mut self,
        others: usize,
        rank: u32,
        puts: impl IntoIterator<Item = Put>,
    ) -> Result<(), Status> {
        let committed = self.ranks.entry(rank).or_default();
        committed.has_committed = true;
        committed.encoded = Encoded::default();
        for put in puts {
            let cost = ENTRY_COST + put.pair.key.len() + size_of(&put.pair.value);
            let slot = (put.pair.key, put.scope);
            let old = committed
                .pairs
                .get(&slot)
                .map_or(0, |old| ENTRY_COST + slot.0.len() + size_of(old));
            if others + committed.bytes - old + cost > MAX_RANK_BYTES {
                return Err(Status::OUT_OF_RESOURCE);
            }
            committed.bytes = committed.bytes - old + cost;
            committed.pairs.insert(slot, put.pair.value);
        }
        Ok(())
    }

    /// Adds a value that is valid for one group only.
    ///
    /// # Errors
    ///
    /// The pairs of the rank exceed the limit.
    pub fn qualify(&mut self, rank: u32, pair: Pair) -> Result<(), Status> {
        let committed = self.ranks.entry(rank).or_default();
        let bytes = committed.bytes + ENTRY_COST + pair.key.len() + size_of(&pair.value);
        if bytes > MAX_RANK_BYTES {
            return Err(Status::OUT_OF_RESOURCE);
        }
        committed.bytes = bytes;
        committed.encoded = Encoded::default();
        committed.qualified.push(pair);
        Ok(())
    }

    /// The bytes of what the rank has committed.
    pub fn bytes(&self, rank: u32) -> usize {
        self.ranks.get(&rank).map_or(0, |committed| committed.bytes)
    }

    /// Whether the rank has sent a commit, which may be empty.
    pub fn has(&self, rank: u32) -> bool {
        self.ranks.get(&rank).is_some_and(|committed| committed.has_committed)
    }

    /// Whether the rank has committed this key for this view.
    pub fn has_key(&self, rank: u32, key: &[u8], view: View) -> bool {
        self.ranks.get(&rank).is_some_and(|committed| {
            let scopes = [view.scope(), Scope::Global];
            scopes.iter().any(|scope| committed.pairs.contains_key(&(key.to_vec(), *scope)))
                || committed.qualified.iter().any(|pair| is_about(pair, key))
        })
    }

    /// The value that the rank has committed with this key for this view.
    pub fn value(&self, rank: u32, key: &[u8], view: View) -> Option<&Value> {
        let pairs = &self.ranks.get(&rank)?.pairs;
        let scopes = [view.scope(), Scope::Global];
        scopes.into_iter().find_map(|scope| pairs.get(&(key.to_vec(), scope)))
    }

    /// All pairs that the rank has committed for this view. Values that hold for one group only are not among them.
    pub fn pairs(&self, rank: u32, view: View) -> Option<Vec<Pair>> {
        Some(self.ranks.get(&rank)?.pairs_for(view))
    }

    /// All pairs that the rank has committed for this view, as the answer to `get`.
    pub fn data(&self, proc: &Proc, view: View, encoding: Encoding) -> Option<Vec<u8>> {
        Some(blob(encoding, proc, &self.ranks.get(&proc.rank)?.encoded(view, encoding)))
    }

    /// Removes the data of a rank.
    pub fn forget(&mut self, rank: u32) {
        self.ranks.remove(&rank);
    }
}

impl Committed {
    fn pairs_for(&self, view: View) -> Vec<Pair> {
        let scopes = [view.scope(), Scope::Global];
        let seen = self.pairs.iter().filter(|((_, scope), _)| scopes.contains(scope));
        seen.map(|((key, _), value)| Pair::new(key.as_slice(), value.clone())).collect()
    }

    fn encoded(&self, view: View, encoding: Encoding) -> Cow<'_, [u8]> {
        let encode = || {
            let mut pairs = self.pairs_for(view);
            pairs.extend(self.qualified.iter().cloned());
            write_pairs(encoding, &pairs)
        };
        if self.bytes > MAX_KEPT_ENCODED {
            return encode().into();
        }
        let encoded = &self.encoded.0[usize::from(view == View::Local)];
        encoded[usize::from(encoding == Encoding::Fixed)].get_or_init(encode).into()
    }
}

/// The contribution of a member of a group, as pairs that are valid only for the group with the number `context`. Each
/// pair has the key `pmix.qual.val`, the value and its qualifier.
pub fn qualified(contribution: &[Info], context: &Value) -> Vec<Pair> {
    let qualifier =
        Info { key: b"pmix.grp.ctxid".into(), flags: QUALIFIER, value: context.clone() };
    let pair = |info: &Info| {
        Pair::new("pmix.qual.val", Value::array_of(&[info.clone(), qualifier.clone()]))
    };
    contribution.iter().map(pair).collect()
}

/// The flag of an info that restricts another info.
const QUALIFIER: u32 = 8;

impl View {
    const fn scope(self) -> Scope {
        match self {
            Self::Local => Scope::Local,
            Self::Remote => Scope::Remote,
        }
    }
}

/// Whether a qualified pair has a value of this key.
fn is_about(pair: &Pair, key: &[u8]) -> bool {
    let infos = pair.value.as_infos().unwrap_or_default();
    infos.first().is_some_and(|info| info.key == key)
}

/// The estimated memory of a value in bytes.
fn size_of(value: &Value) -> usize {
    value.data().size()
}
