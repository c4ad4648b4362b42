//! The changes of a flush beside those of trees: extents that become free, deadlists, and the history of a dataset.
//!
//! A flush plans that in memory, where reading may fail, and then does it in one step ([`Effect::take`]) that cannot. A
//! checkpoint has all of a step or nothing.

use std::sync::Arc;

use crate::catalogue::SnapshotId;
use crate::dataset::command::Command;
use crate::dataset::histories::Histories;
use crate::dataset::history::{Fate, History, Origin, SnapshotRoot};
use crate::storage::Address;
use crate::store::view::Trees;
use crate::tree::walk::{Part, large_values, walk};
use crate::tree::{Context, Dropped, Tree, Update};
use crate::{Error, Result};

/// The effect of a flush, as it is planned.
#[derive(Default)]
pub(crate) struct Effect {
    freed: Vec<Dropped>,
    /// The extents that come to lists. They are added before others are removed: an extent may come to a list and go on.
    listed: Vec<(SnapshotId, Dropped)>,
    unlisted: Vec<(SnapshotId, Address)>,
    /// The dataset that the command is about, and its history behind it.
    history: Option<(u32, History)>,
}

/// The state that a plan reads, and the trees that it changes.
pub(crate) struct Plan<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) histories: &'a Histories,
    pub(crate) root_tree: &'a Tree,
    pub(crate) trees: &'a mut Trees,
}

fn no_such(what: &str) -> Error {
    Error::Message { why: format!("a command is about {what} that there is not") }
}

impl Effect {
    /// Sorts out what a dataset's live tree has dropped.
    pub(crate) fn drop_all(&mut self, dataset: u32, history: &History, dropped: Vec<Dropped>) {
        for dropped in dropped {
            match history.fate(dropped.birth) {
                Fate::Free => self.freed.push(dropped),
                Fate::List(snapshot) => self.listed.push(((dataset, snapshot), dropped)),
                Fate::Forget => {}
            }
        }
    }

    /// Frees extents that are in no tree.
    pub(crate) fn free(&mut self, dropped: Vec<Dropped>) {
        self.freed.extend(dropped);
    }

    /// Plans a command, whose commit ends with a sequence.
    pub(crate) fn plan(
        &mut self,
        command: Command,
        sequence: u64,
        plan: &mut Plan<'_>,
        update: &mut Update<'_>,
    ) -> Result<()> {
        let (Command::Create((dataset, _))
        | Command::Delete((dataset, _))
        | Command::Rollback((dataset, _))
        | Command::Clone { dataset, .. }
        | Command::Destroy(dataset)
        | Command::Copy { dataset, .. }
        | Command::Receive { snapshot: (dataset, _), .. }) = command;
        let mut history = plan.histories.of(dataset);
        match command {
            // The tree has what was copied.
            Command::Copy { .. } => return Ok(()),
            Command::Create((_, number)) | Command::Receive { snapshot: (_, number), .. } => {
                let tree =
                    plan.trees.get(&dataset).map(|tree| update.write_back(tree)).transpose()?;
                let root = tree.as_ref().and_then(Tree::stored);
                tree.into_iter().for_each(|tree| drop(plan.trees.insert(dataset, tree)));
                let epoch = plan.context.epoch();
                history.snapshots.insert(number, SnapshotRoot { root, epoch, sequence });
            }
            Command::Delete(snapshot) => self.delete(snapshot, &mut history, plan)?,
            Command::Rollback(snapshot) => self.roll_back(snapshot, &mut history, plan)?,
            Command::Clone { origin, .. } => {
                let root = plan.histories.snapshot(origin).ok_or_else(|| no_such("a snapshot"))?;
                history.origin = Some(Origin { snapshot: origin, epoch: root.epoch });
                plan.set_tree(dataset, root);
            }
            Command::Destroy(_) => {
                // From the oldest on, no extent goes from a list to another one.
                while let Some((&number, _)) = history.snapshots.first_key_value() {
                    self.delete((dataset, number), &mut history, plan)?;
                }
                history.origin = None;
            }
        }
        self.history = Some((dataset, history));
        Ok(())
    }

    /// The list of a snapshot, with what this flush has added.
    fn list(&self, snapshot: SnapshotId, plan: &Plan<'_>) -> Result<Vec<Dropped>> {
        let mut list = plan.histories.deadlists.read(plan.context, plan.root_tree, snapshot)?;
        let added = self.listed.iter().filter(|(list, _)| *list == snapshot);
        list.extend(added.map(|(_, dropped)| Dropped::logged(dropped.extent, dropped.birth)));
        Ok(list)
    }

    fn delete(
        &mut self,
        snapshot: SnapshotId,
        history: &mut History,
        plan: &Plan<'_>,
    ) -> Result<()> {
        let (dataset, number) = snapshot;
        for dropped in self.list(snapshot, plan)? {
            self.unlisted.push((snapshot, dropped.extent.address));
            match history.fate_before(number, dropped.birth) {
                Fate::Free => self.freed.push(dropped),
                Fate::List(before) => self.listed.push(((dataset, before), dropped)),
                Fate::Forget => {}
            }
        }
        history.snapshots.remove(&number).ok_or_else(|| no_such("a snapshot"))?;
        Ok(())
    }

    /// Makes the tree of each snapshot the live one, from the newest to the one that is asked for.
    fn roll_back(
        &mut self,
        snapshot: SnapshotId,
        history: &mut History,
        plan: &mut Plan<'_>,
    ) -> Result<()> {
        let (dataset, number) = snapshot;
        loop {
            let (newest, root) =
                history.snapshots.pop_last().ok_or_else(|| no_such("a snapshot"))?;
            if let Some(tree) = plan.trees.get(&dataset) {
                born_since(plan.context, tree, root.epoch, &mut self.freed)?;
            }
            // The live tree needs again what it has dropped since.
            let list = (dataset, newest);
            let entries = self.list(list, plan)?;
            self.unlisted.extend(entries.iter().map(|dropped| (list, dropped.extent.address)));
            plan.set_tree(dataset, &root);
            if newest == number {
                history.snapshots.insert(newest, root);
                return Ok(());
            }
        }
    }

    /// Does what was planned. Returns what is freed, and whether there are other snapshots now.
    pub(crate) fn take(self, histories: &mut Histories) -> (Vec<Dropped>, bool) {
        self.listed.into_iter().for_each(|(list, dropped)| histories.deadlists.add(list, dropped));
        self.unlisted
            .into_iter()
            .for_each(|(list, address)| histories.deadlists.remove(list, address));
        let has_changed = self.history.is_some();
        self.history.into_iter().for_each(|(dataset, history)| histories.set(dataset, history));
        (self.freed, has_changed)
    }
}

impl Plan<'_> {
    /// Makes the tree of a snapshot that of a dataset.
    fn set_tree(&mut self, dataset: u32, root: &SnapshotRoot) {
        match root.root {
            Some(_) => drop(self.trees.insert(dataset, root.tree())),
            None => drop(self.trees.remove(&dataset)),
        }
    }
}

/// Finds the parts of a tree that were born behind an epoch. Below a part that was not, there is none that was.
fn born_since(context: &Context, tree: &Tree, epoch: u64, found: &mut Vec<Dropped>) -> Result<()> {
    walk(context, tree, &mut |part| {
        match part {
            Part::Node(pointer) if pointer.birth <= epoch => return Ok(false),
            Part::Node(pointer) => found.push(Dropped::new(pointer.extent, pointer.birth)),
            Part::Run(run) if run.pointer().entered <= epoch => {}
            Part::Run(run) => {
                found.extend(Dropped::of_run(run.pointer()));
                let values = large_values(run)?.into_iter().flat_map(Dropped::of_value);
                found.extend(values.filter(|dropped| dropped.birth > epoch));
            }
        }
        Ok(true)
    })
}
