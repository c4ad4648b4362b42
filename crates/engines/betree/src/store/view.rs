//! The views of readers: memtables above trees, as one thing that never changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_contract::KeyRange;

use crate::catalogue::SnapshotId;
use crate::dataset::histories::SnapshotTrees;
use crate::memtable::Memtable;
use crate::run::{DeletedRange, DeletedRanges};
use crate::tree::Tree;

/// The trees of all datasets, by number.
pub(crate) type Trees = BTreeMap<u32, Tree>;

/// A state of the store. Its active memtable gets more versions, with sequences above those that its readers ask for.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// The newest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The trees, which have all of earlier memtables.
    pub(crate) trees: Arc<Trees>,
    /// The trees of the snapshots that earlier memtables have made.
    pub(crate) snapshots: Arc<SnapshotTrees>,
    /// Datasets that a commit has replaced, the latest last, until the memtable of the commit is flushed.
    pub(crate) replaced: Vec<Replaced>,
    /// Copies that commits have brought into datasets from others, the latest last, until the memtable of each is flushed.
    pub(crate) grafts: Vec<Arc<Graft>>,
}

/// The effect of a commit that is not in its memtable, which it ends.
pub(crate) enum Behind {
    /// A dataset, which a clone is new as, is what a snapshot is.
    Base { dataset: u32, base: Base, is_new: bool },
    /// A dataset has keys of others.
    Graft(Grafting),
}

/// Keys that a commit brings into a dataset from others.
pub(crate) struct Grafting {
    pub(crate) dataset: u32,
    pub(crate) parts: Vec<GraftPart>,
    /// The keys of the dataset that have no value any more beside those of the parts.
    pub(crate) ranges: DeletedRanges,
    /// Whether the memtable of the commit has a removal of all keys that change.
    pub(crate) is_noted: bool,
    /// Bytes of keys and values of the parts, at the most that is expected.
    pub(crate) bytes: u64,
}

/// Keys of one dataset that come to another one, each with another beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraftPart {
    pub(crate) source: u32,
    /// The keys: from the first up to the second.
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
    /// The beginning that all of them have, and the one that they get.
    pub(crate) old_prefix: Vec<u8>,
    pub(crate) new_prefix: Vec<u8>,
    /// Whether the keys come without values: they are deleted there.
    pub(crate) deletes: bool,
}

impl GraftPart {
    /// The keys of a range that begin with a prefix, which another one replaces.
    pub(crate) fn of_range(source: u32, range: &KeyRange, old: &[u8], new: &[u8]) -> Self {
        let of_prefix = KeyRange::prefix(old);
        let end = match (range.end(), of_prefix.end()) {
            (Some(end), Some(other)) => Some(end.min(other)),
            (end, other) => end.or(other),
        };
        Self {
            source,
            start: range.start().max(old).to_vec(),
            end: end.map(<[u8]>::to_vec),
            old_prefix: old.to_vec(),
            new_prefix: new.to_vec(),
            deletes: false,
        }
    }

    /// The keys of the destination that the part may have, if there is any.
    pub(crate) fn destination(&self) -> Option<DeletedRange> {
        let moved = |key: &[u8]| -> Option<Vec<u8>> {
            let rest = key.strip_prefix(&self.old_prefix[..])?;
            Some([&self.new_prefix, rest].concat())
        };
        let start = moved(&self.start)?;
        let end = match self.end.as_deref().and_then(moved) {
            Some(end) => Some(end),
            // The part ends where its prefix does.
            None => KeyRange::prefix(&self.new_prefix).end().map(<[u8]>::to_vec),
        };
        match end.as_ref().is_none_or(|end| start < *end) {
            true => Some(DeletedRange { start: start.into(), end: end.map(Into::into) }),
            false => None,
        }
    }
}

/// A graft that was committed: a layer of its dataset, directly above the memtable that its commit has ended.
pub(crate) struct Graft {
    pub(crate) of: Grafting,
    /// The last sequence of the commit.
    pub(crate) sequence: u64,
    /// The state that the parts are of: before the commit.
    pub(crate) view: Arc<View>,
    pub(crate) at: u64,
}

/// A layer of a dataset above its tree.
pub(crate) enum Layer<'a> {
    Memtable(&'a Arc<Memtable>),
    Graft(&'a Arc<Graft>),
}

/// The state that lies below the layers of a dataset.
pub(crate) enum Below<'a> {
    Tree(Option<&'a Tree>),
    /// A dataset as of a sequence, in the same view: it has layers of its own.
    Dataset(u32, u64),
}

/// A snapshot, which a dataset begins as.
///
/// ```text
///  layers of a clone         layers of the origin
///  ┌──────────────────┐      ┌─────────────────────────────┐
///  │ memtables behind │      │ newer memtables             │
///  │ its commit       │      ├─────────────────────────────┤ ◀─ the snapshot's commit
///  ├──────────────────┤      │ the memtable that it ended, │
///  │ pending snapshot─┼─────▶│ older ones, tree            │
///  └──────────────────┘      └─────────────────────────────┘
/// ```
#[derive(Clone)]
pub(crate) enum Base {
    /// The snapshot is in a tree.
    Tree(Tree),
    /// The memtable that the snapshot's commit has ended waits for its flush: the view has the snapshot as its dataset
    /// was at the last sequence of that commit. No tree has anything behind it before the flush, which makes the base a
    /// tree.
    Pending { snapshot: SnapshotId, sequence: u64 },
}

impl Base {
    /// The base in a view that has these trees of snapshots.
    fn resolve(&mut self, snapshots: &SnapshotTrees) {
        if let Self::Pending { snapshot, .. } = self
            && let Some(tree) = snapshots.get(snapshot)
        {
            *self = Self::Tree(tree.clone());
        }
    }
}

/// A dataset that a commit has replaced by a snapshot: rolled back, or made as a clone.
#[derive(Clone)]
pub(crate) struct Replaced {
    dataset: u32,
    /// The last sequence of the commit: what is before that is in no memtable and no tree of the dataset any more.
    sequence: u64,
    base: Base,
    /// Whether there was no such dataset before: a thread that finds the clone in the catalogue before the commit is
    /// visible sees it whole.
    is_new: bool,
}

impl View {
    /// The memtables, the newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// The layers that a reader of a dataset at a sequence looks at, the newest first, and what is below them.
    #[inline]
    pub(crate) fn of(&self, dataset: u32, at: u64) -> (impl Iterator<Item = Layer<'_>>, Below<'_>) {
        let of_dataset = |replaced: &&Replaced| {
            replaced.dataset == dataset && (replaced.sequence <= at || replaced.is_new)
        };
        let (from, below) = match self.replaced.iter().rev().find(of_dataset) {
            Some(Replaced { sequence: from, base, .. }) => match base {
                Base::Tree(tree) => (*from, Below::Tree(Some(tree))),
                // A snapshot is older than what begins as it, so there is an end to that.
                Base::Pending { snapshot, sequence } => {
                    (*from, Below::Dataset(snapshot.0, *sequence))
                }
            },
            None => (0, Below::Tree(self.trees.get(&dataset))),
        };
        let layers = self.memtables().take_while(move |memtable| memtable.before >= from).flat_map(
            move |memtable| {
                let graft = self.graft_above(memtable, dataset, at);
                graft.map(Layer::Graft).into_iter().chain([Layer::Memtable(memtable)])
            },
        );
        (layers, below)
    }

    /// The graft that lies between a memtable and the next one, if a reader of a dataset at a sequence sees one.
    #[inline]
    fn graft_above(&self, memtable: &Memtable, dataset: u32, at: u64) -> Option<&Arc<Graft>> {
        self.grafts.iter().find(|graft| {
            graft.of.dataset == dataset
                && graft.sequence <= at
                && (memtable.before + 1..=memtable.last()).contains(&graft.sequence)
        })
    }

    /// Bytes that the next flushes have to write beside memtables, about.
    pub(crate) fn grafted_bytes(&self) -> u64 {
        self.grafts.iter().map(|graft| graft.of.bytes).sum()
    }

    /// The state behind a new active memtable. A commit that ends with the memtable's last sequence may have an effect beside
    /// its changes.
    pub(crate) fn rotated(&self, next: Arc<Memtable>) -> Self {
        self.active.set_next(Arc::downgrade(&next));
        let mut frozen = vec![Arc::clone(&self.active)];
        frozen.extend(self.frozen.iter().cloned());
        Self { active: next, frozen, ..self.clone() }
    }

    /// The state in which a dataset is what a snapshot is, from a sequence on.
    pub(crate) fn replacing(mut self, sequence: u64, replaced: (u32, Base), is_new: bool) -> Self {
        let (dataset, mut base) = replaced;
        // The snapshot may have been flushed since the commit looked for it.
        base.resolve(&self.snapshots);
        self.replaced.push(Replaced { dataset, sequence, base, is_new });
        self
    }

    /// The state with a graft.
    pub(crate) fn with_graft(mut self, graft: Graft) -> Self {
        self.grafts.push(Arc::new(graft));
        self
    }

    /// The state in which the trees have the oldest frozen memtable.
    pub(crate) fn flushed(&self, trees: Arc<Trees>, snapshots: Option<Arc<SnapshotTrees>>) -> Self {
        let mut flushed = Self { trees, ..self.clone() };
        let last = flushed.frozen.pop().map_or(0, |memtable| memtable.last());
        flushed.replaced.retain(|replaced| replaced.sequence > last);
        flushed.grafts.retain(|graft| graft.sequence > last);
        flushed.snapshots = snapshots.unwrap_or(flushed.snapshots);
        for replaced in &mut flushed.replaced {
            replaced.base.resolve(&flushed.snapshots);
            if let Base::Pending { sequence, .. } = replaced.base {
                assert!(sequence > last, "a flushed snapshot has a tree");
            }
        }
        flushed
    }
}
