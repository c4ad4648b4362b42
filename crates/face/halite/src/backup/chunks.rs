//! The outer format of a backup: chunks with checksums.
//!
//! ```text
//! "HALITEBK"  format (4)   chunk ... chunk
//!
//! chunk:  kind (4)  len (4)  sum (8)   len bytes
//! ```
//!
//! Numbers are little-endian. The first chunk is the header. The content follows as one run of bytes, cut into chunks
//! of up to 256 KiB. The last chunk holds the length of that content. A checksum covers kind, length and bytes. It is
//! seeded with the chunk's number and, in every chunk but the header, with the backup's id: so a chunk of another
//! backup, or from another place, fails its checksum.

use std::io::{ErrorKind, Read, Write};

use halite_codec::{HEAD, Head, Seed};

use super::BackupError;

const MAGIC: [u8; 8] = *b"HALITEBK";

/// The number of the format.
const VERSION: u32 = 1;

/// The most bytes in a chunk of contents.
const CHUNK_LEN: usize = 256 << 10;

/// The most bytes in any chunk: a header has the bounds of many ranges.
const CHUNK_LEN_MAX: usize = 64 << 20;

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// How the backup begins.
    Header = 1,
    /// A piece of the content.
    Contents = 2,
    /// How it ends.
    End = 3,
}

/// The head of a chunk, by its seed, kind and bytes.
fn head(seed: Seed, kind: u32, bytes: &[u8]) -> Head {
    let len = bytes.len() as u32;
    let checksum = seed.checksum_of(&[&kind.to_le_bytes(), &len.to_le_bytes(), bytes]);
    Head { first: kind, second: len, checksum }
}

/// Writes chunks.
pub(super) struct ChunkWriter<W> {
    out: W,
    seed: Seed,
    number: u64,
    contents: Vec<u8>,
    /// Bytes written so far.
    pub(super) bytes: u64,
    /// Bytes of contents so far.
    pub(super) contents_len: u64,
}

impl<W: Write> ChunkWriter<W> {
    /// Begins a backup.
    pub(super) fn begin(out: W, id: u128, header: &[u8]) -> Result<Self, BackupError> {
        let (bytes, contents_len) = (0, 0);
        let mut writer =
            Self { out, seed: Seed::NONE, number: 0, contents: Vec::new(), bytes, contents_len };
        writer.write(&MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.chunk(Kind::Header, header)?;
        writer.seed = Seed::new(id as u64);
        Ok(writer)
    }

    /// Adds to the contents.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), BackupError> {
        self.contents_len += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_LEN - self.contents.len()));
            self.contents.extend_from_slice(now);
            bytes = later;
            if self.contents.len() == CHUNK_LEN {
                self.write_contents()?;
            }
        }
        Ok(())
    }

    /// Ends the backup, and flushes it. Returns its length in bytes.
    pub(super) fn finish(mut self, end: &[u8]) -> Result<u64, BackupError> {
        if !self.contents.is_empty() {
            self.write_contents()?;
        }
        self.chunk(Kind::End, end)?;
        self.out.flush().map_err(BackupError::Write)?;
        Ok(self.bytes)
    }

    fn write_contents(&mut self) -> Result<(), BackupError> {
        let contents = std::mem::take(&mut self.contents);
        self.chunk(Kind::Contents, &contents)?;
        self.contents = contents;
        self.contents.clear();
        Ok(())
    }

    fn chunk(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), BackupError> {
        let head = head(self.seed.numbered(self.number), kind as u32, bytes);
        self.write(&head.bytes())?;
        self.write(bytes)?;
        self.number += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(BackupError::Write)
    }
}

/// Reads chunks, and uses no byte of a chunk before its checksum is verified.
pub(super) struct ChunkReader<R> {
    input: R,
    seed: Seed,
    /// The number of the next chunk.
    pub(super) number: u64,
    /// Bytes read so far.
    pub(super) bytes: u64,
}

impl<R: Read> ChunkReader<R> {
    /// Reads how a backup begins; returns the header too.
    pub(super) fn begin(input: R) -> Result<(Self, Vec<u8>), BackupError> {
        let mut reader = Self { input, seed: Seed::NONE, number: 0, bytes: 0 };
        let mut magic = [0; MAGIC.len()];
        let len = reader.fill(&mut magic)?;
        if len == 0 {
            return Err(BackupError::Empty);
        }
        if magic[..len] != MAGIC[..len] {
            return Err(BackupError::Foreign);
        }
        let mut version = [0; 4];
        reader.read_exact(&mut version)?;
        let found = u32::from_le_bytes(version);
        if found != VERSION {
            return Err(BackupError::Version { found, known: VERSION });
        }
        let mut header = Vec::new();
        match reader.next(&mut header)? {
            Kind::Header => Ok((reader, header)),
            _ => Err(reader.damaged("it does not begin with its header")),
        }
    }

    /// The id of the backup, which the sums of all other chunks are seeded with.
    pub(super) fn set_id(&mut self, id: u128) {
        self.seed = Seed::new(id as u64);
    }

    /// Reads the next chunk, and adds its bytes to `out`.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<Kind, BackupError> {
        let mut bytes = [0; HEAD];
        self.read_exact(&mut bytes)?;
        let stored = Head::of_bytes(&bytes);
        let len = stored.second as usize;
        let kind = match stored.first {
            1 if self.number == 0 => Kind::Header,
            2 => Kind::Contents,
            3 => Kind::End,
            _ => return Err(self.damaged("a chunk is of no kind that there is")),
        };
        let limit = if kind == Kind::Header { CHUNK_LEN_MAX } else { CHUNK_LEN };
        if len > limit {
            return Err(self.damaged("a chunk is longer than chunks are"));
        }
        let begin = out.len();
        // Room comes with the bytes: the length is not to be believed yet.
        let read = self.input.by_ref().take(len as u64).read_to_end(out);
        self.bytes += read.map_err(BackupError::Read)? as u64;
        if out.len() - begin < len {
            return Err(BackupError::Truncated { chunk: self.number });
        }
        if head(self.seed.numbered(self.number), kind as u32, &out[begin..]) != stored {
            return Err(self.damaged("a chunk does not have its checksum"));
        }
        self.number += 1;
        Ok(kind)
    }

    /// Checks that the input ends with the last chunk.
    pub(super) fn check_end(&mut self) -> Result<(), BackupError> {
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged("there is something behind its end")),
        }
    }

    /// An error in the chunk that was to be read.
    pub(super) fn damaged(&self, why: &'static str) -> BackupError {
        BackupError::Damaged { chunk: self.number, why }
    }

    fn read_exact(&mut self, out: &mut [u8]) -> Result<(), BackupError> {
        match self.fill(out)? {
            len if len == out.len() => Ok(()),
            _ => Err(BackupError::Truncated { chunk: self.number }),
        }
    }

    /// Reads until `out` is full, or the input ends. Returns how many bytes.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, BackupError> {
        let mut len = 0;
        while len < out.len() {
            match self.input.read(&mut out[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(BackupError::Read(error)),
            }
        }
        self.bytes += len as u64;
        Ok(len)
    }
}
