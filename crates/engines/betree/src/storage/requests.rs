//! Requests that go on while their callers do other work, by the queues of the vdevs ([`halite_vdev::Queue`]).
//!
//! In persistent memory, and where a store has one thread, a request is done before its submission returns, in the order
//! of the submissions. Everywhere else up to [`THREADS`] requests of a vdev are under way at a time.

#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::ops::Range;

use halite_disk::AlignedBuffer;
use halite_vdev::{BLOCK, Ticket, Vdev};

use super::{Address, Extent, Storage, run_of};
use crate::message::byte_len;
use crate::{Error, Result};

/// Threads of a vdev's queue: requests that its devices have at a time.
pub(super) const THREADS: usize = 8;

/// Bytes of the requests that one caller has under way, and those of results that it has not used: more than its devices
/// need to be busy.
pub(crate) const AHEAD: usize = 8 << 20;

/// Tells whether bytes are right.
pub(crate) type Check = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A read that was submitted.
pub(crate) struct PendingRead {
    ticket: Ticket<AlignedBuffer>,
    what: &'static str,
    extent: Extent,
}

impl PendingRead {
    /// Waits for the bytes.
    ///
    /// # Errors
    /// As [`super::Extents::read`].
    pub(crate) fn wait(self) -> Result<AlignedBuffer> {
        let Self { ticket, what, extent } = self;
        ticket.wait().map_err(|error| read_error(what, extent, error))
    }
}

/// The error of a read: what a damaged pointer leads to, and what no replica has, is damage.
pub(super) fn read_error(what: &'static str, extent: Extent, error: halite_vdev::Error) -> Error {
    match error {
        halite_vdev::Error::Damaged { .. } | halite_vdev::Error::OutOfBounds { .. } => {
            Error::Damaged { what, address: extent.address, why: error.to_string() }
        }
        error => error.into(),
    }
}

impl Storage {
    /// Whether requests of a vdev are done at once: then its caller had better read and write without a copy.
    pub(crate) fn is_direct(&self, address: Address) -> bool {
        self.queue(address).is_ok_and(halite_vdev::Queue::is_direct)
    }

    /// Submits a request of the vdev of an address. No request outlives its ticket.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        address: Address,
        request: impl FnOnce(&Vdev) -> halite_vdev::Result<T> + Send + 'static,
    ) -> Result<Ticket<T>> {
        Ok(self.queue(address)?.submit(request))
    }

    /// Submits a read of a whole extent: to aligned memory, so the device writes there without a copy.
    pub(crate) fn submit_read(
        &self,
        what: &'static str,
        extent: Extent,
        check: Check,
    ) -> Result<PendingRead> {
        self.submit_span(what, extent, 0..byte_len(extent), check)
    }

    /// Submits a read of bytes of an extent.
    pub(super) fn submit_span(
        &self,
        what: &'static str,
        extent: Extent,
        span: Range<usize>,
        check: Check,
    ) -> Result<PendingRead> {
        self.traffic.read(extent.address.class(), span.len());
        let ticket = self.submit(extent.address, move |vdev| {
            let mut to = AlignedBuffer::zeroed(span.len(), BLOCK);
            vdev.read(run_of(extent), span.start, &mut to, &*check)?;
            Ok(to)
        })?;
        Ok(PendingRead { ticket, what, extent })
    }
}

/// Writes of extents that go on side by side. Their bytes take at most [`AHEAD`], which is more than an extent.
///
/// None is known to be written before [`Writes::finish`] has returned. Dropping it takes back what was not begun, and
/// waits for the rest: then the extents may be freed.
pub(crate) struct Writes<'a> {
    storage: &'a Storage,
    pending: VecDeque<(usize, Ticket<()>)>,
    bytes: usize,
}

impl<'a> Writes<'a> {
    pub(crate) fn new(storage: &'a Storage) -> Self {
        Self { storage, pending: VecDeque::new(), bytes: 0 }
    }

    /// Writes an allocated extent: these bytes, and zeros behind.
    ///
    /// # Errors
    /// The failure of this write, or of an earlier one.
    pub(crate) fn write(&mut self, extent: Extent, bytes: &[u8]) -> Result<()> {
        if self.storage.is_direct(extent.address) {
            return self.storage.write_at(extent, bytes);
        }
        let mut buffer = AlignedBuffer::zeroed(byte_len(extent), BLOCK);
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.bytes += buffer.len();
        while self.bytes > AHEAD && !self.pending.is_empty() {
            self.wait_for_oldest()?;
        }
        let len = buffer.len();
        let write = move |vdev: &Vdev| vdev.write(run_of(extent), &buffer);
        self.pending.push_back((len, self.storage.submit(extent.address, write)?));
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<()> {
        let Some((len, ticket)) = self.pending.pop_front() else { return Ok(()) };
        self.bytes -= len;
        Ok(ticket.wait()?)
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn finish(mut self) -> Result<()> {
        while !self.pending.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }
}
