//! How nodes are made, get more children, and are replaced by larger ones.

use std::ptr::NonNull;

use super::{FortyEight, Four, Full, HAS_TERMINAL, Header, Node, Sixteen, first_from};
use crate::radix::arena::Arena;
use crate::radix::word;
use crate::sync::{AtomicU64, Ordering};

impl Four {
    /// A node of two: each with the byte behind the common ones, or none if its key ends there.
    pub(in crate::radix) fn fork(
        arena: &Arena,
        level: usize,
        window: u128,
        one: (Option<u8>, u64),
        other: (Option<u8>, u64),
    ) -> NonNull<Self> {
        let (first, second) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        let node = arena.take(size_of::<Self>()).cast();
        let second_key = second.0.unwrap_or_default();
        let (count, keys, slots) = match first.0 {
            None => (1 | HAS_TERMINAL, second_key.into(), [second.1, 0, 0, first.1]),
            Some(key) => {
                (2, u32::from_le_bytes([key, second_key, 0, 0]), [first.1, second.1, 0, 0])
            }
        };
        let header = Header::new(level, window, count, keys);
        // SAFETY: the slot is large enough, and has no other user.
        unsafe { node.write(Self { header, slots: slots.map(AtomicU64::new) }) };
        node
    }
}

impl<'a> Node<'a> {
    /// A node of the smallest size that these children fit, as a word: each with the byte behind the common
    /// ones, or none if its key ends there, ascending.
    pub(in crate::radix) fn with(
        arena: &Arena,
        level: usize,
        window: u128,
        children: &[(Option<u8>, u64)],
    ) -> u64 {
        let (terminal, children) = match children {
            [(None, word), behind @ ..] => (Some(*word), behind),
            all => (None, all),
        };
        let all = children.iter().map(|&(byte, word)| (byte.unwrap_or_default(), word));
        let header = |count, keys| Header::new(level, window, count as u8, keys);
        let store = |slot: &AtomicU64, word| slot.store(word, Ordering::Relaxed);
        let count = children.len();
        // SAFETY (all): the slot is large enough, and has no other user.
        match count + usize::from(terminal.is_some()) {
            0..=4 => {
                let mut keys = [0; 4];
                all.clone().zip(&mut keys).for_each(|((byte, _), key)| *key = byte);
                let terminal_count = terminal.map_or(0, |_| usize::from(HAS_TERMINAL));
                let header = header(count | terminal_count, u32::from_le_bytes(keys));
                let node = Four { header, slots: empty() };
                all.zip(&node.slots).for_each(|((_, word), slot)| store(slot, word));
                terminal.inspect(|&word| store(&node.slots[3], word));
                let place = arena.take(size_of::<Four>()).cast();
                // SAFETY: as above.
                unsafe { place.write(node) };
                word::of_four(place)
            }
            5..=16 => {
                let mut keys = [0; 16];
                all.clone().zip(&mut keys).for_each(|((byte, _), key)| *key = byte);
                let keys = u128::from_le_bytes(keys);
                let keys = [AtomicU64::new(keys as u64), AtomicU64::new((keys >> 64) as u64)];
                let terminal = AtomicU64::new(terminal.unwrap_or_default());
                let header = header(count, 0);
                let node = Sixteen { header, keys, terminal, _line: 0, slots: empty() };
                all.zip(&node.slots).for_each(|((_, word), slot)| store(slot, word));
                let place = arena.take(size_of::<Sixteen>()).cast();
                // SAFETY: as above.
                unsafe { place.write(node) };
                word::of_sixteen(place)
            }
            17..=48 => {
                let terminal = AtomicU64::new(terminal.unwrap_or_default());
                let header = header(count, 0);
                let place = arena.take(size_of::<FortyEight>()).cast::<FortyEight>();
                // SAFETY: as above.
                let node = unsafe {
                    place.write(FortyEight { header, terminal, numbers: empty(), slots: empty() });
                    &*place.as_ptr()
                };
                for (((byte, word), slot), number) in all.zip(&node.slots).zip(1..) {
                    store(slot, word);
                    node.set_number(byte, number);
                }
                word::of_forty_eight(place)
            }
            _ => {
                let terminal = AtomicU64::new(terminal.unwrap_or_default());
                let header = header(0, 0);
                let place = arena.take(size_of::<Full>()).cast::<Full>();
                // SAFETY: as above.
                let node = unsafe {
                    place.write(Full { header, terminal, slots: empty() });
                    &*place.as_ptr()
                };
                all.for_each(|(byte, word)| store(&node.slots[usize::from(byte)], word));
                word::of_full(place)
            }
        }
    }

    /// Whether there is room for a key for which [`find`](Self::find) finds no slot.
    pub(in crate::radix) fn has_room(self) -> bool {
        match self {
            Self::Four(node) => {
                let (count, has_terminal) = node.count();
                count + usize::from(has_terminal) < node.slots.len()
            }
            Self::Sixteen(node) => node.count() < node.slots.len(),
            Self::FortyEight(node) => node.count() < node.slots.len(),
            Self::Full(_) => true,
        }
    }

    /// Adds a key for which [`find`](Self::find) finds no slot. The caller holds the lock; there must be
    /// room.
    pub(in crate::radix) fn add(self, byte: Option<u8>, word: u64) {
        match self {
            Self::Four(node) => {
                let (count, _) = node.count();
                let (at, added) = match byte {
                    None => (3, HAS_TERMINAL),
                    Some(byte) => {
                        let keys = node.keys();
                        let at = first_from(keys, byte, count);
                        shift(&node.slots[at..=count]);
                        let keys = widened(keys, at, byte) as u32;
                        node.header.keys.store(keys, Ordering::Relaxed);
                        (at, 1)
                    }
                };
                node.slots[at].store(word, Ordering::Release);
                let count = node.header.count.load(Ordering::Relaxed);
                node.header.count.store(count + added, Ordering::Relaxed);
            }
            Self::Sixteen(node) => {
                let Some(byte) = byte else { return };
                let (keys, count) = (node.keys(), node.count());
                let at = first_from(keys, byte, count);
                shift(&node.slots[at..=count]);
                node.slots[at].store(word, Ordering::Release);
                let keys = widened(keys, at, byte);
                node.keys[0].store(keys as u64, Ordering::Relaxed);
                node.keys[1].store((keys >> 64) as u64, Ordering::Relaxed);
                node.header.count.store(count as u8 + 1, Ordering::Relaxed);
            }
            Self::FortyEight(node) => {
                let Some(byte) = byte else { return };
                let count = node.count();
                node.slots[count].store(word, Ordering::Release);
                let number = count as u8 + 1;
                node.set_number(byte, number);
                node.header.count.store(number, Ordering::Relaxed);
            }
            // A Full has a slot for every byte.
            Self::Full(_) => {}
        }
    }

    /// A copy of the next size, as a word and as a node. The caller holds the lock.
    pub(in crate::radix) fn grown(self, arena: &Arena) -> (u64, Node<'a>) {
        let (level, window) = (self.level(), self.window());
        let header = |count: usize| Header::new(level, window, count as u8, 0);
        let terminal = self.terminal().map_or(0, |slot| slot.load(Ordering::Relaxed));
        let terminal = AtomicU64::new(terminal);
        // SAFETY (all): the slot is large enough, has no other user, and lives until the thread that took
        // it has unpinned.
        match self {
            Self::Four(node) => {
                let (count, _) = node.count();
                let place = arena.take(size_of::<Sixteen>()).cast::<Sixteen>();
                let slots = empty();
                copy(&node.slots[..count], &slots);
                let keys = [AtomicU64::new(node.keys() as u64), AtomicU64::new(0)];
                let header = header(count);
                // SAFETY: as above.
                let node = unsafe {
                    place.write(Sixteen { header, keys, terminal, _line: 0, slots });
                    &*place.as_ptr()
                };
                (word::of_sixteen(place), Node::Sixteen(node))
            }
            Self::Sixteen(node) => {
                let count = node.count();
                let place = arena.take(size_of::<FortyEight>()).cast::<FortyEight>();
                let slots = empty();
                copy(&node.slots[..count], &slots);
                let header = header(count);
                // SAFETY: as above.
                let grown = unsafe {
                    place.write(FortyEight { header, terminal, numbers: empty(), slots });
                    &*place.as_ptr()
                };
                for (number, &key) in (1..).zip(&node.keys().to_le_bytes()[..count]) {
                    grown.set_number(key, number);
                }
                (word::of_forty_eight(place), Node::FortyEight(grown))
            }
            Self::FortyEight(_) | Self::Full(_) => {
                let place = arena.take(size_of::<Full>()).cast::<Full>();
                let slots: [_; 256] = empty();
                for (byte, slot) in (0..=255).zip(&slots) {
                    let word = self.find(Some(byte)).map_or(0, |slot| slot.load(Ordering::Relaxed));
                    slot.store(word, Ordering::Relaxed);
                }
                let header = header(0);
                // SAFETY: as above.
                let node = unsafe {
                    place.write(Full { header, terminal, slots });
                    &*place.as_ptr()
                };
                (word::of_full(place), Node::Full(node))
            }
        }
    }
}

fn empty<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

/// The sorted keys with one more at place `at`.
fn widened(keys: u128, at: usize, byte: u8) -> u128 {
    let below = (1_u128 << (8 * at)) - 1;
    keys & below | u128::from(byte) << (8 * at) | (keys & !below) << 8
}

/// Moves all but the last one on by one.
fn shift(slots: &[AtomicU64]) {
    for pair in slots.windows(2).rev() {
        pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Release);
    }
}

fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
