//! The devices of a pool, as its superblock has them.
//!
//! ```text
//! topology: text, len before it
//! each vdev: blocks varint
//! each leaf: guid u64 | flags u8: 1 stale, 2 offline
//! scrub, resilver: 0, or 1 and what is known of the last one:
//!   state u8 | dataset varint | key, len before it | bytes | extents | damaged | repaired | lost | second    varints
//! ```
//!
//! The topology has the places at which the leaves were last. A leaf is known by its guid, wherever it is now.

use halite_codec::{Reader, put_bytes, put_varint};
use halite_vdev::{Position, Topology};

use crate::Error;
use crate::message::Parsed;

/// A leaf missed writes.
const STALE: u8 = 1;

/// An administrator took a leaf away.
const OFFLINE: u8 = 2;

/// Bytes of the key at which a pass goes on that are kept: it goes on a little before, if it was longer.
const KEY_MAX: usize = 256;

/// Bytes of a record at most: a label has room for the rest of the superblock, too.
const RECORD_MAX: usize = 6000;

/// Bytes that two passes take at most.
const PASSES_MAX: usize = 2 * (2 + 5 + 2 + KEY_MAX + 6 * 10);

/// A leaf, as the superblock knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafRecord {
    pub(crate) guid: u64,
    /// Whether it missed writes, and was not resilvered since.
    pub(crate) is_stale: bool,
    /// Whether an administrator took it away.
    pub(crate) is_offline: bool,
}

/// A vdev, as the superblock knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VdevRecord {
    /// Blocks of its address space that were durable.
    pub(crate) blocks: u64,
    pub(crate) leaves: Vec<LeafRecord>,
}

/// Whether a pass over all extents is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PassState {
    /// It goes on, or was interrupted, and goes on from where it was when it is asked for.
    #[default]
    Begun,
    /// It is done.
    Complete,
}

/// A scrub or a resilver: how far it is, and what it found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PassRecord {
    pub(crate) state: PassState,
    /// The dataset and the key that it is at.
    pub(crate) dataset: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) extents: u64,
    pub(crate) damaged: u64,
    pub(crate) repaired: u64,
    pub(crate) lost: u64,
    /// When it was noted: seconds since 1970.
    pub(crate) second: u64,
}

/// The devices of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolRecord {
    pub(crate) topology: Topology,
    /// By class.
    pub(crate) vdevs: Vec<Vec<VdevRecord>>,
    pub(crate) scrub: Option<PassRecord>,
    pub(crate) resilver: Option<PassRecord>,
}

impl PoolRecord {
    /// The record of a new pool, whose leaves get random numbers.
    pub(crate) fn new(topology: Topology, random: &mut dyn FnMut() -> u64) -> Self {
        let mut vdevs = Vec::new();
        for class in topology.classes() {
            let mut of_class = Vec::new();
            for vdev in &class.vdevs {
                let leaf = |random: &mut dyn FnMut() -> u64| LeafRecord {
                    guid: random(),
                    is_stale: false,
                    is_offline: false,
                };
                let leaves = vdev.leaves.iter().map(|_| leaf(random)).collect();
                of_class.push(VdevRecord { blocks: 0, leaves });
            }
            vdevs.push(of_class);
        }
        Self { topology, vdevs, scrub: None, resilver: None }
    }

    /// All leaves and their positions.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (Position, &LeafRecord)> {
        let of_vdev = |(class, vdev, record)| {
            let leaves: &[LeafRecord] = record;
            let at = move |leaf| Position { class, vdev, leaf };
            (0_u16..).zip(leaves).map(move |(leaf, record)| (at(leaf), record))
        };
        let vdevs = (0_u16..).zip(&self.vdevs).flat_map(|(class, vdevs)| {
            (0_u16..).zip(vdevs).map(move |(vdev, record)| (class, vdev, &record.leaves[..]))
        });
        vdevs.flat_map(of_vdev)
    }

    /// A leaf.
    pub(crate) fn leaf_mut(&mut self, at: Position) -> Option<&mut LeafRecord> {
        let vdev = self.vdevs.get_mut(usize::from(at.class))?.get_mut(usize::from(at.vdev))?;
        vdev.leaves.get_mut(usize::from(at.leaf))
    }

    /// Refuses a record for which a superblock has no room.
    pub(crate) fn check_len(&self) -> Result<(), Error> {
        let mut encoded = Vec::new();
        self.encode(&mut encoded);
        match encoded.len() + PASSES_MAX {
            ..=RECORD_MAX => Ok(()),
            len => Err(Error::TopologyTooLong { len, max: RECORD_MAX }),
        }
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        put_bytes(to, self.topology.to_string().as_bytes());
        for vdev in self.vdevs.iter().flatten() {
            put_varint(to, vdev.blocks);
            for leaf in &vdev.leaves {
                to.extend_from_slice(&leaf.guid.to_le_bytes());
                let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
                to.push(flag(leaf.is_stale, STALE) | flag(leaf.is_offline, OFFLINE));
            }
        }
        for pass in [&self.scrub, &self.resilver] {
            to.push(u8::from(pass.is_some()));
            pass.iter().for_each(|pass| pass.encode(to));
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Parsed<Self> {
        let text = std::str::from_utf8(from.bytes()?).map_err(|_| "the topology is no text")?;
        let topology: Topology = text.parse().map_err(|_| "the topology has a defect")?;
        let mut vdevs = Vec::new();
        for class in topology.classes() {
            let mut of_class = Vec::new();
            for vdev in &class.vdevs {
                let blocks = from.varint()?;
                let mut leaves = Vec::with_capacity(vdev.leaves.len());
                for _ in &vdev.leaves {
                    let (guid, flags) = (from.u64()?, from.u8()?);
                    if flags > STALE | OFFLINE {
                        return Err("a leaf has a flag that is not known");
                    }
                    let (is_stale, is_offline) = (flags & STALE != 0, flags & OFFLINE != 0);
                    leaves.push(LeafRecord { guid, is_stale, is_offline });
                }
                of_class.push(VdevRecord { blocks, leaves });
            }
            vdevs.push(of_class);
        }
        let mut passes = [None, None];
        for pass in &mut passes {
            *pass = match from.u8()? {
                0 => None,
                1 => Some(PassRecord::decode(from)?),
                _ => return Err("a pass is neither there nor absent"),
            };
        }
        let [scrub, resilver] = passes;
        Ok(Self { topology, vdevs, scrub, resilver })
    }
}

impl PassRecord {
    fn encode(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.state == PassState::Complete));
        put_varint(to, u64::from(self.dataset));
        put_bytes(to, &self.key[..self.key.len().min(KEY_MAX)]);
        for number in
            [self.bytes, self.extents, self.damaged, self.repaired, self.lost, self.second]
        {
            put_varint(to, number);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Parsed<Self> {
        let state = match from.u8()? {
            0 => PassState::Begun,
            1 => PassState::Complete,
            _ => return Err("a pass has no state that is known"),
        };
        let (dataset, key) = (from.varint_u32()?, from.bytes()?.to_vec());
        let mut number = || from.varint();
        Ok(Self {
            state,
            dataset,
            key,
            bytes: number()?,
            extents: number()?,
            damaged: number()?,
            repaired: number()?,
            lost: number()?,
            second: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_comes_back_and_damaged_ones_are_parsed_without_panic(
            flags in prop::collection::vec(any::<(u64, bool, bool)>(), 6),
            numbers in any::<[u64; 6]>(),
            key in prop::collection::vec(any::<u8>(), 0..KEY_MAX),
            flip in any::<(prop::sample::Index, u8)>(),
        ) {
            let topology: Topology = "pmem: ; mirror /a /b parity1 /c /d /e".parse().unwrap();
            let mut record = PoolRecord::new(topology, &mut || 0);
            let places: Vec<Position> = record.leaves().map(|(at, _)| at).collect();
            prop_assert_eq!(places.len(), flags.len());
            for (at, (guid, is_stale, is_offline)) in places.into_iter().zip(flags) {
                *record.leaf_mut(at).unwrap() = LeafRecord { guid, is_stale, is_offline };
            }
            let [bytes, extents, damaged, repaired, lost, second] = numbers;
            let state = PassState::Complete;
            let pass = PassRecord { state, dataset: 7, key, bytes, extents, damaged, repaired, lost, second };
            (record.scrub, record.vdevs[1][0].blocks) = (Some(pass), bytes);
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            prop_assert_eq!(PoolRecord::decode(&mut Reader(&encoded)), Ok(record));
            for cut in 0..encoded.len() {
                prop_assert!(PoolRecord::decode(&mut Reader(&encoded[..cut])).is_err());
            }
            let at = flip.0.index(encoded.len());
            encoded[at] = flip.1;
            let _ = PoolRecord::decode(&mut Reader(&encoded));
        }
    }
}
