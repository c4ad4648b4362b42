//! The events of the devices of a modelled machine, in order.

use std::panic::Location;

/// The place in the code that asked for an event.
pub type Site = &'static Location<'static>;

/// One event of a modelled machine, and the place that asked for it.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// The event.
    pub what: What,
    /// The place in the code that asked for the event.
    pub site: Site,
}

/// The kinds of events of a modelled machine. Offsets and lengths are in bytes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Bytes were stored; [`Trace::stored`] has them.
    Store {
        /// Where.
        at: u64,
        /// How many.
        len: u32,
        /// Where the trace keeps them.
        bytes: u32,
        /// Past the cache.
        streamed: bool,
        /// Whether the words were stored in order, upwards; a copy may store them in any order.
        in_order: bool,
    },
    /// The write-back of a range began.
    Flush {
        /// Where the range begins.
        at: u64,
        /// How long it is.
        len: u64,
    },
    /// A thread waited for the write-backs of ranges; [`Trace::fenced`] has them.
    Fence {
        /// Where the trace keeps them.
        first: u32,
        /// How many there are.
        count: u32,
    },
    /// The kernel made pages durable: a fence on an ordinary file.
    Sync {
        /// Where the first page begins.
        at: u64,
        /// How long they are together.
        len: u64,
    },
    /// The kernel failed to make pages durable, and marks them clean: any part of the bytes stored to them
    /// may be durable, and later syncs do not make the rest durable.
    SyncFailed {
        /// Where the first page begins.
        at: u64,
        /// How long they are together.
        len: u64,
    },
    /// A range was written again unchanged: the kernel marks its pages dirty.
    Rewrite {
        /// Where the range begins.
        at: u64,
        /// How long it is.
        len: u64,
    },
    /// The kernel made all pages and the length of the file durable.
    SyncFile,
    /// The file got another length.
    Length {
        /// The new length.
        to: u64,
    },
    /// The file got its name.
    Link,
    /// The kernel made the name durable.
    SyncFolder,
    /// Other threads may reach bytes by the proof that a range is durable.
    Publish {
        /// Where the range begins.
        at: u64,
        /// How long it is.
        len: u64,
    },
    /// An event of the files beside the pool, which share the medium's power.
    Disk {
        /// The number by which the files identify the event.
        number: u32,
        /// Where the trace keeps the bytes that were written.
        bytes: u32,
        /// How many there are.
        len: u32,
        /// Whether it makes bytes or names durable.
        is_sync: bool,
    },
    /// A note of the program that drives the medium.
    Mark(u64),
    /// The process ended: its stores stay, and its unfinished waits are dropped.
    Kill,
}

/// How bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Through the cache, in any order.
    Copied,
    /// Through the cache, word by word.
    InOrder,
    /// Past the cache.
    Streamed,
}

/// A request of code that makes bytes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// A write-back; of streamed bytes, their way past the cache.
    Flush,
    /// A fence; on an ordinary file, a sync of pages.
    Fence,
    /// A sync of the whole file, or of its name; of a file beside the pool, or of names.
    Sync,
}

impl Request {
    /// The name: `flush`, `fence` or `sync`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Fence => "fence",
            Self::Sync => "sync",
        }
    }
}

impl What {
    /// The request behind the event, if it was to make bytes durable.
    #[must_use]
    pub fn request(self) -> Option<Request> {
        match self {
            Self::Flush { .. } => Some(Request::Flush),
            Self::Fence { .. } | Self::Sync { .. } => Some(Request::Fence),
            Self::SyncFile | Self::SyncFolder | Self::Disk { is_sync: true, .. } => {
                Some(Request::Sync)
            }
            _ => None,
        }
    }
}

/// A sequence of [`Event`]s, with their bytes and ranges.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The events, in order.
    pub events: Vec<Event>,
    bytes: Vec<u8>,
    ranges: Vec<(u64, u64)>,
}

impl Trace {
    /// The bytes of a [`What::Store`] or a [`What::Disk`].
    #[must_use]
    pub fn stored(&self, bytes: u32, len: u32) -> &[u8] {
        &self.bytes[bytes as usize..][..len as usize]
    }

    /// The ranges of a [`What::Fence`], as offset and length.
    #[must_use]
    pub fn fenced(&self, first: u32, count: u32) -> &[(u64, u64)] {
        &self.ranges[first as usize..][..count as usize]
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
        self.ranges.clear();
    }

    /// Adds an event.
    pub fn push(&mut self, what: What, site: Site) {
        self.events.push(Event { what, site });
    }

    /// Stores bytes in the trace; returns where they begin, and how many they are.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = u32::try_from(self.bytes.len()).expect("a trace is taken before 4 GiB");
        let len = u32::try_from(bytes.len()).expect("a trace is taken before 4 GiB");
        self.bytes.extend_from_slice(bytes);
        (start, len)
    }

    /// Adds a store of bytes.
    pub fn push_store(&mut self, at: u64, bytes: &[u8], how: How, site: Site) {
        let (start, len) = self.keep(bytes);
        let (streamed, in_order) = (how == How::Streamed, how == How::InOrder);
        self.push(What::Store { at, len, bytes: start, streamed, in_order }, site);
    }

    pub(crate) fn push_disk(&mut self, number: u32, bytes: &[u8], is_sync: bool, site: Site) {
        let (bytes, len) = self.keep(bytes);
        self.push(What::Disk { number, bytes, len, is_sync }, site);
    }

    pub(crate) fn push_fence(&mut self, ranges: impl Iterator<Item = (u64, u64)>, site: Site) {
        let first = self.ranges.len() as u32;
        self.ranges.extend(ranges);
        let count = self.ranges.len() as u32 - first;
        self.push(What::Fence { first, count }, site);
    }
}
