//! The content of a stream: what becomes of keys, in their order, each at most once.
//!
//! ```text
//! 1 | key | value       the key has the value
//! 2 | key               the key is deleted
//! 3 | start | end       all keys from the start on, below the end, are deleted
//! end                   puts u64 | deletes u64 | ranges u64 | bytes of the content u64 | sum of the chunks u64
//! ```
//!
//! Keys and values lie behind their lengths, as varints. A value may be longer than memory: both sides pass it on in
//! pieces.

use halite_codec::{Reader, put_bytes, put_varint};
use halite_contract::{KEY_LEN_MAX, TransferReport};

use super::chunks::{ChunkReader, ChunkWriter, Kind};
use super::error::StreamError;
use super::header::Header;
use crate::dataset::copy::GROWTH_MAX;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const RANGE: u8 = 3;

/// Bytes of a key, at most: one behind the longest ends a range.
pub(super) const KEY_MAX: usize = KEY_LEN_MAX + GROWTH_MAX + 1;

/// Bytes of a value, at most.
const VALUE_MAX: u64 = 1 << 30;

/// An operation. Of a put, the value follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put { key: Vec<u8>, len: u64 },
    Delete { key: Vec<u8> },
    Range { start: Vec<u8>, end: Vec<u8> },
}

impl Operation {
    /// The first key that it is about.
    fn first(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Range { start: key, .. } => key,
        }
    }

    /// The first key behind those that it is about.
    pub(super) fn behind(&self) -> Vec<u8> {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => behind(key),
            Self::Range { end, .. } => end.clone(),
        }
    }
}

/// The next key.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

fn end_of(report: &TransferReport, sum: u64) -> Vec<u8> {
    let numbers = [report.puts, report.deletes, report.ranges, report.bytes, sum];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Writes operations.
pub(super) struct ContentWriter<'a> {
    chunks: ChunkWriter<'a>,
    pub(super) report: TransferReport,
}

impl<'a> ContentWriter<'a> {
    pub(super) fn begin(
        out: &'a mut dyn std::io::Write,
        header: &Header,
    ) -> Result<Self, StreamError> {
        let chunks = ChunkWriter::begin(out, header.id, &header.encode())?;
        Ok(Self { chunks, report: TransferReport::default() })
    }

    /// Begins a put; the value's bytes follow.
    pub(super) fn put(&mut self, key: &[u8], len: u64) -> Result<(), StreamError> {
        self.report.puts += 1;
        let mut head = vec![PUT];
        put_bytes(&mut head, key);
        put_varint(&mut head, len);
        self.add(&head)
    }

    /// Adds bytes of a value.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.chunks.add(bytes)?;
        self.report.bytes = self.chunks.content_len;
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), StreamError> {
        self.report.deletes += 1;
        let mut head = vec![DELETE];
        put_bytes(&mut head, key);
        self.add(&head)
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), StreamError> {
        self.report.ranges += 1;
        let mut head = vec![RANGE];
        put_bytes(&mut head, start);
        put_bytes(&mut head, end);
        self.add(&head)
    }

    pub(super) fn finish(self) -> Result<TransferReport, StreamError> {
        let report = self.report;
        self.chunks.finish(|sum| end_of(&report, sum))?;
        Ok(report)
    }
}

/// Reads operations.
pub(super) struct ContentReader<'a> {
    chunks: ChunkReader<'a>,
    bytes: Vec<u8>,
    at: usize,
    pub(super) report: TransferReport,
    /// Bytes of the value that was not read yet.
    left: u64,
    /// The least key that the next operation may be about.
    least: Vec<u8>,
    /// The last chunk, and the sum of those before it.
    end: Option<(Vec<u8>, u64)>,
}

impl<'a> ContentReader<'a> {
    /// Reads how a stream begins.
    pub(super) fn begin(input: &'a mut dyn std::io::Read) -> Result<(Self, Header), StreamError> {
        let (mut chunks, bytes) = ChunkReader::begin(input)?;
        let header = Header::decode(&bytes);
        let header =
            header.ok_or_else(|| chunks.damaged("the header says nothing that is known"))?;
        chunks.set_id(header.id);
        let reader = Self {
            chunks,
            bytes: Vec::new(),
            at: 0,
            report: TransferReport::default(),
            left: 0,
            least: header.part.start.clone().unwrap_or_default(),
            end: None,
        };
        Ok((reader, header))
    }

    /// The next operation; `None` at the end, when the whole stream was verified. The value of the one before was read.
    pub(super) fn next(&mut self) -> Result<Option<Operation>, StreamError> {
        assert_eq!(self.left, 0, "the value was read");
        if self.at == self.bytes.len() && !self.read_more()? {
            return self.check_end().map(|()| None);
        }
        let operation = match self.u8()? {
            PUT => {
                let (key, len) = (self.key()?, self.varint()?);
                if len > VALUE_MAX {
                    return Err(self.chunks.damaged("a value is longer than any"));
                }
                self.left = len;
                self.report.puts += 1;
                Operation::Put { key, len }
            }
            DELETE => {
                self.report.deletes += 1;
                Operation::Delete { key: self.key()? }
            }
            RANGE => {
                self.report.ranges += 1;
                let (start, end) = (self.key()?, self.key()?);
                if start >= end {
                    return Err(self.chunks.damaged("a range has no key"));
                }
                Operation::Range { start, end }
            }
            _ => return Err(self.chunks.damaged("an operation is of no kind that there is")),
        };
        if *operation.first() < self.least[..] {
            return Err(self.chunks.damaged("its keys are not in order"));
        }
        self.least = operation.behind();
        Ok(Some(operation))
    }

    /// Reads the next bytes of a value, up to a length. Empty at its end.
    pub(super) fn value(&mut self, to: &mut Vec<u8>, len: usize) -> Result<(), StreamError> {
        to.clear();
        let len = self.left.min(len as u64) as usize;
        while to.len() < len {
            let bytes = self.some(len - to.len())?;
            to.extend_from_slice(bytes);
        }
        self.left -= len as u64;
        Ok(())
    }

    /// The error of the chunk that was to be read.
    pub(super) fn damaged(&self, why: &'static str) -> StreamError {
        self.chunks.damaged(why)
    }

    fn u8(&mut self) -> Result<u8, StreamError> {
        Ok(self.some(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, StreamError> {
        let mut bytes = Vec::new();
        loop {
            bytes.push(self.u8()?);
            if bytes.last().is_some_and(|byte| byte & 0x80 == 0) || bytes.len() > 9 {
                break;
            }
        }
        let number = Reader(&bytes).varint();
        number.map_err(|_| self.chunks.damaged("a length is none"))
    }

    fn key(&mut self) -> Result<Vec<u8>, StreamError> {
        let len = self.varint()?;
        if len > KEY_MAX as u64 {
            return Err(self.chunks.damaged("a key is longer than any"));
        }
        let mut key = Vec::with_capacity(len as usize);
        while key.len() < len as usize {
            let bytes = self.some(len as usize - key.len())?;
            key.extend_from_slice(bytes);
        }
        Ok(key)
    }

    /// The next bytes, at least one, and at most so many.
    fn some(&mut self, len: usize) -> Result<&[u8], StreamError> {
        if self.at == self.bytes.len() && !self.read_more()? {
            return Err(self.chunks.damaged("an operation is cut off"));
        }
        let len = len.min(self.bytes.len() - self.at);
        self.at += len;
        Ok(&self.bytes[self.at - len..self.at])
    }

    /// Reads the next chunk with content. Returns whether there is one.
    fn read_more(&mut self) -> Result<bool, StreamError> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.at = 0;
        let sum = self.chunks.sum();
        match self.chunks.next(&mut self.bytes)? {
            Kind::Content if self.bytes.is_empty() => Err(self.chunks.damaged("a chunk is empty")),
            Kind::Content => {
                self.report.bytes += self.bytes.len() as u64;
                Ok(true)
            }
            _ => {
                self.end = Some((std::mem::take(&mut self.bytes), sum));
                Ok(false)
            }
        }
    }

    fn check_end(&mut self) -> Result<(), StreamError> {
        if let Some((end, sum)) = &self.end
            && *end != end_of(&self.report, *sum)
        {
            return Err(self.chunks.damaged("its end does not fit what is before it"));
        }
        self.chunks.check_end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::StreamPart;
    use super::*;

    fn header(id: u128) -> Header {
        let part = StreamPart { identity: 5, from: None, start: None };
        let name = String::from("name");
        Header { id, pool: 1, dataset: name.clone(), snapshot: name.clone(), from: name, part }
    }

    fn stream(id: u128) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ContentWriter::begin(&mut out, &header(id)).unwrap();
        writer.put(b"a", 3).unwrap();
        writer.add(b"xyz").unwrap();
        writer.delete(b"b").unwrap();
        writer.delete_range(b"c", b"d").unwrap();
        writer.put(b"d", 300_000).unwrap();
        (0..3).for_each(|_| writer.add(&[7; 100_000]).unwrap());
        writer.finish().unwrap();
        out
    }

    fn read(mut bytes: &[u8]) -> Result<TransferReport, StreamError> {
        let (mut reader, _) = ContentReader::begin(&mut bytes)?;
        let mut value = Vec::new();
        while reader.next()?.is_some() {
            loop {
                reader.value(&mut value, 70_000)?;
                if value.is_empty() {
                    break;
                }
            }
        }
        Ok(reader.report)
    }

    #[test]
    fn a_stream_is_whole_or_refused() {
        let whole = stream(3);
        let report = read(&whole).unwrap();
        assert_eq!((report.puts, report.deletes, report.ranges), (2, 1, 1));
        for cut in (0..whole.len()).step_by(997).chain(0..200).chain(whole.len() - 100..whole.len())
        {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        for at in (0..whole.len()).step_by(499).chain(0..200) {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "{at}");
            }
        }
        assert!(matches!(read(&[&whole[..], &[0]].concat()), Err(StreamError::Damaged { .. })));
        assert!(matches!(read(b""), Err(StreamError::Empty)));
        assert!(matches!(read(b"something"), Err(StreamError::Foreign)));
        // The chunks of another stream, of the same content.
        let (other, head) = (stream(4), 12 + 16 + header(3).encode().len());
        let mixed = [&whole[..head], &other[head..]].concat();
        assert!(matches!(read(&mixed), Err(StreamError::Damaged { .. })));
    }
}
