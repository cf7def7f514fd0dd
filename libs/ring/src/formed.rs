//! Daemons of a ring that exists already, for simulations. To form a ring of thousands takes a simulator longer than
//! anything that is asked about it.

use std::sync::Arc;

use crate::list::List;
use crate::{Ring, RingConfig};
use mpd_sansio::Time;
use mpd_wire::Record;

/// The list of all members of a ring. The daemons that begin with it share its records.
#[doc(hidden)]
#[derive(Debug)]
pub struct Formed(List);

impl Formed {
    /// The list of these members.
    pub fn new(members: impl IntoIterator<Item = Record>) -> Self {
        let mut list = List::default();
        members.into_iter().for_each(|record| list.put(Arc::new(record)));
        Self(list.packed())
    }
}

impl Ring {
    /// A member of a ring that exists already. It has the list and still has no link.
    #[doc(hidden)]
    pub fn formed(now: Time, config: RingConfig, ring: &Formed) -> Self {
        Self::begin_with(now, config, ring.0.clone())
    }
}
