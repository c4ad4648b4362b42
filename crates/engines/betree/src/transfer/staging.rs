//! The dataset in which the operations of a stream are staged, until its end.

use halite_contract::{Durability, Progress, Result};

use super::content::{ContentReader, Operation};
use super::error::StreamError;
use super::header::StreamPart;
use crate::Error;
use crate::catalogue::{CATALOGUE, RECEIVED, RECEIVING};
use crate::dataset::grafting::{STAGED_DELETE, STAGED_PUT, STAGED_RANGE};
use crate::message::Kind;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::written_large::WrittenLarge;

/// Bytes of operations that are staged at once.
const BATCH: usize = 1 << 20;

pub(super) fn refused(error: StreamError) -> halite_contract::Error {
    Error::from(error).into()
}

/// The name of the dataset in which a stream is staged.
pub(super) fn staging_name(name: &str) -> String {
    format!("{RECEIVING}{name}")
}

pub(super) fn state_key(staged: u32) -> Vec<u8> {
    [&[RECEIVED], &staged.to_be_bytes()[..]].concat()
}

/// The dataset that stages operations, and how far it came.
pub(super) struct Staging<'a> {
    pub(super) store: &'a Store,
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) part: StreamPart,
    pub(super) batch: Batch,
}

/// The commit of operations that are staged.
struct Stage<'a> {
    name: &'a str,
    number: u32,
}

impl Commit for Stage<'_> {
    fn check(&mut self, store: &Store) -> Result<()> {
        match store.catalogue.load().find_own(self.name) {
            Some(number) if number == self.number => Ok(()),
            _ => Err(refused(StreamError::NotResumable { why: "what was received was discarded" })),
        }
    }
}

impl Staging<'_> {
    /// Stages the operations of a stream.
    pub(super) fn receive(
        &mut self,
        content: &mut ContentReader<'_>,
        are_changes: bool,
        progress: Progress<'_>,
    ) -> Result<()> {
        let tagged = |tag: u8, key: &[u8]| match are_changes {
            true => [&[tag], key].concat(),
            false => key.to_vec(),
        };
        let mut value = Vec::new();
        while let Some(operation) = content.next().map_err(Error::from)? {
            match &operation {
                Operation::Put { key, len } => {
                    let key = tagged(STAGED_PUT, key);
                    if *len >= self.store.trees.settings.large_value_bytes {
                        self.put_large(content, &key, *len, operation.behind())?;
                    } else {
                        content.value(&mut value, *len as usize).map_err(Error::from)?;
                        self.batch.push(self.number, Kind::Insert, &key, &value);
                    }
                }
                Operation::Delete { key } if are_changes => {
                    self.batch.push(self.number, Kind::Insert, &tagged(STAGED_DELETE, key), &[]);
                }
                Operation::Range { start, end } if are_changes => {
                    let key = tagged(STAGED_RANGE, start);
                    self.batch.push(self.number, Kind::Insert, &key, end);
                }
                Operation::Delete { .. } | Operation::Range { .. } => {
                    return Err(refused(content.damaged("a whole snapshot deletes no key")));
                }
            }
            self.part.start = Some(operation.behind());
            if self.batch.bytes().len() >= BATCH {
                self.commit()?;
            }
            let done = content.report.bytes;
            if progress(done, done).is_break() {
                return Err(refused(StreamError::Stopped));
            }
        }
        Ok(())
    }

    /// Stages a value that lies in extents of its own, and commits it.
    fn put_large(
        &mut self,
        content: &mut ContentReader<'_>,
        key: &[u8],
        len: u64,
        behind: Vec<u8>,
    ) -> Result<()> {
        let (large, reference) = WrittenLarge::in_pieces(self.store, len, &mut |to, len| {
            Ok(content.value(to, len).map_err(Error::from)?)
        })?;
        self.batch.push(self.number, Kind::InsertLarge, key, &reference);
        self.part.start = Some(behind);
        self.commit()?;
        large.keep();
        Ok(())
    }

    /// Commits what was not yet, and how far the stream came.
    pub(super) fn commit(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        if batch.changes() == 0 {
            return Ok(());
        }
        let mut state = Vec::new();
        self.part.encode(&mut state);
        batch.push(CATALOGUE, Kind::Insert, &state_key(self.number), &state);
        let mut stage = Stage { name: &self.name, number: self.number };
        self.store.commit(&batch, Purpose::Put, Durability::Deferred, &mut stage)
    }
}
