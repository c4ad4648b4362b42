//! Checkpoints: all rows in a compressed file, copied in bounded steps between commits, so that the log before it is not needed.
//!
//! ```text
//!  file   = header (`files.rs`) | gzip stream of blocks (`block.rs`)
//!  blocks = begin: position of the log, catalog │ rows of a table, in the order of their keys .. │ end: rows, position
//!
//!  begin ─► copy, a block a step ─► end, syncs of file and log ─► read back, a block a step ─► name ─► release the log
//!           `copy.rs`                                              `read.rs`
//! ```
//!
//! A checkpoint is fuzzy: of commits between its begin and its end, each row that is copied has those before its own copy. So
//! redo begins where the log was at the begin, and a checkpoint counts only when the log up to its end is durable: half of a
//! transaction may be in it. Its file has `.new` behind its name until it was read back, and the next opening removes one that has.
//! The checkpoint before it stays until the name is durable. So a name says that the file was whole; if it is not any more, that
//! is damage, and opening does not go back to an older one.
//!
//! Lack of space gives the checkpoint up, and leaves the one before it and the log as they are. The next one begins when the
//! log has grown by as much again, or is asked for. Any other failure is one of the medium, and ends the use of the partition.
//!
//! Costs: a step copies or reads the rows of one block, and compresses or expands it. The whole costs one sync of the file,
//! one of the log, for which one commit waits, and one of the folder, for which another does, with one for each file of the
//! log that is released.

mod block;
mod copy;
pub(super) mod files;
pub(super) mod read;

use halite_sim::planted;

use self::copy::CheckpointCopy;
use self::read::CheckpointReader;
use super::InP;
use crate::component::Component;
use crate::method::redo_log::Position;
use crate::{Error, Result};

/// The checkpoints of a partition.
pub(super) struct Checkpoints {
    /// The number of the last one that has its name; 0: there is none yet.
    last: u64,
    /// Where the redo of that one begins.
    begin: Position,
    /// Bytes that the log has passed when the next one begins.
    due_at: u64,
    under_way: Option<UnderWay>,
    failure: Option<Error>,
}

struct UnderWay {
    number: u64,
    begin: Position,
    /// Bytes that the log had passed.
    passed: u64,
    stage: Stage,
}

enum Stage {
    Copying(CheckpointCopy),
    Checking(CheckpointReader),
}

impl Checkpoints {
    /// Those of a new partition.
    pub(super) fn none(begin: Position) -> Self {
        Self { last: 0, begin, due_at: 0, under_way: None, failure: None }
    }

    /// Those of a partition that was opened with one.
    pub(super) fn found(last: u64, begin: Position, checkpoint_bytes: u64) -> Self {
        Self { last, due_at: checkpoint_bytes, ..Self::none(begin) }
    }

    /// The number of the last one, and where redo begins.
    pub(super) fn last(&self) -> (u64, Position) {
        (self.last, self.begin)
    }

    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }
}

impl InP {
    /// Takes the checkpoint that is under way a step further, or begins the one that is due. Lack of space is not the caller's
    /// failure.
    ///
    /// # Errors
    /// Those of the medium: nothing is read or written any more.
    pub(super) fn advance(&mut self) -> Result<()> {
        let _in = Component::Recovery.enter();
        let Checkpoints { under_way, due_at, .. } = &self.checkpoints;
        if under_way.is_none() && self.log.passed() < *due_at {
            return Ok(());
        }
        match self.step_or_give_up() {
            Err(error) if !is_refusal(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Runs a checkpoint from its begin to its end.
    ///
    /// # Errors
    /// Lack of space: it is given up. As [`InP::advance`].
    pub(super) fn whole_checkpoint(&mut self) -> Result<()> {
        while !self.step_or_give_up()? {}
        Ok(())
    }

    fn step_or_give_up(&mut self) -> Result<bool> {
        let stepped = self.step();
        if let Err(error) = &stepped {
            self.give_up();
            self.checkpoints.due_at = self.log.passed() + self.options.checkpoint_bytes;
            self.checkpoints.failure = Some(error.clone());
            if !is_refusal(error) {
                return self.log.failing(stepped);
            }
        }
        stepped
    }

    /// Gives up the checkpoint that is under way.
    pub(super) fn give_up(&mut self) {
        if let Some(UnderWay { number, stage, .. }) = self.checkpoints.under_way.take() {
            drop(stage);
            // What stays is removed before the next one, or by the next opening.
            let _ = self.disk.remove(&files::unfinished_name_of(number));
        }
    }

    /// A step. Returns whether it was the last.
    fn step(&mut self) -> Result<bool> {
        let Self { disk, store_id, options, tables, log, checkpoints, .. } = self;
        let Some(under_way) = &mut checkpoints.under_way else {
            let (number, begin) = (checkpoints.last + 1, log.position());
            let copy = CheckpointCopy::begin(disk, *store_id, number, begin, tables.catalog())?;
            let (passed, stage) = (log.passed(), Stage::Copying(copy));
            checkpoints.under_way = Some(UnderWay { number, begin, passed, stage });
            return Ok(false);
        };
        let number = under_way.number;
        match &mut under_way.stage {
            Stage::Copying(copy) => {
                if copy.step(tables, options.step_bytes)? {
                    copy.end(log.position())?;
                    planted!("table.inp-checkpoint-before-its-log", Ok(()), log.sync())?;
                    let name = files::unfinished_name_of(number);
                    let reader = CheckpointReader::open(disk, *store_id, &name, number)?;
                    under_way.stage = Stage::Checking(reader);
                }
                Ok(false)
            }
            Stage::Checking(reader) => {
                let is_through = reader.next()?.is_none();
                if is_through {
                    self.name_checkpoint()?;
                }
                Ok(is_through)
            }
        }
    }

    /// Gives the checkpoint that is under way its name, and gives back what is not needed with it.
    fn name_checkpoint(&mut self) -> Result<()> {
        let Self { disk, log, checkpoints, options, .. } = self;
        let Some(UnderWay { number, begin, passed, .. }) = checkpoints.under_way else {
            return Ok(());
        };
        planted!("table.inp-log-released-before-checkpoint", log.release(begin)?);
        disk.rename(&files::unfinished_name_of(number), &files::name_of(number))?;
        disk.sync()?;
        let due_at = passed + options.checkpoint_bytes;
        *checkpoints = Checkpoints { last: number, begin, due_at, under_way: None, failure: None };
        log.release(begin)?;
        files::remove_others(disk, number)
    }
}

/// Whether the disk has no room for a file.
fn is_refusal(error: &Error) -> bool {
    use halite_disk::Error::{NoSpace, TooManyFiles};
    matches!(error, Error::Disk(error) if matches!(**error, NoSpace { .. } | TooManyFiles { .. }))
}
