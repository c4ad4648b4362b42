//! The rules of persistency: the images that a power cut may leave.

use halite_pmem::{Domain, LINE};
use halite_sim::Request;

/// A set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rules {
    /// Persistent memory behind volatile caches. The stores to a line persist in order, lines in any order; an
    /// unflushed line may have been evicted after any of its stores; an aligned word of 8 bytes never tears; a flushed
    /// line is durable after the fence.
    Memory,
    /// An ordinary file. The stores to an aligned word of 8 bytes persist in order, words in any order and at any time,
    /// also within one store: the kernel may write a page back while stores to it go on, and more than once. A synced
    /// word is durable.
    PageCache,
    /// The same, and now and then the kernel fails to sync. Any part of the bytes is durable then, and the kernel marks
    /// all of them as clean: later syncs do not make them durable.
    FailingSyncs,
    /// Caches that persist. Every store survives, in order; only stores that were streamed past the cache have to be
    /// fenced.
    Platform,
    /// The same, but the platform fails to save its caches: bytes that the kernel has not written back are as uncertain
    /// as under [`Rules::Memory`], and the device counts the failure.
    FailedPlatform,
}

impl Rules {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::PageCache, Self::FailingSyncs, Self::Platform, Self::FailedPlatform];

    /// The name, for the command line and for cases.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::PageCache => "page-cache",
            Self::FailingSyncs => "failing-syncs",
            Self::Platform => "platform",
            Self::FailedPlatform => "failed-platform",
        }
    }

    /// The rules of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rules| rules.name() == name)
    }

    /// The domain of a pool under these rules.
    #[must_use]
    pub fn domain(self) -> Domain {
        match self {
            Self::Memory => Domain::Memory,
            Self::PageCache | Self::FailingSyncs => Domain::PageCache,
            Self::Platform | Self::FailedPlatform => Domain::Platform,
        }
    }

    /// Whether a request can matter under these rules. `shrinks`: it makes bytes durable that were not.
    pub(crate) fn heed(self, request: Request, shrinks: bool) -> bool {
        match (request, self) {
            (Request::Sync, _)
            | (_, Self::Memory)
            | (Request::Fence, Self::PageCache | Self::FailingSyncs) => true,
            // A fence waits only for streamed stores; after others it is idle.
            (Request::Fence, Self::Platform) => shrinks,
            _ => false,
        }
    }

    /// Whether stores keep their order within a word only, and not within a unit of [`Self::cell_len`].
    pub(crate) fn words_are_cells(self) -> bool {
        matches!(self, Self::PageCache | Self::FailingSyncs)
    }

    /// The unit by which stores are kept, in bytes: a line, or of an ordinary file a sector, whose words are cells.
    pub(crate) fn cell_len(self) -> u64 {
        match self {
            Self::PageCache | Self::FailingSyncs => 512,
            _ => LINE,
        }
    }

    /// Whether a device under these rules counts its failures.
    pub(crate) fn counts_failures(self) -> bool {
        matches!(self, Self::Platform | Self::FailedPlatform)
    }
}
