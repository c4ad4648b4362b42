//! An object as a stream.

use std::io::{self, ErrorKind, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::handle::Object;
use super::limits::ATOMIC_LEN_MAX;

/// A position in an object. Reads and writes move it on; it may be behind the end.
///
/// [`Write::flush`] has nothing to do: a write is durable when the handle's durability says so, or after
/// [`Object::sync`].
pub struct ObjectCursor<'a> {
    object: &'a Object,
    position: u64,
}

impl<'a> ObjectCursor<'a> {
    pub(super) fn new(object: &'a Object) -> Self {
        Self { object, position: 0 }
    }
}

/// An error of an object, as one of a stream.
fn from_object(error: halite_contract::Error) -> io::Error {
    let kind = match &error {
        halite_contract::Error::Own(own) => match own.downcast_ref() {
            Some(crate::Error::NoSuchObject { .. }) => ErrorKind::NotFound,
            Some(crate::Error::ObjectTooLong) => ErrorKind::FileTooLarge,
            Some(crate::Error::NoSpace { .. } | crate::Error::LogFull { .. }) => {
                ErrorKind::StorageFull
            }
            _ => ErrorKind::Other,
        },
        halite_contract::Error::Damaged { .. } => ErrorKind::InvalidData,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Read for ObjectCursor<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.object.read_at(self.position, to).map_err(from_object)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_vectored(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = self.object.read_vectored_at(self.position, to).map_err(from_object)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for ObjectCursor<'_> {
    /// Writes at most what is atomic.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(ATOMIC_LEN_MAX)];
        self.object.write_at(self.position, bytes).map_err(from_object)?;
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ObjectCursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.object.size().map_err(from_object)?.checked_add_signed(by),
        };
        let why = "an object has no position before its first byte, and none that has no number";
        self.position = position.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, why))?;
        Ok(self.position)
    }
}
