//! A file of the log that is written: batches at its end, in whole units of the device.
//!
//! With direct access a write covers whole sectors. The sector at the end is filled up with zeros, and is written
//! again, with the bytes that it has and those behind them, by the next write: a power cut leaves it old or new, and
//! both have the bytes that are durable.

use halite_disk::{Access, AlignedBuffer, Alignment, Disk, PositionedFile};

use crate::files::name_of;

/// Bytes that are written at once where many are.
const BUFFER: usize = 1 << 20;

/// The lengths of files are multiples of this, while they are written: every unit of direct access divides it.
pub(crate) const PAGE: u64 = Alignment::PAGE.offset;

pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: PositionedFile,
    /// Bytes of batches that are in the file.
    pub(crate) len: u64,
    /// Bytes that a write is a multiple of.
    unit: u64,
    /// The bytes of the unit at the end, and room for those of the next write.
    buffer: AlignedBuffer,
}

/// Opens a file, or makes it, to be written past the page cache where the file system has such access.
pub(crate) fn open(disk: &Disk, number: u64, is_new: bool) -> halite_disk::Result<PositionedFile> {
    let name = name_of(number);
    let file = match is_new {
        true => disk.create_positioned(&name, Access::Direct)?,
        false => disk.open_positioned(&name, Access::Direct)?,
    };
    match file.alignment() {
        Some(alignment) if !PAGE.is_multiple_of(alignment.offset) => {
            disk.open_positioned(&name, Access::Cached)
        }
        _ => Ok(file),
    }
}

impl Segment {
    /// Goes on behind `len` bytes of batches.
    pub(crate) fn new(number: u64, file: PositionedFile, len: u64) -> halite_disk::Result<Self> {
        let unit = file.alignment().map_or(1, |alignment| alignment.offset);
        let memory = file.alignment().map_or(1, |alignment| alignment.memory);
        let mut buffer = AlignedBuffer::zeroed(BUFFER, memory);
        let kept = (len % unit) as usize;
        file.read_at(len - kept as u64, &mut buffer[..kept])?;
        Ok(Self { number, file, len, unit, buffer })
    }

    /// Goes on in another file, which has no batch.
    pub(crate) fn move_on(&mut self, number: u64, file: PositionedFile) -> halite_disk::Result<()> {
        match file.alignment() == self.file.alignment() {
            true => (self.number, self.file, self.len) = (number, file, 0),
            false => *self = Self::new(number, file, 0)?,
        }
        Ok(())
    }

    /// Writes bytes at the end. The file has space for them, up to the end of a unit.
    #[track_caller]
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> halite_disk::Result<()> {
        let unit = self.unit as usize;
        while !bytes.is_empty() {
            let kept = (self.len % self.unit) as usize;
            let part = bytes.len().min(BUFFER - kept);
            let end = kept + part;
            self.buffer[kept..end].copy_from_slice(&bytes[..part]);
            let padded = end.next_multiple_of(unit);
            self.buffer[end..padded].fill(0);
            self.file.write_at(self.len - kept as u64, &self.buffer[..padded])?;
            self.buffer.copy_within(end / unit * unit..end, 0);
            self.len += part as u64;
            bytes = &bytes[part..];
        }
        Ok(())
    }
}
