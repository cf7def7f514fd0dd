//! The control sockets of the launcher shims before ranks. Nothing here blocks.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;

use mpd_io::network::control::{Control, Received};
use mpd_ranks::Sent;
use mpd_wire::Rank;
use mpd_wire::message::{ShimOrder, ShimReport};

/// Most reports that are read before other ranks have their turn.
const AT_ONCE: usize = 128;

/// The sockets, by rank.
#[derive(Debug, Default)]
pub(super) struct Shims {
    controls: BTreeMap<Rank, Control>,
    /// Ranks whose shim has reported something, or accepts more orders.
    pub(super) ready: Vec<Rank>,
}

impl Shims {
    pub(super) fn add(&mut self, rank: Rank, control: Control) {
        self.controls.insert(rank, control);
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.controls.remove(&rank);
    }

    /// Sends an order, or queues it until the shim reads.
    pub(super) fn send(&mut self, rank: Rank, order: &ShimOrder) -> Sent {
        let Some(control) = self.controls.get_mut(&rank) else { return Sent::Gone };
        match control.send(order, None) {
            Ok(()) => Sent::Yes,
            Err(e) if e.kind() == ErrorKind::WouldBlock => Sent::Later,
            Err(_) => Sent::Gone,
        }
    }

    /// Passes the program's end of a new PMI connection to the shim. Returns the manager's end.
    ///
    /// # Errors
    /// There is no descriptor, or no shim.
    pub(super) fn connect(&mut self, rank: Rank) -> io::Result<UnixStream> {
        let control = self.controls.get_mut(&rank).ok_or(ErrorKind::NotConnected)?;
        connect(control)
    }

    /// Sends queued orders and reads waiting reports. `None` if there is no shim.
    ///
    /// # Errors
    /// The other end breaks the protocol.
    pub(super) fn exchange(&mut self, rank: Rank) -> Option<io::Result<Vec<ShimReport>>> {
        let control = self.controls.get_mut(&rank)?;
        // If the other end is closed, its last reports can still be read.
        let _ = control.flush();
        let mut reports = Vec::new();
        for _ in 0..AT_ONCE {
            match control.receive() {
                Ok(Received::Message(report, _)) => reports.push(report),
                Ok(Received::Nothing | Received::Closed) => return Some(Ok(reports)),
                Err(e) => return Some(Err(e)),
            }
        }
        self.ready.push(rank);
        Some(Ok(reports))
    }
}

/// Passes the program's end of a new PMI connection to a shim. Returns the manager's end.
pub(super) fn connect(control: &mut Control) -> io::Result<UnixStream> {
    let (pmi, program) = UnixStream::pair()?;
    control.send(&ShimOrder::Connect, Some(program.into()))?;
    Ok(pmi)
}
