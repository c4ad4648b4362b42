//! The log of a store whose memtables are volatile (Yan's XS): what its batches have in them, and how much of its space
//! is left to whom. [`halite_wal`] has the log itself.
//!
//! ```text
//! payload of a batch:  for each fragment: tree u32, len u32, records as in a zone, numbered from zero
//! ```
//!
//! A memtable needs the files from that on which was appended to when it was begun. Files that no memtable needs serve
//! again, or are removed.

use halite_codec::Reader;
use halite_sst::SEQUENCE_MAX;
use halite_wal::{Identity, Logged, Wal};

use crate::encoded::{Encoded, Fragment};
use crate::refusals::Purpose;

/// Bytes before a fragment's records.
const HEADER_OF_FRAGMENT: usize = 8;

/// The log of a store.
pub(crate) fn of_store(store_id: u128) -> Identity {
    Identity { store_id, sequence_max: SEQUENCE_MAX }
}

/// The trees of a logged batch's fragments, and their records.
pub(crate) fn fragments<'a>(
    batch: &Logged<'a>,
) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
    let mut rest = Reader(batch.payload);
    std::iter::from_fn(move || {
        let tree = rest.u32().ok()?;
        Some((tree as usize, rest.sized().ok()?))
    })
}

/// Appends a batch, in its turn. Returns up to where the log has to be durable for it.
pub(crate) fn append(wal: &Wal, sequence: u64, encoded: &Encoded) -> u64 {
    wal.append(sequence, encoded.records(), |to| {
        for fragment in encoded.fragments() {
            let records = fragment.unnumbered();
            to.extend_from_slice(&(fragment.tree as u32).to_le_bytes());
            to.extend_from_slice(&(records.len() as u32).to_le_bytes());
            to.extend_from_slice(records);
        }
    })
}

/// The space that a batch takes in the log, so that it does not fail for lack of it when it has its place.
pub(crate) struct Space {
    /// Bytes of the batch's payload.
    pub(crate) len: u64,
    /// Bytes that are to be left: puts leave some to bookkeeping, and both to removals.
    pub(crate) left: u64,
}

impl Space {
    pub(crate) fn of(wal: &Wal, encoded: &Encoded) -> Self {
        let records = |fragment: &Fragment| HEADER_OF_FRAGMENT + fragment.unnumbered().len();
        let len = encoded.fragments().iter().map(records).sum::<usize>() as u64;
        let left = match encoded.purpose {
            Purpose::Put => wal.spare(),
            Purpose::Bookkeeping => wal.spare() / 2,
            Purpose::Removal => 0,
        };
        Self { len, left }
    }
}
