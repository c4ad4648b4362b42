//! A slice of a migration: copies beside reads and writes, and their publication as one step.

use std::collections::HashSet;
use std::sync::Arc;

use halite_contract::Result;
use smallvec::SmallVec;

use super::gather::{bytes_of, extents_of};
use crate::dataset::effect::Effect;
use crate::large::value_id;
use crate::message::{LargeValue, Piece, byte_len};
use crate::run::Run;
use crate::storage::{Extent, Extents};
use crate::store::Store;
use crate::store::view::Trees;
use crate::tree::pointer::seed_of;
use crate::tree::replace::{By, Replacement};
use crate::tree::{Context, Update};

/// Bytes that a slice copies, about: so much is written in vain if a flush comes first, and waits for one lock.
pub(super) const SLICE_BYTES: u64 = 16 << 20;

/// Moves of a run and its values.
pub(super) struct Job {
    /// The level and the first key of the run's slot.
    pub(super) level: u8,
    pub(super) key: Vec<u8>,
    pub(super) run: Arc<Run>,
    /// The class that the run is to lie in, if it moves.
    pub(super) to: Option<u8>,
    /// The values that move, and their classes.
    pub(super) values: Vec<(LargeValue, u8)>,
}

/// The outcome of a slice.
#[derive(Default)]
pub(super) struct Outcome {
    /// Bytes of runs and values that moved.
    pub(super) moved: u64,
    /// Bytes of those that a flush has replaced meanwhile.
    pub(super) skipped: u64,
    /// Why it ended early.
    pub(super) failure: Option<crate::Error>,
}

/// Copies that are in no tree yet.
#[derive(Default)]
struct Copies {
    extents: Vec<Extent>,
    replacements: Vec<Replacement>,
    /// The class from which each copy comes, by its extents: the old first one, and the copy's.
    moves: Vec<Copied>,
}

/// A run or a value that was copied.
struct Copied {
    from: u8,
    to: u8,
    first: Extent,
    bytes: u64,
    /// The names of a value, before and behind the move.
    ids: Option<(u64, u64)>,
}

impl Job {
    /// Bytes that move.
    pub(super) fn bytes(&self) -> u64 {
        let of_run = self.to.map_or(0, |_| bytes_of(self.run.pointer().extents.iter().copied()));
        of_run + self.values.iter().map(|(value, _)| bytes_of(extents_of(value))).sum::<u64>()
    }
}

impl Store {
    /// Moves what jobs say of a dataset. The caller holds the view that they were found in, so no extent of them is used
    /// again meanwhile. A failure ends the slice; what was copied before moves.
    pub(super) fn move_slice(&self, dataset: u32, jobs: &[Job]) -> Result<Outcome> {
        // A pass over all extents begins when it knows of these.
        let _writing = self.writing_large.read();
        let (mut copies, mut outcome) = (Copies::default(), Outcome::default());
        for job in jobs {
            if let Err(error) = copies.add(&self.trees, job) {
                outcome.failure = Some(error);
                break;
            }
        }
        let mut used = Vec::new();
        let published = self.publish_moved(dataset, &copies.replacements, &mut used);
        let used: HashSet<Extent> = used.into_iter().collect();
        // A failed publication has freed what it took over, or the store takes no more writes.
        for extent in copies.extents.iter().filter(|extent| !used.contains(extent)) {
            self.trees.storage.recycle(*extent, false)?;
        }
        published?;
        for copied in &copies.moves {
            if !used.contains(&copied.first) {
                outcome.skipped += copied.bytes;
                continue;
            }
            outcome.moved += copied.bytes;
            self.trees.storage.traffic.moved(copied.from, copied.to, copied.bytes);
            if let (Some(heat), Some((before, behind))) = (&self.trees.runs.heat, copied.ids) {
                heat.rename(before, behind);
            }
        }
        Ok(outcome)
    }

    /// Replaces runs of a dataset's tree. The extents that were used are appended to `used`.
    fn publish_moved(
        &self,
        dataset: u32,
        replacements: &[Replacement],
        used: &mut Vec<Extent>,
    ) -> Result<()> {
        let mut checkpoints = self.checkpoints.lock();
        self.health.check()?;
        let view = self.view();
        let Some(tree) = view.trees.get(&dataset) else { return Ok(()) };
        let placed =
            self.catalogue.load().preferences().placed(self.trees.settings.placement, dataset);
        let mut update = Update::new(&self.trees, placed);
        let replaced = match update.replace(tree, replacements, used) {
            Ok(replaced) => replaced,
            Err(error) => {
                update.undo();
                return Err(error.into());
            }
        };
        if used.is_empty() {
            update.undo();
            return Ok(());
        }
        let mut effect = Effect::default();
        let history = checkpoints.histories.of(dataset);
        effect.drop_all(dataset, &history, update.take_dropped());
        let mut trees = Trees::clone(&view.trees);
        trees.insert(dataset, replaced);
        drop(view);
        self.publish_rewritten(&mut checkpoints, (update, effect), trees)
    }
}

impl Copies {
    /// Copies what a job moves. A run of which a part could not be copied does not move, but the values that were.
    fn add(&mut self, context: &Context, job: &Job) -> crate::Result<()> {
        let (mut values, mut failure) = (Vec::new(), None);
        for (value, class) in &job.values {
            match self.value(context, value, *class) {
                Ok(copy) => values.push((value.clone(), copy)),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let old_class = job.run.pointer().extents[0].address.class();
        let by = match (values.is_empty(), job.to) {
            (true, Some(class)) if failure.is_none() => {
                By::Copy(self.run(context, &job.run, class)?)
            }
            (true, _) => return failure.map_or(Ok(()), Err),
            (false, class) => By::Rewrite { class: class.unwrap_or(old_class), values },
        };
        let Job { level, key, run, .. } = job;
        let (level, key, run) = (*level, key.clone(), Arc::clone(run));
        self.replacements.push(Replacement { level, key, run, by });
        failure.map_or(Ok(()), Err)
    }

    fn write(&mut self, context: &Context, class: u8, bytes: &[u8]) -> crate::Result<Extent> {
        let extent = context.storage.write_in(class, bytes)?;
        self.extents.push(extent);
        Ok(extent)
    }

    fn run(
        &mut self,
        context: &Context,
        run: &Arc<Run>,
        class: u8,
    ) -> crate::Result<SmallVec<[Extent; 2]>> {
        let pointer = run.pointer();
        let mut copies = SmallVec::new();
        for (number, extent) in pointer.extents.iter().enumerate() {
            let mut bytes = vec![0; byte_len(*extent)];
            let check = |bytes: &[u8]| run.is_extent_whole(number, bytes);
            context.storage.read("extent of a run", *extent, 0, &mut bytes, &check)?;
            copies.push(self.write(context, class, &bytes)?);
        }
        let from = pointer.extents[0].address.class();
        let bytes = bytes_of(pointer.extents.iter().copied());
        self.moves.push(Copied { from, to: class, first: copies[0], bytes, ids: None });
        Ok(copies)
    }

    fn value(
        &mut self,
        context: &Context,
        value: &LargeValue,
        class: u8,
    ) -> crate::Result<LargeValue> {
        let (birth, mut left) = (context.epoch(), value.len);
        let mut copy = LargeValue { birth, pieces: Vec::new(), ..value.clone() };
        for piece in &value.pieces {
            let mut bytes = vec![0; (byte_len(piece.extent) as u64).min(left) as usize];
            left -= bytes.len() as u64;
            let seed = seed_of(context.seed, piece.extent.address, value.birth);
            let check = |bytes: &[u8]| seed.checksum(bytes) == piece.checksum;
            context.storage.read("piece of a large value", piece.extent, 0, &mut bytes, &check)?;
            // A reference may have more extents than its bytes need; each has a block at least.
            let len = bytes.len();
            bytes.resize(len.max(1), 0);
            let extent = self.write(context, class, &bytes)?;
            let checksum = seed_of(context.seed, extent.address, birth).checksum(&bytes[..len]);
            copy.pieces.push(Piece { extent, checksum });
        }
        let (old, new) = (&value.pieces[0], &copy.pieces[0]);
        let (from, first) = (old.extent.address.class(), new.extent);
        let ids = Some((value_id(value), value_id(&copy)));
        let bytes = bytes_of(extents_of(value));
        self.moves.push(Copied { from, to: class, first, bytes, ids });
        Ok(copy)
    }
}
