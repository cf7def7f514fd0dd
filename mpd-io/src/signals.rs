//! Signals as events of the loop: the handler does no more than note the number and wake the loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// The signals a process wants to hear of. The descriptor is readable when some are waiting.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Catches `signals` from now on.
    ///
    /// # Errors
    /// When one of them cannot be caught or no descriptors are left.
    pub fn catch(signals: &[i32]) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        // One that comes when its handler is there and nobody is known to it yet would get lost: it
        // waits until then.
        let held: SigSet = signals.iter().filter_map(|&s| Signal::try_from(s).ok()).collect();
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let delivery = SignalDelivery::with_pipe(reader, writer, SignalOnly, signals);
        before.thread_set_mask()?;
        Ok(Self { delivery: delivery? })
    }

    /// The signals that came since the last call, each once.
    pub fn pending(&mut self) -> Vec<i32> {
        self.delivery.pending().collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.delivery.get_read().as_raw_fd()
    }
}
