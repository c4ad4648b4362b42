//! The migration of a range of keys to a class.

use std::ops::ControlFlow;

use halite_contract::{KeyRange, MigrationReport, Progress, Result};

use super::gather::{are_in, bytes_of, extents_of, runs};
use super::slice::{Job, Outcome, SLICE_BYTES};
use crate::Error;
use crate::store::Store;
use crate::store::view::View;
use crate::tree::walk::large_entries;

/// How often a slice begins anew because flushes have replaced some of it.
const RETRIES: usize = 8;

/// The jobs of a slice, and where the next one begins.
struct Slice {
    jobs: Vec<Job>,
    /// Bytes that were looked at, moved or not.
    seen: u64,
    /// `None`: it is the last.
    next: Option<Vec<u8>>,
}

impl Store {
    /// Refuses a class that the pool does not have.
    pub(crate) fn check_class(&self, class: u8) -> Result<()> {
        let classes = self.trees.storage.classes().len();
        match usize::from(class) < classes {
            true => Ok(()),
            false => Err(Error::NoSuchClass { what: "keys", class, classes }.into()),
        }
    }

    /// Moves the runs and large values of a range of keys of a dataset to a class.
    pub(super) fn migrate_range(
        &self,
        dataset: u32,
        range: &KeyRange,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        self.health.check()?;
        // Records in memtables have no place yet.
        self.freeze()?;
        self.flush_frozen()?;
        let all = self.bytes_in(dataset, range)?;
        let mut report = MigrationReport::default();
        let (mut from, mut seen, mut retries) = (range.start().to_vec(), 0, 0);
        loop {
            let view = self.view();
            let slice = self.slice(&view, dataset, (&from, range), class)?;
            let Outcome { moved, skipped, failure } = self.move_slice(dataset, &slice.jobs)?;
            drop(view);
            report.moved_bytes += moved;
            if let Some(failure) = failure {
                return Err(failure.into());
            }
            if skipped > 0 && retries < RETRIES {
                retries += 1;
                continue;
            }
            report.skipped_bytes += skipped;
            (retries, seen) = (0, seen + slice.seen);
            report.is_complete = slice.next.is_none();
            let is_stopped = progress(seen.min(all), all).is_break();
            match slice.next {
                Some(next) if !is_stopped => from = next,
                _ => return Ok(report),
            }
        }
    }

    /// Bytes of the runs, and of the values that they refer to, which a migration of a range looks at.
    fn bytes_in(&self, dataset: u32, range: &KeyRange) -> Result<u64> {
        let (view, mut all) = (self.view(), 0);
        if let Some(tree) = view.trees.get(&dataset) {
            let walked = runs(&self.trees, tree, (range.start(), range.end()), &mut |found| {
                let pointer = found.run.pointer();
                all += bytes_of(pointer.extents.iter().copied()) + pointer.large_bytes;
                Ok(ControlFlow::Continue(()))
            })?;
            debug_assert!(walked.is_continue(), "no one stops it");
        }
        Ok(all)
    }

    /// The jobs of some slots from a key on.
    fn slice(
        &self,
        view: &View,
        dataset: u32,
        (from, range): (&[u8], &KeyRange),
        class: u8,
    ) -> Result<Slice> {
        let mut slice = Slice { jobs: Vec::new(), seen: 0, next: None };
        let Some(tree) = view.trees.get(&dataset) else { return Ok(slice) };
        let mut left = SLICE_BYTES;
        // The slot in which there is more to move.
        let mut again: Option<Vec<u8>> = None;
        let walked = runs(&self.trees, tree, (from, range.end()), &mut |found| {
            let extents = &found.run.pointer().extents;
            let stays = are_in(extents.iter().copied(), class);
            let mut job = Job {
                level: found.level,
                key: found.key.to_vec(),
                run: found.run.clone(),
                to: (!stays).then_some(class),
                values: Vec::new(),
            };
            for (key, value) in large_entries(found.run)? {
                if !range.contains(&key) || are_in(extents_of(&value), class) {
                    continue;
                }
                if left == 0 {
                    again.get_or_insert_with(|| found.key.max(from).to_vec());
                    break;
                }
                left = left.saturating_sub(bytes_of(extents_of(&value)));
                job.values.push((value, class));
            }
            let bytes = bytes_of(extents.iter().copied());
            slice.seen += bytes + found.run.pointer().large_bytes;
            left = left.saturating_sub(if stays { 0 } else { bytes });
            if job.to.is_some() || !job.values.is_empty() {
                slice.jobs.push(job);
            }
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        slice.next = match walked {
            ControlFlow::Break(next) => again.or(next),
            ControlFlow::Continue(()) => again,
        };
        Ok(slice)
    }
}
