//! The semi-persistent memtable (Yan §3.1): records in zones, which persist, and a volatile index of them.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use halite_index::{RadixTree, Records};
use halite_sst::RangeDelete;
use smallvec::SmallVec;

use crate::address::Address;
use crate::fragment;
use crate::record::{Kind, Record};
use crate::zones::Zones;
use halite_index::Removals;

/// Records of a batch that are added at once.
const GROUP: usize = 16;

/// A memtable. Immutable when `frozen_at` says so and everything that was granted before is committed.
pub(crate) struct Memtable {
    pub(crate) zones: Arc<Zones>,
    pub(crate) index: RadixTree,
    pub(crate) deletes: Removals,
    /// The ring's handle from which on nothing is granted here.
    frozen_at: AtomicU64,
    /// The first file of the log that has records of it, where there is a log.
    pub(crate) first_log: u64,
    /// The last sequence that was granted here.
    pub(crate) last: AtomicU64,
}

impl Memtable {
    pub(crate) fn new(zones: Arc<Zones>, first_log: u64) -> Self {
        Self {
            first_log,
            last: AtomicU64::new(0),
            zones,
            index: RadixTree::new(),
            deletes: Removals::default(),
            frozen_at: AtomicU64::new(u64::MAX),
        }
    }

    /// Points the index to the records of a fragment, which are readable at `address`, behind its header. The first
    /// were [prefetched](Self::prefetch).
    pub(crate) fn add(&self, address: u64, payload: &[u8]) {
        let first = address + fragment::HEADER as u64;
        let mut ahead = fragment::records(payload).skip(GROUP);
        for (number, (at, record)) in fragment::records(payload).enumerate() {
            // The lines that inserts will miss in the cache are prefetched a group before.
            if number % GROUP == 0 {
                self.prefetch_records(ahead.by_ref().take(GROUP));
            }
            self.add_record(Address::from_bits(first + at as u64), record);
        }
    }

    /// Prefetches the lines that [`add`](Self::add) will read first, of a fragment's records.
    pub(crate) fn prefetch(&self, payload: &[u8]) {
        self.prefetch_records(fragment::records(payload).take(GROUP));
    }

    fn prefetch_records<'a>(&self, records: impl Iterator<Item = (usize, Record<'a>)>) {
        let keys: SmallVec<[_; GROUP]> = records.map(|(_, record)| record.key()).collect();
        if !keys.is_empty() {
            self.prefetch_keys(&keys);
        }
    }

    /// Brings the lines that lookups and inserts of these keys will read into the cache.
    pub(crate) fn prefetch_keys(&self, keys: &[&[u8]]) {
        self.index.prefetch(self, keys);
    }

    /// Points the index to a record.
    pub(crate) fn add_record(&self, address: Address, record: Record<'_>) {
        match record.kind() {
            Some(Kind::Put | Kind::PutPieces | Kind::PutFile | Kind::Delete) => {
                self.index.insert(self, record.key(), address.to_bits());
            }
            Some(Kind::RangeDelete) => self.deletes.add(RangeDelete {
                start: record.key().into(),
                end: record.value().into(),
                sequence: record.sequence(),
            }),
            Some(Kind::Piece) | None => {}
        }
    }

    /// Grants nothing here from this handle of the ring on.
    pub(crate) fn freeze(&self, bid: u64) {
        self.frozen_at.store(bid, atomic::Ordering::Release);
    }

    /// The handle from which on nothing was granted here.
    pub(crate) fn frozen_at(&self) -> u64 {
        self.frozen_at.load(atomic::Ordering::Acquire)
    }
}

impl Records for Memtable {
    #[inline]
    fn key(&self, entry: u64) -> &[u8] {
        self.zones.key(Address::from_bits(entry))
    }

    #[inline]
    fn version(&self, entry: u64) -> u64 {
        self.zones.sequence(Address::from_bits(entry))
    }

    /// An address that was granted later is newer.
    #[inline]
    fn cmp_versions(&self, one: u64, other: u64) -> Ordering {
        one.cmp(&other)
    }

    #[inline]
    fn prefetch(&self, entry: u64) {
        self.zones.prefetch(Address::from_bits(entry));
    }
}
