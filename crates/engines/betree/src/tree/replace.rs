//! Replacing runs of a tree by copies of themselves at other places.
//!
//! A replacement names the slot of its run by a key and the level of its node. Splits and merges of nodes keep a slot's
//! keys together, so the slot of a run that is still there has that key; a run that a flush has replaced meanwhile is
//! left alone, and its copy is of no use. A run that is written in steps shares extents with its neighbours in the buffer,
//! so it stays until it is flushed. Costs: the nodes on the paths to the slots are changed, as a flush changes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Result;
use crate::message::{LargeValue, Message};
use crate::run::{
    ENTRY_BYTES_MAX, Reads, Run, RunCursor, RunOptions, RunPlace, RunPointer, RunWriter, Scratch,
    Source,
};
use crate::storage::Extent;
use crate::tree::node::{Link, Node};
use crate::tree::{Dropped, Tree, Update, in_run};

/// A run that is to be replaced.
pub(crate) struct Replacement {
    /// The level of the node that has its slot, and a key of that.
    pub(crate) level: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) run: Arc<Run>,
    pub(crate) by: By,
}

/// The replacement of a run.
pub(crate) enum By {
    /// The same bytes in other extents.
    Copy(SmallVec<[Extent; 2]>),
    /// A run of a class, in which large values have been replaced by others of the same bytes.
    Rewrite { class: u8, values: Vec<(LargeValue, LargeValue)> },
}

impl Update<'_> {
    /// The tree in which runs are replaced. Extents that were written before and that these runs use become part of
    /// the update, and are appended to `used`.
    pub(crate) fn replace(
        &mut self,
        tree: &Tree,
        all: &[Replacement],
        used: &mut Vec<Extent>,
    ) -> Result<Tree> {
        let replaced = self.replace_below(&tree.root, &all.iter().collect::<Vec<_>>(), used)?;
        Ok(match replaced {
            Some(root) => Tree { root: Link::Fresh(Arc::new(root)) },
            None => tree.clone(),
        })
    }

    /// The node of a link with its runs replaced. `None`: there is nothing to be replaced.
    fn replace_below(
        &mut self,
        link: &Link,
        all: &[&Replacement],
        used: &mut Vec<Extent>,
    ) -> Result<Option<Node>> {
        let node = self.context().node(link)?;
        let mut of_slots: BTreeMap<usize, Vec<&Replacement>> = BTreeMap::new();
        for one in all.iter().filter(|one| one.level <= node.level) {
            of_slots.entry(node.slot_of(&one.key)).or_default().push(one);
        }
        let mut changed: Option<Node> = None;
        for (number, of_slot) in of_slots {
            let (here, below): (Vec<_>, Vec<_>) =
                of_slot.into_iter().partition(|one| one.level == node.level);
            for one in here {
                assert!(one.run.pointer().base.is_none(), "a run in steps stays where it is");
                // A run that has been replaced is not there any more.
                let slot = &changed.as_ref().unwrap_or(&node).slots[number];
                let same = |run: &Arc<Run>| run.pointer() == one.run.pointer();
                let at = slot.runs.iter().position(same);
                let is_base = matches!(&slot.link, Link::Leaf(Some(base)) if same(base));
                if at.is_none() && !is_base {
                    continue;
                }
                let run = self.replacement(one, used)?;
                let slot = &mut changed.get_or_insert_with(|| Node::clone(&node)).slots[number];
                match at {
                    Some(at) => slot.runs[at] = run,
                    None => slot.link = Link::Leaf(Some(run)),
                }
            }
            if !below.is_empty()
                && let Some(child) = self.replace_below(&node.slots[number].link, &below, used)?
            {
                let slot = &mut changed.get_or_insert_with(|| Node::clone(&node)).slots[number];
                slot.link = Link::Fresh(Arc::new(child));
            }
        }
        if let (Some(_), Link::Stored(pointer)) = (&changed, link) {
            self.drop_extent(Dropped::new(pointer.extent, pointer.birth));
        }
        Ok(changed)
    }

    /// The run that takes the place of another one.
    fn replacement(&mut self, one: &Replacement, used: &mut Vec<Extent>) -> Result<Arc<Run>> {
        let run = match &one.by {
            By::Copy(extents) => {
                let entered = self.context().epoch();
                let pointer =
                    RunPointer { extents: extents.clone(), entered, ..one.run.pointer().clone() };
                self.take_written(extents, used);
                self.context().open_run(pointer)
            }
            By::Rewrite { class, values } => self.rewrite(&one.run, *class, values, used)?,
        };
        self.drop_run(&one.run);
        Ok(run)
    }

    fn rewrite(
        &mut self,
        run: &Arc<Run>,
        class: u8,
        values: &[(LargeValue, LargeValue)],
        used: &mut Vec<Extent>,
    ) -> Result<Arc<Run>> {
        let context = self.context();
        let options = RunOptions { class, ..self.options() };
        let mut cursor = RunCursor::new(Arc::clone(run), &[], None, Reads::Once)?;
        let mut written = Vec::new();
        let mut replaced = Vec::new();
        let written_whole = (|| {
            let mut scratch = Scratch::default();
            let (extents, place) = (&*context.storage, RunPlace::Whole);
            let mut writer = RunWriter::new(extents, &mut written, &options, place, &mut scratch);
            let ranges = cursor.deleted_ranges().clone();
            ranges.iter().for_each(|range| writer.delete_range(&range.start, range.end.as_deref()));
            cursor.first()?;
            while let Some((key, message)) = cursor.entry() {
                let large = in_run(run, message.large())?;
                let by = large.and_then(|large| values.iter().find(|(old, _)| *old == large));
                let payload = match by {
                    Some((_, new)) => {
                        let new = LargeValue { entered: options.birth, ..new.clone() };
                        Some(in_run(run, message.with_large(&new))?)
                    }
                    None => None,
                };
                // A patch that leaves no room for a longer reference keeps its value where it is.
                let payload = payload.filter(|new| key.len() + new.len() <= ENTRY_BYTES_MAX);
                if let (Some(by), Some(_)) = (by, &payload) {
                    replaced.push(by);
                }
                let payload = payload.as_deref().unwrap_or(message.payload);
                writer.add(key, Message { kind: message.kind, payload })?;
                cursor.next()?;
            }
            writer.finish()
        })();
        self.note_written(written);
        let pointer = written_whole?.expect("a run has a message, or a range");
        for (old, new) in replaced {
            let extents: Vec<_> = new.pieces.iter().map(|piece| piece.extent).collect();
            self.take_written(&extents, used);
            self.drop_values([old.clone()]);
        }
        Ok(context.open_run(pointer))
    }
}
