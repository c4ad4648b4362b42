//! Flushing: the oldest frozen memtable goes to the trees of its datasets.
//!
//! The log is durable up to the memtable's end before that, so that no tree has what the log may lose. The trees are
//! written beside the old ones; a new view has them, and what only the old ones have is dropped when its readers are
//! done. A memtable that ends with a command (`dataset/command.rs`) has its effect in the same step.

use std::sync::Arc;

use halite_contract::Result;

use crate::dataset::command::Command;
use crate::dataset::effect::{Effect, Plan};
use crate::layers::graft_sources;
use crate::memtable::{Memtable, MemtableSource};
use crate::record::{DATASET, end_of};
use crate::store::Store;
use crate::store::checkpoint::Checkpoints;
use crate::store::view::{Graft, Grafting, Trees, View};
use crate::tree::update::BoxedSource;
use crate::tree::{Tree, Update};

impl Store {
    /// Flushes what is frozen, if any of it ends with a command that replaces a dataset. At an opening: readers would need the
    /// trees of snapshots that are in no tree yet.
    pub(crate) fn flush_commands(&self) -> Result<()> {
        for memtable in &self.view().frozen {
            if Command::of_memtable(memtable)?.is_some_and(|command| command.replaces().is_some()) {
                while self.flush_oldest()? {}
            }
        }
        Ok(())
    }

    /// Flushes the oldest frozen memtable. Returns whether there was one.
    pub(crate) fn flush_oldest(&self) -> Result<bool> {
        let mut checkpoints = self.checkpoints.lock();
        let view = self.view();
        let Some(oldest) = view.frozen.last() else { return Ok(false) };
        self.health.check()?;
        self.log.sync().inspect_err(|error| self.health.poison(error.to_string()))?;
        // All of it is durable, also what a commit still waits for.
        self.commits.reveal(oldest.last());

        let command = Command::of_memtable(oldest)?;
        let mut trees = Trees::clone(&view.trees);
        let placement = self.settings.tree.placement;
        let preferences = self.catalogue.load().preferences().clone();
        let mut update = Update::new(&self.trees, placement.of_metadata());
        let mut effect = Effect::default();
        // The memtable's changes of a dataset that is replaced at its end are of no use.
        let replaced = command.as_ref().and_then(Command::replaces).map(|(dataset, _)| dataset);
        let graft = match &command {
            Some(command) => self.graft_of(&view, oldest, command)?,
            None => None,
        };
        let mut datasets = oldest.datasets();
        datasets.extend(graft.as_ref().map(|graft| graft.of.dataset));
        let each = oldest.bytes() / datasets.len().max(1) as u64;
        for dataset in datasets.into_iter().filter(|dataset| Some(*dataset) != replaced) {
            let (start, end) = (dataset.to_be_bytes(), end_of(dataset));
            let tree = trees.get(&dataset).cloned().unwrap_or_else(Tree::empty);
            let bounds = (&start[..], Some(&end[..]));
            let action = self.trees.actions.of(dataset);
            let source = MemtableSource::new(Arc::clone(oldest), bounds, DATASET, u64::MAX, action);
            let mut sources: Vec<BoxedSource> = Vec::new();
            if let Some(Graft { of, view, at, .. }) = &graft
                && of.dataset == dataset
            {
                let all = (&[][..], None);
                graft_sources(&self.trees, (view, *at), &of.parts, all, &of.ranges, &mut sources);
            }
            sources.push(Box::new(source));
            update.of_dataset(dataset, preferences.placed(placement, dataset));
            let updated = update.apply(&tree, sources, each);
            match updated {
                Ok(tree) if tree.is_empty() => drop(trees.remove(&dataset)),
                Ok(tree) => drop(trees.insert(dataset, tree)),
                Err(error) => {
                    // No view has what was written.
                    update.undo();
                    return Err(self.trees.actions.explain(dataset, error).into());
                }
            }
            let history = checkpoints.histories.of(dataset);
            effect.drop_all(dataset, &history, update.take_dropped());
        }
        if let Some(command) = command {
            let Checkpoints { histories, root_tree, .. } = &*checkpoints;
            let mut plan = Plan { context: &self.trees, histories, root_tree, trees: &mut trees };
            if let Err(error) = effect.plan(command, oldest.last(), &mut plan, &mut update) {
                update.undo();
                return Err(error.into());
            }
        }
        update.take_values(oldest.large_values(), oldest.hidden_large_values());
        let published = self.publish_flushed(&mut checkpoints, (update, effect), trees);
        // Half of what changes in memory may have changed.
        published.inspect_err(|error| self.health.poison(error.to_string()))?;
        checkpoints.flushed_bytes += oldest.bytes();
        drop(view);
        self.reclaim(&checkpoints)?;
        Ok(true)
    }

    /// Publishes trees that have the same messages at other places, and notes what the update wrote and dropped.
    pub(crate) fn publish_rewritten(
        &self,
        checkpoints: &mut Checkpoints,
        (update, mut effect): (Update<'_>, Effect),
        trees: Trees,
    ) -> Result<()> {
        let published = (|| {
            effect.free(update.finish()?);
            let (dropped, _) = effect.take(&mut checkpoints.histories);
            for dropped in &dropped {
                self.trees.storage.retire(dropped.extent)?;
            }
            self.publish(dropped, |view| View { trees: trees.into(), ..view.clone() });
            crate::Result::Ok(())
        })();
        // Half of what changes in memory may have changed.
        published.inspect_err(|error| self.health.poison(error.to_string()))?;
        self.reclaim(checkpoints)
    }

    /// The graft that the oldest memtable ends with, of the state that its trees have before the flush.
    fn graft_of(
        &self,
        view: &View,
        oldest: &Arc<Memtable>,
        command: &Command,
    ) -> Result<Option<Graft>> {
        let Some((_, changes)) = command.grafts() else { return Ok(None) };
        let before = View { active: Arc::clone(oldest), frozen: Vec::new(), ..View::clone(view) };
        let (sequence, view) = (oldest.last(), Arc::new(before));
        let at = sequence.saturating_sub(changes.into());
        let of = Grafting::of_command(&self.trees, (&view, at), command)?;
        Ok(of.map(|of| Graft { of, sequence, view, at }))
    }

    /// Publishes the trees of a flush, and notes what it wrote and dropped.
    fn publish_flushed(
        &self,
        checkpoints: &mut Checkpoints,
        (update, mut effect): (Update<'_>, Effect),
        trees: Trees,
    ) -> Result<()> {
        effect.free(update.finish()?);
        let (dropped, has_command) = effect.take(&mut checkpoints.histories);
        for dropped in &dropped {
            self.trees.storage.retire(dropped.extent)?;
        }
        let (trees, snapshots) =
            (Arc::new(trees), has_command.then(|| Arc::new(checkpoints.histories.trees())));
        self.publish(dropped, |view| view.flushed(trees, snapshots));
        if has_command {
            // Extents that are born from here on are told from those that a snapshot has.
            self.trees.begin_epoch(self.trees.epoch() + 1);
        }
        Ok(())
    }
}
