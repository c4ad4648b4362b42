//! Streams of snapshots, as the commands read and write them.

use std::io::{self, Read, Write};

use halite::TransferReport;

use crate::size::{count, human};

/// A reader or a writer whose errors have its name.
pub(super) struct Named<'a, T> {
    pub(super) name: &'a str,
    pub(super) inner: T,
}

impl<T> Named<'_, T> {
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.name))
    }
}

impl<R: Read> Read for Named<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| self.named(&error))
    }
}

impl<W: Write> Write for Named<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(|error| self.named(&error))
    }
}

/// A reader that keeps the bytes that were read.
pub(super) struct Kept<R> {
    pub(super) inner: R,
    pub(super) bytes: Vec<u8>,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..len]);
        Ok(len)
    }
}

/// The contents of a stream, for people.
pub(super) fn counts(report: &TransferReport) -> String {
    let TransferReport { puts, deletes, ranges, bytes } = *report;
    let deleted = match ranges {
        0 => count(deletes, "deleted key"),
        _ => format!("{}, {}", count(deletes, "deleted key"), count(ranges, "deleted range")),
    };
    format!("{}, {deleted}, {}", count(puts, "value"), human(bytes))
}
