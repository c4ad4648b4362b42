//! The content of a backup: its header, and the operations that rebuild its key spaces and pairs.
//!
//! ```text
//! header     id (16) parent (16)  created (8)  change log (8)
//!            history (16)  n (4)  n positions (8 each)
//!            ranges? (1)  partitions (4)  bounds: len (4) and bytes, each
//! operation  tag (1)  and, depending on the tag:
//!            key space (4) or partition (4)   len (4) and bytes, once or twice
//! end        operations (8)  bytes of them (8)
//! ```
//!
//! A full backup creates its key spaces and puts all pairs. An incremental backup holds the changes of each partition
//! of the database, those of the first partition first: that partition's changes include the key spaces'. A range is
//! deleted in each partition by itself, in the order of that partition's changes.

use std::io::{Read, Write};

use halite_contract::{
    ChangeOp, KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, KeySpaceId, Partitioning, Positions,
    VALUE_LEN_MAX,
};

use super::chunks::{ChunkReader, ChunkWriter, Kind};
use super::{BackupError, BackupInfo};

/// The most partitions of a header.
const PARTITIONS_MAX: u32 = 1 << 16;

const CREATE: u8 = 1;
const DROP: u8 = 2;
const PUT: u8 = 3;
const DELETE: u8 = 4;
const DELETE_FROM: u8 = 5;
const DELETE_RANGE: u8 = 6;
const PARTITION: u8 = 7;

/// The longest bounds of a range: an engine may take longer ones than keys.
const BOUND_LEN_MAX: usize = VALUE_LEN_MAX;

impl BackupInfo {
    /// The bytes with which the backup's header describes it, to be decoded elsewhere with [`BackupInfo::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.id.to_le_bytes());
        out.extend(self.parent.unwrap_or_default().to_le_bytes());
        out.extend(self.created.to_le_bytes());
        out.extend(self.change_log.map_or(0, |bytes| bytes.saturating_add(1)).to_le_bytes());
        let positions = self.positions.as_ref();
        out.extend(positions.map_or(0, |positions| positions.history).to_le_bytes());
        let partitions = positions.map_or(&[][..], |positions| &positions.partitions);
        out.extend((partitions.len() as u32).to_le_bytes());
        partitions.iter().for_each(|position| out.extend(position.to_le_bytes()));
        let bounds = match &self.partitioning {
            Partitioning::Hash(_) => &[][..],
            Partitioning::Ranges(bounds) => bounds,
        };
        out.push(u8::from(matches!(self.partitioning, Partitioning::Ranges(_))));
        out.extend((self.partitioning.count() as u32).to_le_bytes());
        for bound in bounds {
            out.extend((bound.len() as u32).to_le_bytes());
            out.extend(bound);
        }
        out
    }

    /// Decodes the bytes of [`BackupInfo::encode`]; `None` if they are not such an encoding.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let from = &mut &bytes[..];
        let (id, parent) = (u128::from_le_bytes(take(from)?), u128::from_le_bytes(take(from)?));
        let created = u64::from_le_bytes(take(from)?);
        let change_log = u64::from_le_bytes(take(from)?);
        let history = u128::from_le_bytes(take(from)?);
        let count = u32::from_le_bytes(take(from)?);
        let mut partitions = Vec::new();
        for _ in 0..count {
            partitions.push(u64::from_le_bytes(take(from)?));
        }
        let [ranges] = take(from)?;
        let spread = u32::from_le_bytes(take(from)?);
        if !(1..=PARTITIONS_MAX).contains(&spread) || (count > 0 && count != spread) {
            return None;
        }
        let partitioning = if ranges == 1 {
            let mut bounds = Vec::new();
            for _ in 1..spread {
                let len = u32::from_le_bytes(take(from)?);
                bounds.push(from.split_off(..len as usize)?.to_vec());
            }
            Partitioning::Ranges(bounds)
        } else {
            Partitioning::Hash(spread as usize)
        };
        partitioning.check(PARTITIONS_MAX as usize).ok()?;
        let info = Self {
            id,
            parent: Some(parent).filter(|parent| *parent != 0),
            created,
            partitioning,
            change_log: change_log.checked_sub(1),
            positions: (count > 0).then_some(Positions { history, partitions }),
        };
        (info.encode() == bytes).then_some(info)
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

/// Writes operations.
pub(super) struct ContentWriter<W> {
    chunks: ChunkWriter<W>,
    operations: u64,
}

impl<W: Write> ContentWriter<W> {
    pub(super) fn begin(out: W, info: &BackupInfo) -> Result<Self, BackupError> {
        Ok(Self { chunks: ChunkWriter::begin(out, info.id, &info.encode())?, operations: 0 })
    }

    /// The operations that follow are changes of this partition.
    pub(super) fn partition(&mut self, number: usize) -> Result<(), BackupError> {
        self.head(PARTITION, number as u32)
    }

    pub(super) fn create(&mut self, space: KeySpaceId, name: &str) -> Result<(), BackupError> {
        self.operation(CREATE, space.0, [name.as_bytes()])
    }

    pub(super) fn put(
        &mut self,
        space: KeySpaceId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), BackupError> {
        self.operation(PUT, space.0, [key, value])
    }

    pub(super) fn change(&mut self, op: &ChangeOp) -> Result<(), BackupError> {
        match op {
            ChangeOp::CreateKeySpace { space, name } => self.create(*space, name),
            ChangeOp::DropKeySpace { name } => self.operation(DROP, 0, [name.as_bytes()]),
            ChangeOp::Put { space, key, value } => self.put(*space, key, value),
            ChangeOp::Delete { space, key } => self.operation(DELETE, space.0, [&key[..]]),
            ChangeOp::DeleteRange { space, start, end: None } => {
                self.operation(DELETE_FROM, space.0, [&start[..]])
            }
            ChangeOp::DeleteRange { space, start, end: Some(end) } => {
                self.operation(DELETE_RANGE, space.0, [&start[..], &end[..]])
            }
            // A later change holds the key's new state.
            _ => Ok(()),
        }
    }

    /// Returns how many operations there are, and the length of the backup.
    pub(super) fn finish(self) -> Result<(u64, u64), BackupError> {
        let mut end = self.operations.to_le_bytes().to_vec();
        end.extend(self.chunks.contents_len.to_le_bytes());
        Ok((self.operations, self.chunks.finish(&end)?))
    }

    fn operation<const N: usize>(
        &mut self,
        tag: u8,
        number: u32,
        parts: [&[u8]; N],
    ) -> Result<(), BackupError> {
        self.operations += 1;
        self.head(tag, number)?;
        for part in parts {
            self.chunks.add(&(part.len() as u32).to_le_bytes())?;
        }
        parts.into_iter().try_for_each(|part| self.chunks.add(part))
    }

    fn head(&mut self, tag: u8, number: u32) -> Result<(), BackupError> {
        self.chunks.add(&[tag])?;
        self.chunks.add(&number.to_le_bytes())
    }
}

/// An item of a backup's content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The operations that follow are changes of this partition.
    Partition(usize),
    /// An operation.
    Op(ChangeOp),
}

/// Reads operations.
pub(super) struct ContentReader<R> {
    chunks: ChunkReader<R>,
    /// Bytes that were read from chunks, from `at` on not yet from here.
    bytes: Vec<u8>,
    at: usize,
    taken: u64,
    operations: u64,
    /// The content of the last chunk, once it was read.
    end: Option<Vec<u8>>,
}

impl<R: Read> ContentReader<R> {
    /// Reads how a backup begins.
    pub(super) fn begin(input: R) -> Result<(Self, BackupInfo), BackupError> {
        let (mut chunks, header) = ChunkReader::begin(input)?;
        let info = BackupInfo::decode(&header);
        let info = info.ok_or_else(|| chunks.damaged("the header says nothing that is known"))?;
        chunks.set_id(info.id);
        let (bytes, at, taken, operations, end) = (Vec::new(), 0, 0, 0, None);
        Ok((Self { chunks, bytes, at, taken, operations, end }, info))
    }

    /// How many operations were read, and their length in bytes.
    pub(super) fn read_so_far(&self) -> (u64, u64) {
        (self.operations, self.chunks.bytes)
    }

    /// The next item; `None` at the end, after the whole backup was verified.
    pub(super) fn next(&mut self) -> Result<Option<Item>, BackupError> {
        if self.available() == 0 && !self.read_more()? {
            return self.check_end().map(|()| None);
        }
        let [tag] = self.array()?;
        let number = u32::from_le_bytes(self.array()?);
        if tag == PARTITION {
            return Ok(Some(Item::Partition(number as usize)));
        }
        let space = KeySpaceId(number);
        self.operations += 1;
        Ok(Some(Item::Op(match tag {
            CREATE => ChangeOp::CreateKeySpace { space, name: self.name()? },
            DROP => ChangeOp::DropKeySpace { name: self.name()? },
            PUT => {
                let [key, value] = self.parts([KEY_LEN_MAX, VALUE_LEN_MAX])?;
                ChangeOp::Put { space, key, value }
            }
            DELETE => {
                let [key] = self.parts([KEY_LEN_MAX])?;
                ChangeOp::Delete { space, key }
            }
            DELETE_FROM => {
                let [start] = self.parts([BOUND_LEN_MAX])?;
                ChangeOp::DeleteRange { space, start, end: None }
            }
            DELETE_RANGE => {
                let [start, end] = self.parts([BOUND_LEN_MAX; 2])?;
                ChangeOp::DeleteRange { space, start, end: Some(end) }
            }
            _ => return Err(self.chunks.damaged("an operation is none that is known")),
        })))
    }

    fn check_end(&mut self) -> Result<(), BackupError> {
        let said = self.end.as_deref().unwrap_or_default();
        let mut expected = self.operations.to_le_bytes().to_vec();
        expected.extend(self.taken.to_le_bytes());
        if said != expected {
            return Err(self.chunks.damaged("there is not as much in it as its end says"));
        }
        self.chunks.check_end()
    }

    fn name(&mut self) -> Result<String, BackupError> {
        let [name] = self.parts([KEY_SPACE_NAME_LEN_MAX])?;
        let damaged = |_| self.chunks.damaged("the name of a key space is not text");
        String::from_utf8(name).map_err(damaged)
    }

    /// Byte strings of limited lengths.
    fn parts<const N: usize>(&mut self, limits: [usize; N]) -> Result<[Vec<u8>; N], BackupError> {
        let mut lens = [0; N];
        for (len, limit) in lens.iter_mut().zip(limits) {
            *len = u32::from_le_bytes(self.array()?) as usize;
            if *len > limit {
                return Err(self.chunks.damaged("a key or a value is longer than may be"));
            }
        }
        let mut parts = [const { Vec::new() }; N];
        for (part, len) in parts.iter_mut().zip(lens) {
            self.read_into(part, len)?;
        }
        Ok(parts)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BackupError> {
        let mut bytes = Vec::with_capacity(N);
        self.read_into(&mut bytes, N)?;
        let mut array = [0; N];
        array.copy_from_slice(&bytes);
        Ok(array)
    }

    fn read_into(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), BackupError> {
        while out.len() < len {
            if self.available() == 0 && !self.read_more()? {
                return Err(self.chunks.damaged("it ends within an operation"));
            }
            let now = (len - out.len()).min(self.available());
            out.extend_from_slice(&self.bytes[self.at..self.at + now]);
            self.at += now;
            self.taken += now as u64;
        }
        Ok(())
    }

    fn available(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads chunks until there are contents again. Returns false at the end.
    fn read_more(&mut self) -> Result<bool, BackupError> {
        while self.end.is_none() && self.available() == 0 {
            self.bytes.clear();
            self.at = 0;
            if self.chunks.next(&mut self.bytes)? == Kind::End {
                self.end = Some(std::mem::take(&mut self.bytes));
            }
        }
        Ok(self.available() > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BackupReader, Database};

    fn header(partitioning: Partitioning, positions: Option<Positions>) -> BackupInfo {
        let (id, parent, created, change_log) = (7, Some(5), 9, Some(0));
        BackupInfo { id, parent, created, partitioning, change_log, positions }
    }

    #[test]
    fn a_header_reads_back_and_no_part_of_it_does() {
        let positions = Positions { history: 3, partitions: vec![1, u64::MAX] };
        let ranges = Partitioning::Ranges(vec![b"m".to_vec()]);
        for info in [
            header(Partitioning::Hash(2), Some(positions.clone())),
            header(ranges, Some(positions)),
            BackupInfo { parent: None, change_log: None, ..header(Partitioning::Hash(9), None) },
        ] {
            let bytes = info.encode();
            assert_eq!(BackupInfo::decode(&bytes), Some(info));
            for len in 0..bytes.len() {
                assert_eq!(BackupInfo::decode(&bytes[..len]), None, "{len} of {}", bytes.len());
            }
            assert_eq!(BackupInfo::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    /// Parts of operations, right ones and others.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let len = prop_oneof![0..9_u32, Just(u32::MAX)];
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..9),
            (0..10_u8, 0..4_u32)
                .prop_map(|(tag, number)| { [&[tag][..], &number.to_le_bytes()].concat() }),
            len.prop_map(|len| len.to_le_bytes().to_vec()),
        ]
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(info) = BackupInfo::decode(&bytes) {
                prop_assert_eq!(info.encode(), bytes);
            }
        }

        #[test]
        fn any_contents_are_restored_or_refused(parts in prop::collection::vec(part(), 0..60)) {
            let info = BackupInfo { parent: None, ..header(Partitioning::Hash(2), None) };
            let mut out = Vec::new();
            let mut chunks = ChunkWriter::begin(&mut out, info.id, &info.encode()).unwrap();
            chunks.add(&parts.concat()).unwrap();
            chunks.finish(&[0; 16]).unwrap();
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let reader = BackupReader::new(&out[..]).unwrap();
            let builder = Database::builder().max_size(32 << 20);
            let restored = builder.restore(folder.path().join("data"), vec![reader], false);
            prop_assert_eq!(restored.is_ok(), folder.path().join("data").exists());
        }

        #[test]
        fn operations_read_back(
            ops in prop::collection::vec((0..4_u32, prop::collection::vec(any::<u8>(), 0..90)), 0..40),
            large in prop::option::of(200_000..900_000_usize),
        ) {
            let info = header(Partitioning::Hash(1), None);
            let mut out = Vec::new();
            let mut writer = ContentWriter::begin(&mut out, &info).unwrap();
            let space = KeySpaceId(1);
            let mut expected = Vec::new();
            for (number, bytes) in ops {
                let op = match number {
                    0 => ChangeOp::Put { space, key: bytes.clone(), value: bytes },
                    1 => ChangeOp::Delete { space, key: bytes },
                    2 => ChangeOp::DeleteRange { space, start: bytes, end: None },
                    _ => ChangeOp::DeleteRange { space, start: bytes.clone(), end: Some(bytes) },
                };
                expected.push(Item::Op(op));
            }
            let value = large.map(|len| vec![1; len]);
            expected.extend(value.map(|value| {
                Item::Op(ChangeOp::Put { space, key: b"large".to_vec(), value })
            }));
            writer.partition(3).unwrap();
            for item in &expected {
                let Item::Op(op) = item else { continue };
                writer.change(op).unwrap();
            }
            writer.change(&ChangeOp::Superseded { space, key: vec![] }).unwrap();
            let (operations, len) = writer.finish().unwrap();
            prop_assert_eq!((operations, len), (expected.len() as u64, out.len() as u64));
            let (mut reader, read) = ContentReader::begin(&out[..]).unwrap();
            prop_assert_eq!(read, info);
            prop_assert_eq!(reader.next().unwrap(), Some(Item::Partition(3)));
            for item in expected {
                prop_assert_eq!(reader.next().unwrap(), Some(item));
            }
            prop_assert_eq!(reader.next().unwrap(), None);
        }
    }
}
