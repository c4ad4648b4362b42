//! A node of a B+tree in a byte slice of any length from 56 B to 16 KiB: slots at the front, records at the back.
//!
//! ```text
//!  count u16 | prefix u16 | records u16 | dead u16 || slot | slot | ...  --> free <-- ... | record | record || prefix
//!
//!  slot:   head u64 | record at u16 | key u16     key: length of the suffix; with bit 15, of a long key as a whole
//!  record: length of the value u16, unless all values are as long | value | rest of the suffix, or reference
//! ```
//!
//! The *prefix* is common to all keys of the node and stored once. A key without it is its *suffix*; the first 8 bytes
//! of that, padded with zeros, are the *head*, a number by which nearly all comparisons are decided within the slots.
//! The *rest* is behind the head. A *long* key, longer than [`Shape::key_max`], is stored elsewhere whole, and the node
//! has a reference to it: short, so that a node has room for several entries whatever their keys are.
//!
//! In an inner node a value is the number of a child, and the first entry has no key: its child has all keys below
//! the key of the second. Numbers of children and references have four bytes, or eight ([`Shape::reference`]). `dead` counts bytes of records that were removed; `entries.rs` packs a node anew.
//!
//! Costs: a search in a node of n entries reads the prefix and about log2 n slots, and a record per slot of an equal
//! head. An insertion moves the slots behind it, 12 B each.

mod check;
pub(crate) mod entries;

use std::cmp::Ordering;

pub(crate) use self::check::check;

/// Bytes before the slots.
pub(crate) const HEAD: usize = 8;

/// Bytes of a slot.
pub(crate) const SLOT: usize = 12;

/// Bytes of a key that the slot has.
const IN_SLOT: usize = 8;

/// The bit of a slot's last field that says that the key is long.
const LONG: u16 = 1 << 15;

/// Which values a node has, and whether its first entry has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The length of all values, or `None` if each has its own.
    pub(crate) value: Option<usize>,
    /// Entries without a key: 1 in an inner node.
    pub(crate) keyless: usize,
    /// Bytes of a reference to a long key, and of the number of a child: 4 or 8.
    pub(crate) reference: usize,
}

impl Shape {
    /// A leaf of numbers, with references of 4 bytes.
    pub(crate) const NUMBERS: Self = Self { value: Some(8), keyless: 0, reference: 4 };
    /// A leaf of byte strings, with references of 4 bytes.
    pub(crate) const BYTES: Self = Self { value: None, keyless: 0, reference: 4 };
    /// A leaf of numbers, with references of 8 bytes, for nodes of 240 bytes or more.
    pub(crate) const WORDS: Self = Self { value: Some(8), keyless: 0, reference: 8 };

    /// The shape of the inner nodes above such leaves: numbers of children.
    pub(crate) const fn inner(self) -> Self {
        Self { value: Some(self.reference), keyless: 1, reference: self.reference }
    }

    /// The longest prefix that a node of `len` bytes stores.
    pub(crate) const fn prefix_max(len: usize) -> usize {
        (len + HEAD).saturating_sub(72) / 8
    }

    /// The longest key that a node of `len` bytes stores itself: a node has room for four entries with it, and for
    /// two, or three children, if it is of less than 240 bytes.
    pub(crate) const fn key_max(self, len: usize) -> usize {
        let room = len - HEAD - Self::prefix_max(len);
        let of_entry = match (self.value, len < 240) {
            (None, _) => room / 8,
            (Some(value), true) if self.keyless == 0 => room / 2 - SLOT - value,
            (Some(value), true) => (room - SLOT - value) / 2 - SLOT - value,
            (Some(value), false) => room / 4 - SLOT - value,
        };
        IN_SLOT + of_entry
    }

    /// The longest value beside a key in a leaf of byte strings of `len` bytes: two such entries fit.
    pub(crate) const fn value_max(self, len: usize, key_len: usize) -> usize {
        let half = (len - HEAD - Self::prefix_max(len)) / 2;
        half - SLOT - 2 - self.rest_len(len, key_len)
    }

    /// Bytes that the record has of a key with nothing in the prefix.
    const fn rest_len(self, len: usize, key_len: usize) -> usize {
        if key_len > self.key_max(len) { self.reference } else { key_len.saturating_sub(IN_SLOT) }
    }

    /// Bytes of a record beside the rest of the key.
    pub(crate) const fn value_len(self, value: usize) -> usize {
        match self.value {
            Some(len) => len,
            None => 2 + value,
        }
    }
}

fn u16_at(node: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([node[at], node[at + 1]]))
}

fn put_u16(node: &mut [u8], at: usize, value: usize) {
    node[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// The entries of a node.
pub(crate) fn count(node: &[u8]) -> usize {
    u16_at(node, 0)
}

fn prefix_len(node: &[u8]) -> usize {
    u16_at(node, 2)
}

/// Where the records begin.
fn records(node: &[u8]) -> usize {
    u16_at(node, 4)
}

fn dead(node: &[u8]) -> usize {
    u16_at(node, 6)
}

/// The bytes that all keys of a node begin with.
pub(crate) fn prefix(node: &[u8]) -> &[u8] {
    &node[node.len() - prefix_len(node)..]
}

/// Makes a node empty.
pub(crate) fn clear(node: &mut [u8], prefix: &[u8]) {
    let start = node.len() - prefix.len();
    node[start..].copy_from_slice(prefix);
    put_u16(node, 0, 0);
    put_u16(node, 2, prefix.len());
    put_u16(node, 4, start);
    put_u16(node, 6, 0);
}

/// Bytes of a node that entries and the prefix take.
pub(crate) fn used(node: &[u8]) -> usize {
    HEAD + count(node) * SLOT + (node.len() - records(node)) - dead(node)
}

/// The head of a suffix.
pub(crate) fn head_of(suffix: &[u8]) -> u64 {
    match suffix.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut padded = [0; IN_SLOT];
            padded[..suffix.len()].copy_from_slice(suffix);
            u64::from_be_bytes(padded)
        }
    }
}

/// The part of a suffix behind the head.
fn rest_of(suffix: &[u8]) -> &[u8] {
    suffix.get(IN_SLOT..).unwrap_or_default()
}

/// A slot, decoded.
#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u64,
    at: usize,
    key: u16,
}

impl Slot {
    #[inline]
    fn of(node: &[u8], index: usize) -> Self {
        let at = HEAD + index * SLOT;
        let bytes: &[u8; SLOT] = node[at..at + SLOT].as_array().expect("as long as a slot");
        let head = u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
        let (at, key) = (u16_at(bytes, 8), u16::from_le_bytes([bytes[10], bytes[11]]));
        Self { head, at, key }
    }

    fn put(self, node: &mut [u8], index: usize) {
        let at = HEAD + index * SLOT;
        node[at..at + 8].copy_from_slice(&self.head.to_le_bytes());
        put_u16(node, at + 8, self.at);
        put_u16(node, at + 10, self.key.into());
    }

    fn is_long(self) -> bool {
        self.key & LONG != 0
    }

    /// The length of the suffix, or of the whole of a long key.
    fn key_len(self) -> usize {
        usize::from(self.key & !LONG)
    }

    /// Bytes of the key in the record.
    fn rest_len(self, shape: Shape) -> usize {
        if self.is_long() { shape.reference } else { self.key_len().saturating_sub(IN_SLOT) }
    }

    /// The place and the length of the value.
    #[inline]
    fn value(self, node: &[u8], shape: Shape) -> (usize, usize) {
        match shape.value {
            Some(len) => (self.at, len),
            None => (self.at + 2, u16_at(node, self.at)),
        }
    }

    /// The rest of the suffix, or the reference.
    #[inline]
    fn rest(self, node: &[u8], shape: Shape) -> &[u8] {
        let (at, len) = self.value(node, shape);
        &node[at + len..][..self.rest_len(shape)]
    }

    fn record_len(self, node: &[u8], shape: Shape) -> usize {
        shape.value_len(self.value(node, shape).1) + self.rest_len(shape)
    }
}

/// The value of an entry.
#[inline]
pub(crate) fn value(node: &[u8], shape: Shape, index: usize) -> &[u8] {
    let (at, len) = Slot::of(node, index).value(node, shape);
    &node[at..at + len]
}

/// The bytes of a value, to be overwritten by as many.
pub(crate) fn value_mut(node: &mut [u8], shape: Shape, index: usize) -> &mut [u8] {
    let (at, len) = Slot::of(node, index).value(node, shape);
    &mut node[at..at + len]
}

/// The child of an entry of an inner node.
#[inline]
pub(crate) fn child(node: &[u8], shape: Shape, index: usize) -> u64 {
    number(value(node, shape, index))
}

/// The number of a child, or a reference.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    match bytes.as_array() {
        Some(bytes) => u32::from_le_bytes(*bytes).into(),
        None => u64::from_le_bytes(*bytes.as_array().expect("4 or 8 bytes")),
    }
}

/// A key as a node has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'a> {
    /// The prefix, the bytes in the slot of which so many count, and the rest.
    Whole(&'a [u8], [u8; IN_SLOT], usize, &'a [u8]),
    /// A reference to a long key, and its length.
    Long(u64, usize),
}

impl Key<'_> {
    /// Puts the bytes of a key that is not long behind others.
    pub(crate) fn append_to(self, to: &mut Vec<u8>) {
        let Self::Whole(prefix, head, in_head, rest) = self else {
            unreachable!("a long key is elsewhere")
        };
        to.extend_from_slice(prefix);
        to.extend_from_slice(&head[..in_head]);
        to.extend_from_slice(rest);
    }
}

/// The key of an entry that has one.
pub(crate) fn key(node: &[u8], shape: Shape, index: usize) -> Key<'_> {
    let slot = Slot::of(node, index);
    let rest = slot.rest(node, shape);
    if slot.is_long() {
        return Key::Long(number(rest), slot.key_len());
    }
    Key::Whole(prefix(node), slot.head.to_be_bytes(), slot.key_len().min(IN_SLOT), rest)
}

/// Compares a key with the prefix of a node: the suffix, or on which side of all keys with this prefix the key is.
fn strip<'a>(node: &[u8], key: &'a [u8]) -> Result<&'a [u8], Ordering> {
    let prefix = prefix(node);
    match key.strip_prefix(prefix) {
        Some(suffix) => Ok(suffix),
        None => Err(key.cmp(prefix)),
    }
}

/// Whether a key can be inserted without a new prefix.
pub(crate) fn has_prefix(node: &[u8], key: &[u8]) -> bool {
    key.starts_with(prefix(node))
}

/// Finds the first entry whose key is not below `key`, and whether that is `key` itself. `long` compares a long key, by
/// its reference and its length, with `key`.
#[inline]
pub(crate) fn search<E>(
    node: &[u8],
    shape: Shape,
    key: &[u8],
    long: impl Fn(u64, usize) -> Result<Ordering, E>,
) -> Result<(usize, bool), E> {
    let count = count(node);
    if count <= shape.keyless {
        return Ok((count, false));
    }
    let suffix = match strip(node, key) {
        Ok(suffix) => suffix,
        Err(Ordering::Less) => return Ok((shape.keyless, false)),
        Err(_) => return Ok((count, false)),
    };
    let head = head_of(suffix);
    let (mut low, mut high) = (shape.keyless, count);
    while low < high {
        let middle = low.midpoint(high);
        let slot = Slot::of(node, middle);
        let order = match slot.head.cmp(&head) {
            Ordering::Equal => {
                let rest = slot.rest(node, shape);
                match slot.is_long() {
                    false => {
                        rest.cmp(rest_of(suffix)).then_with(|| slot.key_len().cmp(&suffix.len()))
                    }
                    true => long(number(rest), slot.key_len())?,
                }
            }
            order => order,
        };
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok((middle, true)),
        }
    }
    Ok((low, false))
}

/// Inserts an entry, if the key has the node's prefix and the bytes between slots and records suffice. `long` is the
/// reference of a long key; an entry without a key has an empty one.
pub(crate) fn insert(
    node: &mut [u8],
    shape: Shape,
    index: usize,
    (key, long): (&[u8], Option<u64>),
    value: &[u8],
) -> bool {
    let Ok(suffix) = (if index < shape.keyless { Ok(key) } else { strip(node, key) }) else {
        return false;
    };
    let reference = long.map(u64::to_le_bytes);
    let rest = match &reference {
        Some(bytes) => &bytes[..shape.reference],
        None => rest_of(suffix),
    };
    let len = shape.value_len(value.len()) + rest.len();
    let (count, records) = (count(node), records(node));
    let slots_end = HEAD + count * SLOT;
    if slots_end + SLOT + len > records {
        return false;
    }
    let at = records - len;
    let mut to = at;
    if shape.value.is_none() {
        put_u16(node, to, value.len());
        to += 2;
    }
    node[to..to + value.len()].copy_from_slice(value);
    node[to + value.len()..records].copy_from_slice(rest);
    let slot = HEAD + index * SLOT;
    node.copy_within(slot..slots_end, slot + SLOT);
    let key = match long {
        Some(_) => key.len() as u16 | LONG,
        None => suffix.len() as u16,
    };
    Slot { head: head_of(suffix), at, key }.put(node, index);
    put_u16(node, 0, count + 1);
    put_u16(node, 4, at);
    true
}

/// Removes an entry. In an inner node the first of those that remain loses its key.
pub(crate) fn remove(node: &mut [u8], shape: Shape, index: usize) {
    let slot = Slot::of(node, index);
    let mut freed = slot.record_len(node, shape);
    let (count, at) = (count(node), HEAD + index * SLOT);
    node.copy_within(at + SLOT..HEAD + count * SLOT, at);
    put_u16(node, 0, count - 1);
    if index < shape.keyless && count > 1 {
        let first = Slot::of(node, 0);
        freed += first.rest_len(shape);
        Slot { head: 0, key: 0, ..first }.put(node, 0);
    }
    put_u16(node, 6, dead(node) + freed);
}
