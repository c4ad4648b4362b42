//! The framing of a stream: chunks with checksums, as backups have it.
//!
//! ```text
//! "HALITESN"  format u32   chunk ... chunk
//!
//! chunk:  kind u32 | len u32 | checksum u64 | len bytes
//! ```
//!
//! Numbers are little-endian. The first chunk is the header, the last one the end; the content between them is one run of
//! bytes, cut into chunks of up to 256 KiB. A checksum covers kind, length and bytes, and is seeded with the chunk's
//! number and, behind the header, with the stream's id: so a chunk of another stream, or from another place, fails it. The
//! *sum* of a stream is the checksum of all checksums so far, one after the other.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use halite_codec::{HEAD, Head, Seed};

use super::error::StreamError;

const MAGIC: [u8; 8] = *b"HALITESN";

/// The number of the format.
const VERSION: u32 = 1;

/// Bytes of a chunk, at most.
pub(super) const CHUNK_LEN: usize = 256 << 10;

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Header = 1,
    Content = 2,
    End = 3,
}

/// The state of a framing that both sides have.
struct Place {
    seed: Seed,
    number: u64,
    sum: u64,
}

impl Place {
    const BEGIN: Self = Self { seed: Seed::NONE, number: 0, sum: 0 };

    /// The head of the next chunk.
    fn head(&self, kind: u32, bytes: &[u8]) -> Head {
        let len = bytes.len() as u32;
        let seed = self.seed.numbered(self.number);
        let checksum = seed.checksum_of(&[&kind.to_le_bytes(), &len.to_le_bytes(), bytes]);
        Head { first: kind, second: len, checksum }
    }

    fn pass(&mut self, head: Head) {
        self.number += 1;
        self.sum = Seed::new(self.sum).checksum(&head.checksum.to_le_bytes());
    }
}

/// Writes chunks.
pub(super) struct ChunkWriter<'a> {
    out: &'a mut dyn Write,
    place: Place,
    content: Vec<u8>,
    pub(super) content_len: u64,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn begin(
        out: &'a mut dyn Write,
        id: u128,
        header: &[u8],
    ) -> Result<Self, StreamError> {
        let mut writer = Self { out, place: Place::BEGIN, content: Vec::new(), content_len: 0 };
        writer.write(&MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.chunk(Kind::Header, header)?;
        writer.place.seed = Seed::of_store(id);
        Ok(writer)
    }

    /// Adds to the content.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        self.content_len += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_LEN - self.content.len()));
            self.content.extend_from_slice(now);
            bytes = later;
            if self.content.len() == CHUNK_LEN {
                self.write_content()?;
            }
        }
        Ok(())
    }

    /// Ends the stream. `end` makes the last chunk of the sum of all before it.
    pub(super) fn finish(mut self, end: impl FnOnce(u64) -> Vec<u8>) -> Result<(), StreamError> {
        if !self.content.is_empty() {
            self.write_content()?;
        }
        let end = end(self.place.sum);
        self.chunk(Kind::End, &end)?;
        self.out.flush().map_err(|error| StreamError::Write(Arc::new(error)))
    }

    fn write_content(&mut self) -> Result<(), StreamError> {
        let content = std::mem::take(&mut self.content);
        self.chunk(Kind::Content, &content)?;
        self.content = content;
        self.content.clear();
        Ok(())
    }

    fn chunk(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), StreamError> {
        let head = self.place.head(kind as u32, bytes);
        self.write(&head.bytes())?;
        self.write(bytes)?;
        self.place.pass(head);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.out.write_all(bytes).map_err(|error| StreamError::Write(Arc::new(error)))
    }
}

/// Reads chunks, and hands on no byte of a chunk before its checksum is verified.
pub(super) struct ChunkReader<'a> {
    input: &'a mut dyn Read,
    place: Place,
}

impl<'a> ChunkReader<'a> {
    /// Reads how a stream begins; returns the header, too.
    pub(super) fn begin(input: &'a mut dyn Read) -> Result<(Self, Vec<u8>), StreamError> {
        let mut reader = Self { input, place: Place::BEGIN };
        let mut magic = [0; MAGIC.len()];
        let len = reader.fill(&mut magic)?;
        if len == 0 {
            return Err(StreamError::Empty);
        }
        if magic[..len] != MAGIC[..len] {
            return Err(StreamError::Foreign);
        }
        if len < MAGIC.len() {
            return Err(StreamError::Truncated { chunk: 0 });
        }
        let mut version = [0; 4];
        reader.read_exact(&mut version)?;
        let found = u32::from_le_bytes(version);
        if found != VERSION {
            return Err(StreamError::Version { found, known: VERSION });
        }
        let mut header = Vec::new();
        match reader.next(&mut header)? {
            Kind::Header => Ok((reader, header)),
            _ => Err(reader.damaged("it does not begin with its header")),
        }
    }

    /// The id of the stream, which the checksums of all further chunks are seeded with.
    pub(super) fn set_id(&mut self, id: u128) {
        self.place.seed = Seed::of_store(id);
    }

    /// The sum of the chunks that were read.
    pub(super) fn sum(&self) -> u64 {
        self.place.sum
    }

    /// Reads the next chunk, and puts its bytes in the place of others.
    pub(super) fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Kind, StreamError> {
        let mut head = [0; HEAD];
        self.read_exact(&mut head)?;
        let stored = Head::of_bytes(&head);
        let kind = match stored.first {
            1 if self.place.number == 0 => Kind::Header,
            2 if self.place.number > 0 => Kind::Content,
            3 if self.place.number > 0 => Kind::End,
            _ => return Err(self.damaged("a chunk is of no kind that there is")),
        };
        let len = stored.second as usize;
        if len > CHUNK_LEN {
            return Err(self.damaged("a chunk is longer than chunks are"));
        }
        bytes.clear();
        bytes.resize(len, 0);
        self.read_exact(bytes)?;
        let head = self.place.head(stored.first, bytes);
        if head != stored {
            return Err(self.damaged("a chunk does not have its checksum"));
        }
        self.place.pass(head);
        Ok(kind)
    }

    /// Checks that nothing follows.
    pub(super) fn check_end(&mut self) -> Result<(), StreamError> {
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged("there is something behind its end")),
        }
    }

    /// The error of the chunk that was to be read.
    pub(super) fn damaged(&self, why: &'static str) -> StreamError {
        StreamError::Damaged { chunk: self.place.number, why }
    }

    fn read_exact(&mut self, out: &mut [u8]) -> Result<(), StreamError> {
        match self.fill(out)? {
            len if len == out.len() => Ok(()),
            _ => Err(StreamError::Truncated { chunk: self.place.number }),
        }
    }

    /// Reads until `out` is full, or the input ends. Returns how many bytes.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, StreamError> {
        let mut len = 0;
        while len < out.len() {
            match self.input.read(&mut out[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(StreamError::Read(Arc::new(error))),
            }
        }
        Ok(len)
    }
}
