//! A non-volatile tree in a heap as a subject of the lab, with the undo log of a method: no power cut leaves half of a
//! transaction's entries, or a slot that is persisted and not reached.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use halite_alloc::heap::{Heap, NvPtr, Owner, Publication, Tag, Tagged};
use halite_alloc::{Error as SpaceError, Segments};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_table::index::nonvolatile::{Change, LeafNode, LongKey, NonVolatileTree, Prepared};
use halite_table::index::{Direction, Error, Result};

/// Changes of some keys.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    seed: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Committed,
    /// Shown, and taken back.
    Aborted,
    /// Prepared only.
    GivenUp,
}

type Changes = BTreeMap<Vec<u8>, Option<u64>>;

impl Transaction {
    fn draw(random: &mut Random) -> Self {
        let kind = match random.below(8) {
            0 => Kind::Aborted,
            1 => Kind::GivenUp,
            _ => Kind::Committed,
        };
        Self { seed: random.next(), kind }
    }

    /// Keys and their values, or none for those that are removed: some anywhere, or a run of them.
    fn changes(&self) -> Changes {
        let mut random = Random::new(self.seed);
        let key = |number: u64| {
            // Every fifth key is long.
            let len = if number.is_multiple_of(5) { 40 } else { 12 };
            [&number.to_be_bytes()[7..], &vec![b'k'; len]].concat()
        };
        let is_run = random.below(2) == 0;
        let (from, removes) = (random.below(KEYS), random.below(5) < 2);
        let count = 1 + random.below(if is_run { 30 } else { 6 });
        let changes = (0..count).map(|number| {
            let number = if is_run { (from + number) % KEYS } else { random.below(KEYS) };
            (key(number), (!removes && random.below(6) > 0).then(|| random.next()))
        });
        changes.collect()
    }
}

/// The undo log: its length, the check of the rest, and words before their changes, new keys and old keys.
enum UndoLog {}

impl Tagged for UndoLog {
    const TAG: Tag = Tag::new(1);
}

/// Where its check is. A log is emptied by storing zero there: if the next one is torn, the check is not that of the words
/// of this one.
const CHECK_AT: u64 = 8;
const UNDO_WORDS: usize = 400;

const KEYS: u64 = 60;
const POOL: &str = "pool";
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// Short nodes, so that a history has divided and merged ones of several levels.
const NODE_LEN: usize = 256;

/// A tree in a heap.
pub(crate) struct TreeInHeap;

/// An open one.
pub(crate) struct OpenTree {
    heap: Heap,
    tree: NonVolatileTree,
    undo: NvPtr<UndoLog>,
    /// A transaction began to show its changes, and failed: the next opening undoes it.
    is_half_shown: bool,
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Heap(SpaceError::UnsafeShutdown { .. }) => Refusal::UnsafeShutdown,
        Error::DamagedNode { .. }
        | Error::Heap(
            SpaceError::Damaged { .. }
            | SpaceError::Foreign { .. }
            | SpaceError::NotObjects { .. }
            | SpaceError::FutureVersion { .. },
        ) => Refusal::Named(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x1656_67b1_9e37_79f9, |sum: u64, word| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn open(options: &PoolOptions) -> Result<OpenTree> {
    let path = Path::new(POOL);
    let segments = if Pool::exists(path, options) {
        Segments::open(path, options)?
    } else {
        let segments = Segments::create(path, options)?;
        segments.install()?;
        segments
    };
    let mut heap = Heap::open(&segments.device(0))?;
    if heap.root("tree").is_none() {
        let owner = Owner::new(3).expect("a small number");
        let mut publication = Publication::new();
        let undo = heap.reserve::<UndoLog>(owner, UNDO_WORDS as u64 * 8)?;
        heap.write(undo, 0, &[0; UNDO_WORDS * 8])?;
        let tree = NonVolatileTree::create(&mut heap, owner, NODE_LEN, &mut publication)?;
        publication.activate(undo);
        publication.set_root("undo", undo.word());
        publication.set_root("tree", tree.header().word());
        heap.publish(&mut publication)?;
    }
    let root = |name| heap.root(name).unwrap_or(0);
    let (header, undo) = (NvPtr::from_word(root("tree")), NvPtr::from_word(root("undo")));
    let tree = NonVolatileTree::open(&heap, header)?;
    let mut open = OpenTree { heap, tree, undo, is_half_shown: false };
    open.roll_back()?;
    Ok(open)
}

impl OpenTree {
    /// Writes the undo log of changes, which is durable then.
    fn log(&mut self, prepared: &Prepared) -> Result<()> {
        let Prepared { words, new_keys, old_keys } = prepared;
        let mut log = vec![words.len() as u64, new_keys.len() as u64];
        log.extend(words.iter().flat_map(|word| [word.leaf.word(), word.at, word.before]));
        log.extend(new_keys.iter().map(|key| key.pointer.word()));
        log.extend(old_keys.iter().flat_map(|key| [key.pointer.word(), key.len]));
        let head = [log.len() as u64, sum(&log)];
        let bytes: Vec<u8> = head.iter().chain(&log).flat_map(|word| word.to_le_bytes()).collect();
        self.heap.write(self.undo, 0, &bytes)?;
        Ok(self.heap.fence()?)
    }

    /// Empties the undo log; the next fence makes that durable.
    fn truncate(&mut self) -> Result<()> {
        Ok(self.heap.store_word(self.undo, CHECK_AT, 0)?)
    }

    /// Undoes a transaction that a crash interrupted.
    fn roll_back(&mut self) -> Result<()> {
        let bytes = self.heap.read_at(self.undo, 0, UNDO_WORDS as u64 * 8)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let log = words[2..].get(..words[0] as usize).filter(|log| sum(log) == words[1]);
        if let Some([changed, new_keys, rest @ ..]) = log {
            let (changed, rest) = rest.split_at(*changed as usize * 3);
            let (new_keys, old_keys) = rest.split_at(*new_keys as usize);
            for key in old_keys.chunks(2) {
                let pointer = NvPtr::<LongKey>::from_word(key[0]);
                self.heap.restore(pointer, self.tree.owner(), key[1])?;
            }
            for word in changed.chunks(3) {
                self.heap.store_word(NvPtr::<LeafNode>::from_word(word[0]), word[1], word[2])?;
            }
            for &key in new_keys {
                self.heap.revoke(NvPtr::<LongKey>::from_word(key))?;
            }
            self.heap.fence()?;
        }
        // Also a log that is found empty may not be durably so.
        self.truncate()?;
        Ok(self.heap.fence()?)
    }

    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        let changes = transaction.changes();
        let changes: Vec<_> = changes
            .iter()
            .map(|(key, value)| value.map_or(Change::Remove(key), |value| Change::Put(key, value)))
            .collect();
        let prepared = self.tree.prepare(&mut self.heap, &changes)?;
        if transaction.kind == Kind::GivenUp {
            return prepared.give_up(&mut self.heap);
        }
        self.log(&prepared)?;
        self.is_half_shown = true;
        prepared.show(&mut self.heap)?;
        if transaction.kind == Kind::Aborted {
            prepared.take_back(&mut self.heap, self.tree.owner())?;
        }
        self.heap.fence()?;
        self.is_half_shown = false;
        self.truncate()?;
        self.tree.tidy(&mut self.heap, &prepared.words)?;
        // An aborted transaction may be undone again.
        if transaction.kind == Kind::Committed {
            self.heap.fence()?;
        }
        Ok(())
    }
}

impl Subject for TreeInHeap {
    type Step = Transaction;
    type Open = OpenTree;

    fn name(&self) -> &str {
        "nonvolatile-tree"
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Transaction>> {
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..18 => Action::KillWithin(None, random.below(16) as u32),
            18..34 => Action::KillWithin(Some(Transaction::draw(random)), random.below(60) as u32),
            _ => Action::Step(Transaction::draw(random)),
        };
        (0..1 + random.below(10)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Transaction> {
        (0..random.below(3)).map(|_| Transaction::draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> std::result::Result<OpenTree, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        open(&options).map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut OpenTree, step: &Transaction) -> std::result::Result<(), String> {
        open.run(step).map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Transaction) -> bool {
        if step.kind == Kind::Committed {
            for (key, value) in step.changes() {
                match value {
                    Some(value) => world.insert(key, Digest::of(&value.to_le_bytes())),
                    None => world.remove(&key),
                };
            }
        }
        true
    }

    fn world(&self, open: &mut OpenTree) -> std::result::Result<World, Refusal> {
        if open.is_half_shown {
            return Err(Refusal::Failed("a transaction failed: open it again".to_owned()));
        }
        let mut world = World::new();
        let scan = open.tree.scan(&open.heap, ALL, Direction::Forward);
        let mut scan = scan.map_err(|error| refusal(&error))?;
        while let Some((key, value)) = scan.next().map_err(|error| refusal(&error))? {
            world.insert(key.to_vec(), Digest::of(&value.to_le_bytes()));
        }
        Ok(world)
    }

    fn look_up(
        &self,
        open: &mut OpenTree,
        name: &[u8],
    ) -> std::result::Result<Option<Digest>, Refusal> {
        let found = open.tree.get(&open.heap, name).map_err(|error| refusal(&error))?;
        Ok(found.map(|value| Digest::of(&value.to_le_bytes())))
    }

    fn verify(&self, open: &mut OpenTree) -> std::result::Result<(), Refusal> {
        let mut reachable = vec![open.undo.any()];
        let entries = open.tree.check(&open.heap, |pointer| reachable.push(pointer));
        entries.map_err(|error| refusal(&error))?;
        open.heap.check(reachable).map_err(|error| refusal(&error.into()))?;
        Ok(())
    }
}
