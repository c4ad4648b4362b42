//! All files of an append-only file, one after the other.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Files, LogEvent, LogReader};
use crate::{Error, Limits, Why};

/// Goes through the files of an append-only file. `O` opens each.
pub struct Replay<O, R> {
    open: O,
    left: VecDeque<PathBuf>,
    limits: Limits,
    current: Option<(PathBuf, LogReader<BufReader<R>>)>,
}

/// An error in one of the files.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct ReplayError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub source: Error,
    /// Whether the file is the last one and only its end is missing, as after a crash: Redis goes on without it.
    pub is_cut_off: bool,
}

impl<R: Read, O: FnMut(&Path) -> io::Result<R>> Replay<O, R> {
    /// Begins with the first of `files`.
    pub fn new(files: Files, limits: Limits, open: O) -> Self {
        Self { open, left: files.paths.into(), limits, current: None }
    }

    /// The next item, of whichever file; `None` at the end of the last one.
    ///
    /// # Errors
    /// [`ReplayError`]. There is nothing after an error.
    pub fn next_event(&mut self) -> Result<Option<LogEvent>, ReplayError> {
        loop {
            let (path, mut reader) = match self.current.take() {
                Some(current) => current,
                None => match self.left.pop_front() {
                    Some(path) => self.open(path)?,
                    None => return Ok(None),
                },
            };
            match reader.next_event() {
                Ok(None) => {}
                Ok(event) => {
                    self.current = Some((path, reader));
                    return Ok(event);
                }
                Err(source) => {
                    let is_last = self.left.is_empty();
                    self.left.clear();
                    let is_cut_off = is_last && matches!(source.why, Why::Truncated { .. });
                    return Err(ReplayError { path, source, is_cut_off });
                }
            }
        }
    }

    /// The file that is being read, and the offset, in bytes, at which the command begins that was read last.
    #[must_use]
    pub fn place(&self) -> Option<(&Path, u64)> {
        self.current.as_ref().map(|(path, reader)| (path.as_path(), reader.command_offset()))
    }

    fn open(&mut self, path: PathBuf) -> Result<(PathBuf, LogReader<BufReader<R>>), ReplayError> {
        match (self.open)(&path) {
            Ok(input) => Ok((path, LogReader::new(input, self.limits))),
            Err(error) => {
                self.left.clear();
                let source = Error::new(0, "an append-only file", error);
                Err(ReplayError { path, source, is_cut_off: false })
            }
        }
    }
}
