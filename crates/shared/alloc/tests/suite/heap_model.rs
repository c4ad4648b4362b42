//! A heap holds what a map would, whatever is done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Publication, SlotState};
use halite_alloc::{Error, Segments};
use proptest::prelude::*;

use crate::heap::{Place, Row, heap, owner};

/// A test's operation on a heap; numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    Reserve {
        owner: u32,
        len: u64,
        byte: u8,
    },
    Write {
        which: usize,
        at: u64,
        byte: u8,
    },
    Cancel(usize),
    Publish {
        activate: Vec<usize>,
        free: Vec<usize>,
        store: Vec<usize>,
        roots: Vec<(u8, Option<u64>)>,
    },
    Activate(usize),
    Free(usize),
    StoreWord(usize, u64),
    Fence,
    Drop(u32),
    Reclaim(u32),
    Reopen,
    Kill,
}

fn few() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        4 => 0..200_u64,
        2 => 200..5_000_u64,
        1 => 5_000..40_000_u64,
        1 => 40_000..300_000_u64,
    ];
    let roots = prop::collection::vec((0..6_u8, any::<Option<u64>>()), 0..3);
    prop_oneof![
        8 => (0..4_u32, len, any::<u8>())
            .prop_map(|(owner, len, byte)| Step::Reserve { owner, len, byte }),
        3 => (any::<usize>(), 0..100_u64, any::<u8>())
            .prop_map(|(which, at, byte)| Step::Write { which, at, byte }),
        2 => any::<usize>().prop_map(Step::Cancel),
        8 => (few(), few(), few(), roots).prop_map(|(activate, free, store, roots)| {
            Step::Publish { activate, free, store, roots }
        }),
        2 => any::<usize>().prop_map(Step::Activate),
        2 => any::<usize>().prop_map(Step::Free),
        2 => (any::<usize>(), any::<u64>()).prop_map(|(which, value)| Step::StoreWord(which, value)),
        2 => Just(Step::Fence),
        1 => (0..4_u32).prop_map(Step::Drop),
        3 => (1..3_u32).prop_map(Step::Reclaim),
        1 => Just(Step::Reopen),
        2 => Just(Step::Kill),
    ]
}

#[derive(Debug, Clone)]
struct Slot {
    owner: u32,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Model {
    reserved: BTreeMap<AnyPtr, Slot>,
    persisted: BTreeMap<AnyPtr, Slot>,
    roots: BTreeMap<String, u64>,
    dropped: BTreeSet<u32>,
}

fn typed(pointer: AnyPtr) -> NvPtr<Row> {
    NvPtr::from_word(pointer.word())
}

fn pick(slots: &BTreeMap<AnyPtr, Slot>, which: usize) -> Option<AnyPtr> {
    slots.keys().nth(which % slots.len().max(1)).copied()
}

fn pick_all(slots: &BTreeMap<AnyPtr, Slot>, which: &[usize]) -> BTreeSet<AnyPtr> {
    which.iter().filter_map(|&which| pick(slots, which)).collect()
}

impl Model {
    fn forget_reserved(&mut self) {
        self.reserved.clear();
    }

    fn apply(&mut self, heap: &mut Heap, step: &Step) {
        match step {
            Step::Reserve { owner: number, len, byte } => {
                match heap.reserve::<Row>(owner(*number), *len) {
                    Ok(pointer) => {
                        let slot = Slot { owner: *number, bytes: vec![*byte; *len as usize] };
                        heap.write(pointer, 0, &slot.bytes).unwrap();
                        assert!(!self.persisted.contains_key(&pointer.any()));
                        assert!(self.reserved.insert(pointer.any(), slot).is_none());
                    }
                    Err(Error::OwnerDropped { .. }) => assert!(self.dropped.contains(number)),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Write { which, at, byte } => {
                let slots = if byte % 2 == 0 { &mut self.reserved } else { &mut self.persisted };
                let Some(pointer) = pick(slots, *which) else { return };
                let bytes = &mut slots.get_mut(&pointer).unwrap().bytes;
                let Some(bytes) = bytes.get_mut(*at as usize..) else { return };
                let len = bytes.len().min(70);
                bytes[..len].fill(*byte);
                heap.write(typed(pointer), *at, &bytes[..len]).unwrap();
            }
            Step::Cancel(which) => {
                let Some(pointer) = pick(&self.reserved, *which) else { return };
                heap.cancel(pointer).unwrap();
                self.reserved.remove(&pointer);
            }
            Step::Publish { activate, free, store, roots } => {
                self.publish(heap, activate, free, store, roots);
            }
            Step::Activate(which) => {
                let Some(pointer) = pick(&self.reserved, *which) else { return };
                heap.flush(typed(pointer)).unwrap();
                heap.fence().unwrap();
                let slot = self.reserved[&pointer].clone();
                match heap.activate(pointer) {
                    Err(Error::OwnerDropped { .. }) => assert!(self.dropped.contains(&slot.owner)),
                    activated => {
                        activated.unwrap();
                        self.reserved.remove(&pointer);
                        self.persisted.insert(pointer, slot);
                    }
                }
            }
            Step::Free(which) => {
                let Some(pointer) = pick(&self.persisted, *which) else { return };
                heap.free(pointer).unwrap();
                self.persisted.remove(&pointer);
            }
            Step::StoreWord(which, value) => {
                let Some(pointer) = pick(&self.persisted, *which) else { return };
                let bytes = &mut self.persisted.get_mut(&pointer).unwrap().bytes;
                let Some(word) = bytes.get_mut(8..16) else { return };
                word.copy_from_slice(&value.to_le_bytes());
                heap.store_word(typed(pointer), 8, *value).unwrap();
            }
            Step::Fence => heap.fence().unwrap(),
            Step::Drop(number) => {
                let mut publication = Publication::new();
                publication.drop_owner(owner(*number));
                heap.publish(&mut publication).unwrap();
                self.dropped.insert(*number);
            }
            Step::Reclaim(segments) => {
                let done = heap.reclaim(*segments).unwrap();
                let is_there = |pointer: &AnyPtr| {
                    heap.state(*pointer).is_ok_and(|state| state != SlotState::Free)
                };
                // Reclaimed slots are gone; so are all, at the end.
                for slots in [&mut self.reserved, &mut self.persisted] {
                    slots.retain(|pointer, slot| {
                        let is_dropped = self.dropped.contains(&slot.owner);
                        assert!(is_dropped || is_there(pointer));
                        assert!(!(done && is_dropped && is_there(pointer)));
                        !is_dropped || is_there(pointer)
                    });
                }
                if done {
                    self.dropped.clear();
                }
            }
            Step::Reopen | Step::Kill => {}
        }
    }

    fn publish(
        &mut self,
        heap: &mut Heap,
        activate: &[usize],
        free: &[usize],
        store: &[usize],
        roots: &[(u8, Option<u64>)],
    ) {
        let mut publication = Publication::new();
        let mut activated = pick_all(&self.reserved, activate);
        activated.retain(|pointer| !self.dropped.contains(&self.reserved[pointer].owner));
        let freed = pick_all(&self.persisted, free);
        let mut stored = pick_all(&self.persisted, store);
        stored
            .retain(|pointer| !freed.contains(pointer) && self.persisted[pointer].bytes.len() >= 8);
        activated.iter().for_each(|&pointer| publication.activate(pointer));
        freed.iter().for_each(|&pointer| publication.free(pointer));
        for &pointer in &stored {
            publication.store(pointer, 0, pointer.word());
        }
        let roots: BTreeMap<_, _> = roots.iter().copied().collect();
        for (&number, &value) in &roots {
            let name = format!("root {number}");
            match value {
                Some(value) => publication.set_root(&name, value),
                None => publication.remove_root(&name),
            }
        }
        heap.publish(&mut publication).unwrap();
        assert!(publication.is_empty());
        for pointer in activated {
            let slot = self.reserved.remove(&pointer).unwrap();
            self.persisted.insert(pointer, slot);
        }
        for pointer in freed {
            self.persisted.remove(&pointer);
        }
        for pointer in stored {
            let bytes = &mut self.persisted.get_mut(&pointer).unwrap().bytes;
            bytes[..8].copy_from_slice(&pointer.word().to_le_bytes());
        }
        for (number, value) in roots {
            let name = format!("root {number}");
            match value {
                Some(value) => self.roots.insert(name, value),
                None => self.roots.remove(&name),
            };
        }
    }

    fn check(&self, heap: &Heap) {
        for (slots, state) in
            [(&self.reserved, SlotState::Reserved), (&self.persisted, SlotState::Persisted)]
        {
            for (&pointer, slot) in slots {
                assert_eq!(heap.state(pointer).unwrap(), state);
                let read = heap.read_at(typed(pointer), 0, slot.bytes.len() as u64).unwrap();
                assert!(read == slot.bytes, "the bytes of {pointer:?}");
            }
        }
        let roots: BTreeMap<_, _> =
            heap.roots().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(roots, self.roots);
    }

    fn check_all(&self, heap: &Heap) {
        self.check(heap);
        let is_dropped = |slot: &Slot| self.dropped.contains(&slot.owner);
        let reachable = self.persisted.iter().filter(|(_, slot)| !is_dropped(slot));
        let accounting = heap.check(reachable.map(|(&pointer, _)| pointer)).unwrap();
        let usage = heap.usage().unwrap();
        let sum = |of: fn(&halite_alloc::heap::OwnerUsage) -> u64| {
            usage.owners.values().map(of).sum::<u64>()
        };
        assert_eq!(sum(|usage| usage.reserved), accounting.reserved);
        let persisted = sum(|usage| usage.persisted) + usage.roots.persisted;
        assert_eq!(persisted, accounting.reachable + accounting.dropped);
        assert_eq!(sum(|usage| usage.slots), self.persisted.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_heap_holds_what_a_map_would(steps in prop::collection::vec(step(), 1..120)) {
        let (mut place, mut segments) = Place::new(64);
        let mut open = heap(&segments);
        let mut model = Model::default();
        for step in &steps {
            if let Step::Kill | Step::Reopen = step {
                let reopen = |place: &Place| -> Arc<Segments> { place.open() };
                if let Step::Kill = step {
                    place.kill();
                }
                drop(open);
                drop(segments);
                segments = reopen(&place);
                open = heap(&segments);
                model.forget_reserved();
                model.check_all(&open);
            }
            model.apply(&mut open, step);
            model.check(&open);
        }
        model.check_all(&open);
    }
}
