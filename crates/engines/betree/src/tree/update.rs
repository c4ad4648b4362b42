//! Updates: sorted messages go into a tree, and full buffers move on.
//!
//! An update makes new nodes for those that it changes, and leaves all others, and all runs, as they are. So readers of
//! the earlier tree are not disturbed, and an update that fails is undone by freeing what it wrote.
//!
//! **Push**: the messages are cut at the pivots of a node; each part becomes the newest run of a slot's buffer. A buffer,
//! a leaf or a subtree that a deleted range covers whole is dropped there and then, without reading its leaves. In
//! persistent memory the run is appended in place, behind the one before it in the buffer. Where as many messages arrive as a buffer
//! collects, and it has none, they go to the child at once: they are not written at that level.
//!
//! **Settle**: a buffer of as many bytes as the settings say is *flushed*: above level 1, its runs are merged, pushed to
//! the child, and the child settles; at level 1 they are merged with the leaf, and the result is cut into leaves. A
//! buffer of too many runs, but too few bytes, is *compacted*: its newest runs of similar size become one.
//!
//! | step | reads | writes |
//! |---|---|---|
//! | push, a message | none | it, once |
//! | flush of a buffer of `b` bytes to a node | `b` | `b` |
//! | flush of a buffer of `b` bytes to a leaf of `l` | `b + l` | at most `b + l` |
//! | compaction | what is compacted | the same: a byte at most `log(b / run)` times |

use std::sync::Arc;

use halite_sim::planted;

use crate::Result;
use crate::allocation::Purpose;
use crate::large::{read_large, write_large};
use crate::message::{self, Action, HeldMessage, Kind, LargeValue, Message, is_defect};
use crate::placement::Placed;
use crate::run::{
    DeletedRanges, ENTRY_BYTES_MAX, MergeCursor, Reads, Run, RunCursor, RunOptions, RunPlace,
    RunPointer, RunWriter, Scratch, Source,
};
use crate::storage::{Extent, Writes};
use crate::tree::fit::{Below, Values, encoded, fit};
use crate::tree::leaf_cut::LeafCut;
use crate::tree::node::{Bounds, Link, Node, Slot};
use crate::tree::walk::{Part, large_values, walk_slot};
use crate::tree::{Context, Dropped, Tree, in_run};

/// Bytes of pivots from which on a node is divided, though it has few slots: it has to fit an extent.
const PIVOTS_MAX: usize = 256 << 10;

/// Bytes that the first extent of a buffer has at least if it is appended to in place; later ones have as many as the
/// buffer, so that it has about half as much again to spare.
const SPARE_MIN: u64 = 64 << 10;

/// A run is compacted with the newer ones if it has at most so many times their bytes.
const SIMILAR: u64 = 2;

/// A source of messages of any kind.
pub(crate) type BoxedSource = Box<dyn Source + Send>;

/// How many blocks an update may write that brings all buffers to their leaves.
struct Emptying {
    budget: u64,
    /// Whether it was used up.
    is_over: bool,
}

/// A change of trees.
pub(crate) struct Update<'a> {
    context: &'a Context,
    options: RunOptions,
    scratch: Scratch,
    placed: Placed,
    emptying: Option<Emptying>,
    /// The action of the dataset whose tree is changed.
    action: Option<Arc<Action>>,
    /// Nodes that were opened, to be changed.
    opened: u64,
    written: Vec<Extent>,
    /// Extents that were written before, for values in memtables.
    taken: Vec<Extent>,
    dropped: Vec<Dropped>,
}

impl<'a> Update<'a> {
    /// An update of a tree whose data has a placement.
    pub(crate) fn new(context: &'a Context, placed: Placed) -> Self {
        let settings = &context.settings;
        let options = RunOptions {
            class: placed.buffers(),
            small: (0, 0),
            part_bytes: settings.part_bytes,
            compression: settings.compression,
            has_filter: true,
            seed: context.seed,
            birth: context.epoch(),
        };
        Self {
            context,
            options,
            scratch: Scratch::default(),
            placed,
            emptying: None,
            action: None,
            opened: 0,
            written: Vec::new(),
            taken: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// An update that brings all buffers to their leaves, until it has written so many blocks.
    pub(crate) fn emptying(context: &'a Context, placed: Placed, budget: u64) -> Self {
        Self { emptying: Some(Emptying { budget, is_over: false }), ..Self::new(context, placed) }
    }

    /// Whether an update that empties buffers ended before it was through.
    pub(crate) fn has_more(&self) -> bool {
        self.emptying.as_ref().is_some_and(|emptying| emptying.is_over)
    }

    /// The trees that follow are of a dataset, whose data has a placement.
    pub(crate) fn of_dataset(&mut self, dataset: u32, placed: Placed) {
        self.action = self.context.actions.of(dataset);
        self.options.class = placed.buffers();
        self.placed = placed;
    }

    /// The tree without buffers, as far as the update may write.
    pub(crate) fn empty_buffers(&mut self, tree: &Tree) -> Result<Tree> {
        if !self.may_empty() {
            return Ok(tree.clone());
        }
        self.apply(tree, Vec::new(), 0)
    }

    /// Whether buffers that are not full are to move on, too.
    fn may_empty(&mut self) -> bool {
        let Some(emptying) = &mut self.emptying else { return false };
        let written: u64 = self.written.iter().map(|extent| u64::from(extent.blocks)).sum();
        // The checkpoint writes the nodes that were opened.
        emptying.is_over |= written + self.opened >= emptying.budget;
        !emptying.is_over
    }

    /// Frees everything that was written: the trees that this update made are of no use then.
    pub(crate) fn undo(self) {
        for extent in self.written {
            let freed = self.context.storage.recycle(extent, false);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }

    /// Takes the extents that the trees so far do not need any more.
    pub(crate) fn take_dropped(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.dropped)
    }

    /// The parts that all trees share.
    pub(super) fn context(&self) -> &'a Context {
        self.context
    }

    /// How runs are written.
    pub(super) fn options(&self) -> RunOptions {
        self.options
    }

    /// Notes an extent that trees do not need any more.
    pub(super) fn drop_extent(&mut self, dropped: Dropped) {
        self.dropped.push(dropped);
    }

    /// Notes extents that were written for the update.
    pub(super) fn note_written(&mut self, written: Vec<Extent>) {
        self.written.extend(written);
    }

    /// Takes over extents that were written before.
    pub(super) fn take_written(&mut self, extents: &[Extent], taken: &mut Vec<Extent>) {
        self.written.extend_from_slice(extents);
        taken.extend_from_slice(extents);
    }

    /// Writes the nodes of a tree.
    pub(crate) fn write_back(&mut self, tree: &Tree) -> Result<Tree> {
        self.context.write_back(tree, &mut self.written)
    }

    /// Notes that trees lead to large values that the log has led to, and that some of these have been replaced already.
    pub(crate) fn take_values(&mut self, all: Vec<LargeValue>, replaced: Vec<LargeValue>) {
        let extents = all.iter().flat_map(|value| &value.pieces).map(|piece| piece.extent);
        self.taken.extend(extents);
        self.drop_values(replaced);
    }

    /// Notes that the trees are used from now on. Returns the extents that they do not need any more.
    pub(crate) fn finish(self) -> Result<Vec<Dropped>> {
        self.context.storage.adopt(&self.written)?;
        self.context.storage.adopt(&self.taken)?;
        Ok(self.dropped)
    }

    /// The tree with the messages of sources, the newest first, of about so many bytes.
    pub(crate) fn apply(
        &mut self,
        tree: &Tree,
        sources: Vec<BoxedSource>,
        bytes: u64,
    ) -> Result<Tree> {
        let mut root = self.open(&tree.root)?;
        let mut merged = MergeCursor::merger(sources, self.action.clone());
        merged.first()?;
        self.push(&mut root, (None, None), &mut merged, bytes)?;
        self.settle(&mut root, (None, None))?;
        loop {
            let level = root.level + 1;
            let (pivots, mut nodes) = divide(root, self.context.settings.fanout);
            if nodes.len() == 1 {
                root = nodes.remove(0);
                break;
            }
            let slot = |node| Slot { runs: Vec::new(), link: Link::Fresh(Arc::new(node)) };
            root = Node { level, pivots, slots: nodes.into_iter().map(slot).collect() };
        }
        while let ([Slot { runs, link }], 2..) = (&root.slots[..], root.level)
            && runs.is_empty()
        {
            root = self.open(&link.clone())?;
        }
        Ok(Tree { root: Link::Fresh(Arc::new(root)) })
    }

    /// The node of a link, to be changed: its stored form is not needed any more.
    fn open(&mut self, link: &Link) -> Result<Node> {
        self.opened += 1;
        if let Link::Stored(pointer) = link {
            self.dropped.push(Dropped::new(pointer.extent, pointer.birth));
        }
        Ok(Arc::unwrap_or_clone(self.context.node(link)?))
    }

    /// Brings messages into the buffers of a node, from where the cursor is up to the node's bound: about so many bytes.
    fn push<S: Source>(
        &mut self,
        node: &mut Node,
        bounds: Bounds<'_>,
        merged: &mut MergeCursor<S>,
        bytes: u64,
    ) -> Result<()> {
        let each = bytes / node.slots.len() as u64;
        let is_enough = node.level > 1
            && each >= self.context.settings.buffer_bytes
            && merged.deleted_ranges().is_empty();
        let mut number = 0;
        while number < node.slots.len() {
            let (low, high) = node.bounds_of(number, bounds);
            if is_enough && node.slots[number].runs.is_empty() {
                let has_any =
                    merged.entry().is_some_and(|(key, _)| high.is_none_or(|high| key < high));
                if has_any {
                    let mut child = self.open(&node.slots[number].link)?;
                    self.push(&mut child, (low, high), merged, each)?;
                    let (pivots, slots) = self.settle_child(child, (low, high))?;
                    let count = slots.len();
                    node.replace(number, pivots, slots);
                    number += count;
                } else {
                    number += 1;
                }
                continue;
            }
            let ranges = merged.deleted_ranges().clip(low.unwrap_or_default(), high);
            let is_covered = ranges.first().is_some_and(|range| {
                let ends = match (&range.end, high) {
                    (None, _) => true,
                    (Some(end), Some(high)) => **end >= *high,
                    (Some(_), None) => false,
                };
                *range.start <= *low.unwrap_or_default() && ends
            });
            let ranges = if is_covered { DeletedRanges::default() } else { ranges };
            // Runs that are covered are dropped, with their extents.
            let before = if is_covered { &[][..] } else { &node.slots[number].runs };
            let place = self.behind(before);
            let slot = node.slots[number].clone();
            let below = Below { runs: &slot.runs, link: Some(&slot.link) };
            let run = self.write_run(&ranges, merged, high, (place, below))?;
            if is_covered {
                let level = node.level;
                let covered = std::mem::replace(&mut node.slots[number], Slot::empty(level));
                planted!(
                    "betree.deleted-range-forgets-buffers",
                    node.slots[number].runs = covered.runs.clone(),
                    self.drop_slot(&covered)?
                );
            }
            node.slots[number].runs.splice(..0, run);
            number += 1;
        }
        self.drop_values(merged.take_dropped());
        Ok(())
    }

    /// Where a run goes that comes to a buffer of these runs.
    fn behind(&self, runs: &[Arc<Run>]) -> RunPlace {
        if !self.context.settings.appends {
            return RunPlace::Whole;
        }
        let bytes: u64 = runs.iter().map(|run| run.pointer().bytes).sum();
        let spare = bytes.max(SPARE_MIN).min(self.context.settings.leaf_buffer_bytes) as usize;
        RunPlace::InSteps { behind: runs.first().and_then(|run| run.pointer().tail()), spare }
    }

    /// Writes a run: deleted ranges, and the messages up to a key. `None`, if there is nothing of that.
    fn write_run<S: Source>(
        &mut self,
        ranges: &DeletedRanges,
        merged: &mut MergeCursor<S>,
        high: Option<&[u8]>,
        place: (RunPlace, Below<'_>),
    ) -> Result<Option<Arc<Run>>> {
        let mut values = Values::new(self.placed.clone());
        let run = self.write_messages(ranges, merged, high, place, &mut values);
        self.written.append(&mut values.written);
        self.drop_values(values.dropped);
        Ok(run?.map(|pointer| self.context.open_run(pointer)))
    }

    fn write_messages<S: Source>(
        &mut self,
        ranges: &DeletedRanges,
        merged: &mut MergeCursor<S>,
        high: Option<&[u8]>,
        (place, below): (RunPlace, Below<'_>),
        values: &mut Values,
    ) -> Result<Option<RunPointer>> {
        let (context, birth) = (self.context, self.options.birth);
        let action = self.action.as_deref();
        let (written, scratch) = (&mut self.written, &mut self.scratch);
        let mut writer = RunWriter::new(&*context.storage, written, &self.options, place, scratch);
        ranges.iter().for_each(|range| writer.delete_range(&range.start, range.end.as_deref()));
        while let Some((key, message)) = merged.entry()
            && high.is_none_or(|high| key < high)
        {
            let is_deleted = merged.deleted_ranges().covering(key).is_some();
            let below = Below { link: below.link.filter(|_| !is_deleted), ..below };
            let fitted = fit(context, birth, (key, message), below, action, values)?;
            let message = match &fitted {
                Some((kind, payload)) => Message { kind: *kind, payload },
                None => message,
            };
            writer.add(key, message)?;
            merged.next()?;
        }
        writer.finish()
    }

    /// Whether there is a buffer with messages below a link.
    fn has_buffers(&self, link: &Link) -> Result<bool> {
        if matches!(link, Link::Leaf(_)) {
            return Ok(false);
        }
        for slot in &self.context.node(link)?.slots {
            if !slot.runs.is_empty() || self.has_buffers(&slot.link)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves the buffers of a node on that are full.
    fn settle(&mut self, node: &mut Node, bounds: Bounds<'_>) -> Result<()> {
        let settings = self.context.settings;
        let limit =
            if node.level == 1 { settings.leaf_buffer_bytes } else { settings.buffer_bytes };
        let mut number = 0;
        while number < node.slots.len() {
            let may_empty = self.may_empty();
            let slot = &node.slots[number];
            let has_buffers = match &slot.link {
                _ if !slot.runs.is_empty() => true,
                Link::Leaf(_) => false,
                link => may_empty && self.has_buffers(link)?,
            };
            if !has_buffers || !may_empty && slot.buffered_bytes() < limit {
                if slot.runs.len() > settings.runs_max {
                    self.compact(&mut node.slots[number])?;
                }
                number += 1;
                continue;
            }
            let (pivots, slots) = match node.level {
                1 => self.flush_to_leaf(&node.slots[number])?,
                _ => self.flush_to_node(&node.slots[number], node.bounds_of(number, bounds))?,
            };
            let before = node.slots.len();
            let count = slots.len();
            node.replace(number, pivots, slots);
            // The neighbours of a slot that is gone have moved up; the last slot of a node stays.
            number += if node.slots.len() < before { 0 } else { count.max(1) };
        }
        Ok(())
    }

    /// Makes one run of a buffer's newest.
    fn compact(&mut self, slot: &mut Slot) -> Result<()> {
        let mut bytes = slot.runs[0].pointer().bytes;
        let mut count = 1;
        while let Some(run) = slot.runs.get(count)
            && (count < 2 || run.pointer().bytes <= SIMILAR * bytes)
        {
            bytes += run.pointer().bytes;
            count += 1;
        }
        let mut merged = MergeCursor::merger(cursors(&slot.runs[..count])?, self.action.clone());
        let ranges = merged.deleted_ranges().clone();
        merged.first()?;
        let older = slot.runs[count..].to_vec();
        let place = self.behind(&older);
        let below = Below { runs: &older, link: Some(&slot.link) };
        let run = self.write_run(&ranges, &mut merged, None, (place, below))?;
        self.drop_values(merged.take_dropped());
        let compacted: Vec<_> = slot.runs.splice(..count, run).collect();
        compacted.iter().for_each(|run| self.drop_run(run));
        Ok(())
    }

    /// Merges a buffer, and hands it on to the node below. Returns what takes the slot's place.
    fn flush_to_node(&mut self, slot: &Slot, bounds: Bounds<'_>) -> Result<Replacement> {
        let mut child = self.open(&slot.link)?;
        let mut merged = MergeCursor::merger(cursors(&slot.runs)?, self.action.clone());
        merged.first()?;
        self.push(&mut child, bounds, &mut merged, slot.buffered_bytes())?;
        slot.runs.iter().for_each(|run| self.drop_run(run));
        self.settle_child(child, bounds)
    }

    /// Settles a child. Returns what takes the place of the slot above it, whose buffer is empty.
    fn settle_child(&mut self, mut child: Node, bounds: Bounds<'_>) -> Result<Replacement> {
        self.settle(&mut child, bounds)?;
        if child.slots.iter().all(Slot::is_empty) {
            return Ok((Vec::new(), Vec::new()));
        }
        let above = |node| Slot { runs: Vec::new(), link: Link::Fresh(Arc::new(node)) };
        let (pivots, nodes) = divide(child, self.context.settings.fanout);
        Ok((pivots, nodes.into_iter().map(above).collect()))
    }

    /// Merges a buffer with its leaf. Returns the leaves that take the slot's place.
    fn flush_to_leaf(&mut self, slot: &Slot) -> Result<Replacement> {
        let Link::Leaf(base) = &slot.link else { unreachable!("a leaf is below level 1") };
        let mut runs = slot.runs.clone();
        runs.extend(base.clone());
        let mut written = Vec::new();
        let leaves = self.write_leaves(&runs, base.as_ref(), &mut written);
        self.written.append(&mut written);
        let (pivots, slots) = leaves?;
        if let Some(heat) = &self.context.runs.heat {
            let bases = slots.iter().filter_map(Slot::base);
            heat.pass_on(runs.iter().map(|run| run.id()), bases.map(|base| base.id()));
        }
        runs.iter().for_each(|run| self.drop_run(run));
        Ok((pivots, slots))
    }

    fn write_leaves(
        &mut self,
        runs: &[Arc<Run>],
        base: Option<&Arc<Run>>,
        written: &mut Vec<Extent>,
    ) -> Result<Replacement> {
        let context = self.context;
        let bytes: u64 = runs.iter().map(|run| run.pointer().bytes).sum();
        let each = bytes / bytes.div_ceil(context.settings.leaf_bytes).max(1);
        let mut merged = MergeCursor::merger(cursors(runs)?, self.action.clone());
        let (mut pivots, mut slots) = (Vec::new(), Vec::new());
        let mut last = Vec::new();
        let mut placed = self.placed.clone();
        if let (Some(base), Some(_)) = (base, &context.runs.heat) {
            placed = placed.staying(base.pointer().extents[0].address.class());
        }
        let mut cut = LeafCut::new(context, placed, each);
        let options = RunOptions { small: (self.placed.small_bytes(), 0), ..self.options };
        let mut scratch = std::mem::take(&mut self.scratch);
        let extents = &*context.storage;
        let mut writer = RunWriter::new(extents, written, &options, RunPlace::Whole, &mut scratch);
        merged.first()?;
        while let Some((key, message)) = merged.entry() {
            if let Some(resolved) = self.resolve(key, message, &runs[0])? {
                if cut.is_before(key, writer.bytes()) {
                    let pointer = writer.finish()?.expect("it has messages");
                    slots.push(Slot::leaf(Some(context.open_run(pointer))));
                    pivots.push(pivot(&last, key));
                    writer =
                        RunWriter::new(extents, written, &options, RunPlace::Whole, &mut scratch);
                }
                cut.add(&mut writer, key);
                writer.add(key, resolved.message())?;
                last.clear();
                last.extend_from_slice(key);
            }
            merged.next()?;
        }
        if let Some(pointer) = writer.finish()? {
            slots.push(Slot::leaf(Some(context.open_run(pointer))));
        }
        self.scratch = scratch;
        self.drop_values(merged.take_dropped());
        Ok((pivots, slots))
    }

    /// The message as a leaf has it, below which there is no other: a value, or none.
    fn resolve<'m>(
        &mut self,
        key: &[u8],
        message: Message<'m>,
        run: &Run,
    ) -> Result<Option<Resolved<'m>>> {
        let large = match message.kind {
            Kind::Delete => return Ok(None),
            Kind::Insert if key.len() + message.payload.len() > ENTRY_BYTES_MAX => None,
            Kind::Insert | Kind::InsertLarge => return Ok(Some(Resolved::AsItIs(message))),
            Kind::PatchedLarge => in_run(run, message.large())?,
            Kind::Upsert | Kind::Custom | Kind::PatchedInsert => None,
        };
        let action = self.action.as_deref();
        let value = large.as_ref().map(|large| read_large(self.context, large)).transpose()?;
        let applied = message::apply(key, message, value, action);
        if applied.is_err() && is_defect(action) {
            // The message stays until the action is back.
            let kept = HeldMessage::from(message);
            let kept = in_run(run, kept.after(key, Message::DELETE, action, &mut |_| ()))?;
            return Ok(Some(Resolved::Owned(kept.kind, kept.payload.to_vec())));
        }
        self.drop_values(large);
        let Some(value) = in_run(run, applied)? else {
            return Ok(None);
        };
        if (value.len() as u64) < self.context.settings.large_value_bytes {
            return Ok(Some(Resolved::Owned(Kind::Insert, value)));
        }
        let class = self.placed.large_value(key, value.len() as u64);
        let mut writes = Writes::new(&self.context.storage);
        let to = (&mut writes, &mut self.written);
        let birth = self.options.birth;
        let large = write_large(self.context, class, Purpose::Metadata, birth, &value, to)?;
        writes.finish()?;
        Ok(Some(Resolved::Owned(Kind::InsertLarge, encoded(&large))))
    }

    pub(super) fn drop_values(&mut self, values: impl IntoIterator<Item = LargeValue>) {
        self.dropped.extend(values.into_iter().flat_map(Dropped::of_value));
    }

    pub(super) fn drop_run(&mut self, run: &Run) {
        self.dropped.extend(Dropped::of_run(run.pointer()));
    }

    /// Drops all that is in a slot, and below.
    fn drop_slot(&mut self, slot: &Slot) -> Result<()> {
        let context = self.context;
        walk_slot(context, slot, &mut |part| match part {
            Part::Node(pointer) => {
                self.dropped.push(Dropped::new(pointer.extent, pointer.birth));
                Ok(true)
            }
            Part::Run(run) => {
                self.drop_run(run);
                let values = large_values(run)?;
                self.drop_values(values);
                Ok(true)
            }
        })
    }
}

/// The slots that take the place of one, and the first keys of all but the first of them.
type Replacement = (Vec<Arc<[u8]>>, Vec<Slot>);

/// A message as a leaf has it.
enum Resolved<'a> {
    AsItIs(Message<'a>),
    Owned(Kind, Vec<u8>),
}

impl Resolved<'_> {
    fn message(&self) -> Message<'_> {
        match self {
            Self::AsItIs(message) => *message,
            Self::Owned(kind, payload) => Message { kind: *kind, payload },
        }
    }
}

/// Cursors that read runs once.
fn cursors(runs: &[Arc<Run>]) -> Result<Vec<RunCursor>> {
    runs.iter().map(|run| RunCursor::new(Arc::clone(run), &[], None, Reads::Once)).collect()
}

/// Divides a node, if it has too many slots, or pivots too long, into nodes that have half as many.
fn divide(node: Node, fanout: usize) -> (Vec<Arc<[u8]>>, Vec<Node>) {
    let pivots: usize = node.pivots.iter().map(|pivot| pivot.len()).sum();
    if node.slots.len() <= fanout && (pivots <= PIVOTS_MAX || node.slots.len() < 3) {
        return (Vec::new(), vec![node]);
    }
    let half = node.slots.len().min(fanout).div_ceil(2);
    let (firsts, parts) = node.split(half.max(2));
    let (mut pivots, mut nodes) = (Vec::new(), Vec::new());
    let mut firsts = firsts.into_iter();
    for part in parts {
        // Long pivots may leave a part that is too long still.
        let (between, divided) = divide(part, fanout);
        pivots.extend(between);
        nodes.extend(divided);
        pivots.extend(firsts.next());
    }
    (pivots, nodes)
}

/// The shortest key above one, and not above another one that is: the first key of a slot.
fn pivot(last: &[u8], next: &[u8]) -> Arc<[u8]> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    next[..next.len().min(common + 1)].into()
}
