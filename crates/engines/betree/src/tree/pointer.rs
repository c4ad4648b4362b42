//! Pointers to stored nodes, and the form in which a node is stored.
//!
//! ```text
//! node:     level u8 | slots varint
//!           pivots: bytes, one less than slots
//!           each slot: runs varint | runs: pointers, the newest first
//!                      at level 1: 1 and the base's pointer, or 0; above: a node's pointer
//! pointer:  address u64 | blocks varint | len varint | checksum u64 | birth varint
//! ```
//!
//! The checksum of a node is in the pointer to it (the Merkle rule), seeded with the pool's seed, its place and its
//! birth: a node that was left at the place before, or that belongs elsewhere, is found.

use std::sync::Arc;

use halite_codec::{Reader, Seed, put_bytes, put_varint};

use crate::run::{Run, RunPointer};
use crate::storage::{Address, EXTENT_BYTES_MAX, Extent};
use crate::tree::node::{Link, Node, Slot};

/// Levels that a tree has at most.
const LEVEL_MAX: u8 = 32;

/// A pointer to a stored node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePointer {
    pub(crate) extent: Extent,
    /// Bytes of the node in its extent.
    pub(crate) len: u32,
    pub(crate) checksum: u64,
    pub(crate) birth: u64,
}

/// The seed of bytes that begin at a place and were born in an epoch.
pub(crate) fn seed_of(pool: Seed, address: Address, birth: u64) -> Seed {
    pool.at(address.to_bits()).numbered(birth)
}

impl NodePointer {
    /// Whether these are the node's bytes.
    pub(crate) fn fits(&self, pool: Seed, bytes: &[u8]) -> bool {
        seed_of(pool, self.extent.address, self.birth).checksum(bytes) == self.checksum
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.extent.address.to_bits().to_le_bytes());
        put_varint(to, u64::from(self.extent.blocks));
        put_varint(to, u64::from(self.len));
        to.extend_from_slice(&self.checksum.to_le_bytes());
        put_varint(to, self.birth);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, &'static str> {
        let read = |from: &mut Reader<'_>| {
            let (address, blocks) = (Address::from_bits(from.u64()?), from.varint_u32()?);
            let (len, checksum, birth) = (from.varint_u32()?, from.u64()?, from.varint()?);
            halite_codec::Result::Ok(Self {
                extent: Extent { address, blocks },
                len,
                checksum,
                birth,
            })
        };
        let pointer = read(from).map_err(|_| "a pointer to a node is cut off")?;
        let bytes = u64::from(pointer.extent.blocks) * halite_vdev::BLOCK as u64;
        if bytes > EXTENT_BYTES_MAX as u64 || u64::from(pointer.len) > bytes {
            return Err("a pointer to a node has an impossible length");
        }
        Ok(pointer)
    }
}

/// Encodes a node all of whose children are stored.
///
/// # Panics
/// If one is not.
pub(crate) fn encode(node: &Node) -> Vec<u8> {
    let mut to = vec![node.level];
    put_varint(&mut to, node.slots.len() as u64);
    node.pivots.iter().for_each(|pivot| put_bytes(&mut to, pivot));
    for slot in &node.slots {
        put_varint(&mut to, slot.runs.len() as u64);
        slot.runs.iter().for_each(|run| run.pointer().encode(&mut to));
        match &slot.link {
            Link::Leaf(None) => to.push(0),
            Link::Leaf(Some(base)) => {
                to.push(1);
                base.pointer().encode(&mut to);
            }
            Link::Stored(pointer) => pointer.encode(&mut to),
            Link::Fresh(_) => panic!("children are stored before their parents"),
        }
    }
    to
}

/// Decodes a node whose checksum was right.
///
/// # Errors
/// The reason why it is none.
pub(crate) fn decode(
    bytes: &[u8],
    open: &dyn Fn(RunPointer) -> Arc<Run>,
) -> Result<Node, &'static str> {
    const CUT_OFF: &str = "it is cut off";
    let mut from = Reader(bytes);
    let level = from.u8().map_err(|_| CUT_OFF)?;
    if level == 0 || level > LEVEL_MAX {
        return Err("it is of no level");
    }
    let slots = from.varint().map_err(|_| CUT_OFF)?;
    // A slot takes two bytes at least.
    if slots == 0 || slots > bytes.len() as u64 {
        return Err("it has an impossible number of slots");
    }
    let mut node = Node { level, pivots: Vec::new(), slots: Vec::new() };
    for _ in 1..slots {
        node.pivots.push(from.bytes().map_err(|_| CUT_OFF)?.into());
    }
    for _ in 0..slots {
        let runs = from.varint().map_err(|_| CUT_OFF)?;
        let mut slot = Slot::leaf(None);
        for _ in 0..runs {
            slot.runs.push(open(RunPointer::decode(&mut from)?));
        }
        slot.link = match level {
            1 => match from.u8().map_err(|_| CUT_OFF)? {
                0 => Link::Leaf(None),
                1 => Link::Leaf(Some(open(RunPointer::decode(&mut from)?))),
                _ => return Err("a leaf is neither there nor absent"),
            },
            _ => Link::Stored(Arc::new(NodePointer::decode(&mut from)?)),
        };
        node.slots.push(slot);
    }
    if !from.is_empty() {
        return Err("it is followed by other bytes");
    }
    node.check()?;
    Ok(node)
}
