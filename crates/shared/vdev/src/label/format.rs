//! The bytes of a label.
//!
//! ```text
//! 0    magic, 8 bytes
//! 8    checksum of all bytes behind it, seeded with the magic and the slot's number
//! 16   format version, u32            these four fields and the checksum have their places
//! 20   length of the payload, u32     in every version
//! 24   incompatible features, u64     a reader that lacks one does not open the pool
//! 32   compatible features, u64
//! 40   pool uuid, u128
//! 56   leaf guid, u64
//! 64   generation, u64
//! 72   position: class u16, vdev u16, leaf u16; count of epochs u16
//! 80   16 epochs: session u64, first generation u64
//! 336  payload, then zeros up to 8 KiB
//! ```
//!
//! All numbers are little-endian.

use halite_codec::{Reader, Seed};

use crate::{BLOCK, Error, Result};

/// Slots of a leaf's ring.
pub const LABEL_SLOTS: u64 = 32;

/// Bytes of a slot.
pub(super) const SLOT: usize = 2 * BLOCK;

/// The most epochs of a label.
pub const EPOCHS_MAX: usize = 16;

const PAYLOAD: usize = 80 + EPOCHS_MAX * 16;

/// The most bytes of a label's payload.
pub const LABEL_PAYLOAD_MAX: usize = SLOT - PAYLOAD;

const MAGIC: u64 = u64::from_le_bytes(*b"HALVDEV\0");
const VERSION: u32 = 1;

/// Where a leaf is in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The storage class.
    pub class: u16,
    /// The vdev in it.
    pub vdev: u16,
    /// The leaf of that.
    pub leaf: u16,
}

/// A time in which one process had the pool open for writing: its random number, and the first generation that it
/// wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// The random number.
    pub session: u64,
    /// The generation.
    pub first_generation: u64,
}

/// A superblock, with what tells whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The pool.
    pub pool: u128,
    /// The leaf: a random number that tells it from all others.
    pub guid: u64,
    /// Where the leaf is in the pool.
    pub position: Position,
    /// Features, as bits, that a program has to know to open the pool.
    pub incompatible: u64,
    /// Features, as bits, that a program may ignore.
    pub compatible: u64,
    /// Rises with every label of the pool.
    pub generation: u64,
    /// The last sessions, the oldest first; the last one wrote this label. At most [`EPOCHS_MAX`].
    pub epochs: Vec<Epoch>,
    /// The bytes of the layer above, at most [`LABEL_PAYLOAD_MAX`].
    pub payload: Vec<u8>,
}

/// The encoded label, and where it belongs in the label area.
pub(crate) struct Slot {
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Why a slot has no label that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// It was never written.
    Blank,
    /// It holds something else.
    Magic,
    Checksum,
    /// A field contradicts the slot or the others.
    Field(&'static str),
    /// A newer program wrote it, with these incompatible features.
    Newer {
        version: u32,
        incompatible: u64,
    },
}

fn seed(slot: u64) -> Seed {
    Seed::new(MAGIC).at(slot + 1)
}

impl Label {
    /// The session that wrote it.
    pub(super) fn session(&self) -> Option<u64> {
        self.epochs.last().map(|epoch| epoch.session)
    }

    pub(crate) fn encode(&self) -> Result<Slot> {
        if self.payload.len() > LABEL_PAYLOAD_MAX {
            return Err(Error::LabelTooLong { len: self.payload.len(), max: LABEL_PAYLOAD_MAX });
        }
        let first = self.epochs.len().saturating_sub(EPOCHS_MAX);
        let epochs = &self.epochs[first..];
        let mut bytes = vec![0; 16];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.incompatible.to_le_bytes());
        bytes.extend_from_slice(&self.compatible.to_le_bytes());
        bytes.extend_from_slice(&self.pool.to_le_bytes());
        bytes.extend_from_slice(&self.guid.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        let Position { class, vdev, leaf } = self.position;
        for number in [class, vdev, leaf, epochs.len() as u16] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for epoch in epochs {
            bytes.extend_from_slice(&epoch.session.to_le_bytes());
            bytes.extend_from_slice(&epoch.first_generation.to_le_bytes());
        }
        bytes.resize(PAYLOAD, 0);
        bytes.extend_from_slice(&self.payload);
        bytes.resize(SLOT, 0);
        let slot = self.generation % LABEL_SLOTS;
        let checksum = seed(slot).checksum(&bytes[16..]);
        bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
        Ok(Slot { at: slot as usize * SLOT, bytes })
    }

    /// Reads the label of a slot.
    pub(super) fn decode(slot: u64, bytes: &[u8]) -> std::result::Result<Self, Defect> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(Defect::Blank);
        }
        let mut reader = Reader(bytes);
        let short = |_| Defect::Field("it is too short");
        if reader.u64().map_err(short)? != MAGIC {
            return Err(Defect::Magic);
        }
        let checksum = reader.u64().map_err(short)?;
        if checksum != seed(slot).checksum(reader.0) {
            return Err(Defect::Checksum);
        }
        let (version, len) = (reader.u32().map_err(short)?, reader.u32().map_err(short)?);
        let incompatible = reader.u64().map_err(short)?;
        if version > VERSION {
            return Err(Defect::Newer { version, incompatible });
        }
        let compatible = reader.u64().map_err(short)?;
        let (pool, guid) = (reader.u128().map_err(short)?, reader.u64().map_err(short)?);
        let generation = reader.u64().map_err(short)?;
        let mut number = || reader.u16().map_err(short);
        let position = Position { class: number()?, vdev: number()?, leaf: number()? };
        let count = usize::from(number()?);
        if generation % LABEL_SLOTS != slot {
            return Err(Defect::Field("its generation belongs in another slot"));
        }
        if count > EPOCHS_MAX {
            return Err(Defect::Field("it has too many epochs"));
        }
        let mut epochs = Vec::with_capacity(count);
        for _ in 0..count {
            let (session, first) = (reader.u64().map_err(short)?, reader.u64().map_err(short)?);
            epochs.push(Epoch { session, first_generation: first });
        }
        let ascend = epochs.is_sorted_by(|a, b| a.first_generation < b.first_generation);
        if !ascend || epochs.last().is_some_and(|last| last.first_generation > generation) {
            return Err(Defect::Field("its epochs are not in order"));
        }
        let payload = bytes.get(PAYLOAD..).and_then(|payload| payload.get(..len as usize));
        let payload = payload.ok_or(Defect::Field("its payload is too long"))?.to_vec();
        Ok(Self { pool, guid, position, incompatible, compatible, generation, epochs, payload })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn label(generation: u64) -> Label {
        Label {
            pool: 7,
            guid: 8,
            position: Position { class: 1, vdev: 2, leaf: 3 },
            incompatible: 1,
            compatible: 2,
            generation,
            epochs: vec![Epoch { session: 9, first_generation: 0 }],
            payload: b"payload".to_vec(),
        }
    }

    #[test]
    fn every_changed_byte_and_every_other_slot_is_told() {
        let slot = label(5).encode().unwrap();
        assert_eq!((slot.at, slot.bytes.len()), (5 * SLOT, SLOT));
        assert_eq!(Label::decode(5, &slot.bytes), Ok(label(5)));
        assert_eq!(Label::decode(6, &slot.bytes), Err(Defect::Checksum));
        assert_eq!(Label::decode(5, &[0; SLOT]), Err(Defect::Blank));
        let mut bytes = slot.bytes.clone();
        for at in 0..SLOT {
            bytes[at] ^= 1;
            assert!(Label::decode(5, &bytes).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn a_newer_format_is_named_with_its_features() {
        let mut bytes = label(5).encode().unwrap().bytes;
        bytes[16] = 2;
        let checksum = seed(5).checksum(&bytes[16..]);
        bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Label::decode(5, &bytes), Err(Defect::Newer { version: 2, incompatible: 1 }));
    }

    #[test]
    fn a_payload_is_bounded_and_epochs_are_the_last() {
        let mut long = label(40);
        long.payload = vec![1; LABEL_PAYLOAD_MAX];
        long.epochs = (0..20).map(|at| Epoch { session: at, first_generation: at }).collect();
        let read = Label::decode(8, &long.encode().unwrap().bytes).unwrap();
        assert_eq!((&read.payload, &read.epochs[..]), (&long.payload, &long.epochs[4..]));
        long.payload.push(1);
        assert!(matches!(long.encode(), Err(Error::LabelTooLong { .. })));
    }

    proptest! {
        /// With a right checksum, so that the fields themselves are attacked.
        #[test]
        fn no_fields_lead_to_a_panic(fields in prop::collection::vec(any::<u8>(), 100), slot in 0..LABEL_SLOTS) {
            let mut bytes = label(5).encode().unwrap().bytes;
            bytes[16..116].copy_from_slice(&fields);
            bytes[16..20].copy_from_slice(&1_u32.to_le_bytes());
            let checksum = seed(slot).checksum(&bytes[16..]);
            bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
            let _ = Label::decode(slot, &bytes);
        }
    }
}
