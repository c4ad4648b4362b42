//! The sorted keys of one node.

use std::cmp::Ordering;

/// Keys in a node at the most.
pub(crate) const FANOUT: usize = 64;

/// Bytes of long keys' tails beyond which a node with a few keys counts as full.
const TAILS_LEN_MAX: usize = 64 << 10;

/// Keys that a node has at least before its tails can make it full.
const LEN_MIN_BY_TAILS: usize = 4;

/// Sorted keys between two fences, `low` inclusive and `high` exclusive.
///
/// All of them begin with the common prefix of the fences, so that it is stored once. If the keys
/// themselves have a longer common prefix, and their heads would be equal too often, the rest of that
/// prefix is the *guard*: a search compares it, and a key that differs in it goes before or behind all. The
/// first 8 bytes behind it are a key's head, a big-endian number padded with zeros, which decides nearly
/// every comparison; the bytes behind are its tail. All tails lie in one array, in order.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Keys {
    len: usize,
    /// How many bytes the fences have in common.
    prefix_len: usize,
    guard: Box<[u8]>,
    heads: [u64; FANOUT],
    /// How many bytes of a head belong to the key.
    head_lens: [u8; FANOUT],
    /// Where each tail ends.
    tail_ends: [u32; FANOUT],
    tails: Vec<u8>,
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
}

impl Keys {
    /// Bytes at the start that most searches read: the lengths and the heads.
    pub(crate) const SEARCHED_LEN: usize = std::mem::offset_of!(Self, head_lens);

    pub(crate) fn new(low: Box<[u8]>, high: Option<Box<[u8]>>) -> Self {
        let prefix_len = high.as_deref().map_or(0, |high| common_prefix(&low, high));
        Self {
            len: 0,
            prefix_len,
            guard: [].into(),
            heads: [0; FANOUT],
            head_lens: [0; FANOUT],
            tail_ends: [0; FANOUT],
            tails: Vec::new(),
            low,
            high,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    pub(crate) fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }

    /// Whether the node must be split before `key` is added.
    pub(crate) fn is_full_for(&self, key: &[u8]) -> bool {
        self.len == FANOUT
            || self.len >= LEN_MIN_BY_TAILS
                && self.tails.len() + self.behind_prefix(key).len() > TAILS_LEN_MAX
    }

    /// Whether the keys of both, and `more`, would fit into one node with room to spare, or one of the
    /// nodes is empty.
    pub(crate) fn could_join(&self, other: &Self, more: usize) -> bool {
        let len = self.len + other.len + more;
        let prefix_len = other.high().map_or(0, |high| common_prefix(&self.low, high));
        let tails_len = |keys: &Self| keys.tails.len() + keys.len * (keys.skip() - prefix_len);
        let roomy =
            len <= FANOUT * 3 / 4 && tails_len(self) + tails_len(other) <= TAILS_LEN_MAX / 2;
        roomy || len <= FANOUT && (self.len == 0 || other.len == 0)
    }

    /// How many bytes of the keys the heads leave out.
    fn skip(&self) -> usize {
        self.prefix_len + self.guard.len()
    }

    /// A key between the fences, without their common prefix. For a key outside them, which an index meets
    /// if the full keys that it reads are wrong, some bytes or none.
    #[inline]
    fn behind_prefix<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.get(self.prefix_len..).unwrap_or_default()
    }

    /// The place of `key`, a key between the fences, or where it would go.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let mut rest = self.behind_prefix(key);
        if !self.guard.is_empty() {
            match rest.strip_prefix(&*self.guard) {
                Some(behind) => rest = behind,
                None => return Err(if *rest < *self.guard { 0 } else { self.len }),
            }
        }
        let (head, head_len) = head_of(rest);
        let first = self.first_not_below(head);
        if first == self.len || self.heads[first] != head {
            return Err(first);
        }
        let tail = &rest[usize::from(head_len)..];
        match self.compare(first, head, head_len, tail) {
            Ordering::Equal => Ok(first),
            Ordering::Greater => Err(first),
            Ordering::Less => {
                let (mut start, mut end) = (first + 1, self.len);
                while start < end {
                    let middle = start.midpoint(end);
                    match self.compare(middle, head, head_len, tail) {
                        Ordering::Less => start = middle + 1,
                        Ordering::Equal => return Ok(middle),
                        Ordering::Greater => end = middle,
                    }
                }
                Err(start)
            }
        }
    }

    /// The first key whose head is not less than `head`.
    #[inline]
    fn first_not_below(&self, head: u64) -> usize {
        // The search has no branches on the keys, which a processor could not predict.
        let (mut first, mut len) = (0, self.len);
        while len > 1 {
            let half = len / 2;
            first += usize::from(self.heads[first + half - 1] < head) * half;
            len -= half;
        }
        first + usize::from(len == 1 && self.heads[first] < head)
    }

    /// How the key at `at` compares with another. Of two keys with one head, the shorter is a prefix
    /// of the longer, padded.
    fn compare(&self, at: usize, head: u64, head_len: u8, tail: &[u8]) -> Ordering {
        let order = self.heads[at].cmp(&head).then_with(|| self.head_lens[at].cmp(&head_len));
        // Only a full head has a tail; where there is none, its lines are not touched.
        if order.is_eq() && head_len == 8 { self.tail(at).cmp(tail) } else { order }
    }

    fn tail_start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.tail_ends[at - 1] as usize }
    }

    fn tail(&self, at: usize) -> &[u8] {
        &self.tails[self.tail_start(at)..self.tail_ends[at] as usize]
    }

    /// Adds `key`, a key between the fences, at its place.
    pub(crate) fn insert(&mut self, at: usize, key: &[u8]) {
        assert!(self.len < FANOUT, "a full node is split before it is added to");
        let common = common_prefix(self.behind_prefix(key), &self.guard);
        if common < self.guard.len() {
            self.set_guard_len(common);
        }
        self.insert_behind_guard(at, key);
        if self.len.is_power_of_two() {
            self.refine();
        }
    }

    fn insert_behind_guard(&mut self, at: usize, key: &[u8]) {
        let rest = key.get(self.skip()..).unwrap_or_default();
        let (head, head_len) = head_of(rest);
        let tail = &rest[usize::from(head_len)..];
        let tail_start = self.tail_start(at);
        self.tails.splice(tail_start..tail_start, tail.iter().copied());
        shift_right(&mut self.heads, at, self.len, head);
        shift_right(&mut self.head_lens, at, self.len, head_len);
        shift_right(&mut self.tail_ends, at, self.len, tail_start as u32);
        self.len += 1;
        for end in &mut self.tail_ends[at..self.len] {
            *end += tail.len() as u32;
        }
    }

    /// Lets the keys' common prefix be the guard, if more than an eighth of the heads are equal to the one
    /// before.
    fn refine(&mut self) {
        let same = (1..self.len).filter(|&at| self.heads[at - 1] == self.heads[at]).count();
        if same * 8 > self.len {
            let common = common_prefix(&self.get(0), &self.get(self.len - 1));
            self.set_guard_len(common - self.prefix_len);
        }
    }

    /// Makes the guard so many bytes long, which all keys have in common.
    fn set_guard_len(&mut self, len: usize) {
        if len == self.guard.len() {
            return;
        }
        let keys: Vec<_> = (0..self.len).map(|at| self.get(at)).collect();
        if let Some(first) = keys.first() {
            self.guard = first[self.prefix_len..][..len].into();
        } else {
            self.guard = self.guard[..len].into();
        }
        self.len = 0;
        self.tails.clear();
        keys.iter().for_each(|key| self.insert_behind_guard(self.len, key));
        self.tails.shrink_to_fit();
    }

    pub(crate) fn remove(&mut self, at: usize) {
        let tail = self.tail_start(at)..self.tail_ends[at] as usize;
        let tail_len = tail.len() as u32;
        self.tails.drain(tail);
        self.heads.copy_within(at + 1..self.len, at);
        self.head_lens.copy_within(at + 1..self.len, at);
        self.tail_ends.copy_within(at + 1..self.len, at);
        self.len -= 1;
        for end in &mut self.tail_ends[at..self.len] {
            *end -= tail_len;
        }
    }

    /// Puts the key at `at` into `key`.
    pub(crate) fn copy_to(&self, at: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.low[..self.prefix_len]);
        key.extend_from_slice(&self.guard);
        key.extend_from_slice(&self.heads[at].to_be_bytes()[..usize::from(self.head_lens[at])]);
        key.extend_from_slice(self.tail(at));
    }

    pub(crate) fn get(&self, at: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.copy_to(at, &mut key);
        key
    }

    /// Adds the keys of `other` in `range` behind its own, whose fences must enclose them.
    pub(crate) fn extend_from(&mut self, other: &Self, range: std::ops::Range<usize>) {
        let mut key = Vec::new();
        for at in range {
            other.copy_to(at, &mut key);
            self.insert(self.len, &key);
        }
        self.refine();
        self.tails.shrink_to_fit();
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        self.tails.capacity()
            + self.guard.len()
            + self.low.len()
            + self.high.as_ref().map_or(0, |high| high.len())
    }
}

/// The shortest key above `below` and not above `key`.
pub(crate) fn separator(below: &[u8], key: &[u8]) -> Box<[u8]> {
    let len = common_prefix(below, key) + 1;
    key[..len.min(key.len())].into()
}

pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[inline]
fn head_of(rest: &[u8]) -> (u64, u8) {
    if let Some(head) = rest.first_chunk::<8>() {
        return (u64::from_be_bytes(*head), 8);
    }
    let mut head = [0; 8];
    head[..rest.len()].copy_from_slice(rest);
    (u64::from_be_bytes(head), rest.len() as u8)
}

pub(crate) fn shift_right<T: Copy>(array: &mut [T; FANOUT], at: usize, len: usize, new: T) {
    array.copy_within(at..len, at + 1);
    array[at] = new;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys of which many have long prefixes in common, and some are prefixes of others.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let prefix =
            prop::sample::select(vec![&b""[..], b"k", b"key:0000", b"key:0000000000", b"z"]);
        (prefix, prop::collection::vec(prop::sample::select(vec![0, b'0', b'1', 255]), 0..12))
            .prop_map(|(prefix, rest)| [prefix, &rest].concat())
    }

    fn check(keys: &Keys, model: &[Vec<u8>], sought: &[u8]) {
        assert_eq!(keys.len(), model.len());
        let wanted = |key: &[u8]| model.binary_search_by(|known| known[..].cmp(key));
        assert_eq!(keys.search(sought), wanted(sought));
        for (at, key) in model.iter().enumerate() {
            assert_eq!(keys.search(key), Ok(at));
            assert_eq!(&keys.get(at), key);
        }
    }

    proptest! {
        #[test]
        fn keys_are_found_where_they_belong(
            ops in prop::collection::vec((key(), key(), 0..4_u8), 1..300),
        ) {
            let (mut keys, mut model) = (Keys::new([].into(), None), Vec::new());
            for (key, sought, kind) in ops {
                match keys.search(&key) {
                    Ok(at) if kind == 0 || keys.len() == FANOUT => {
                        keys.remove(at);
                        model.remove(at);
                    }
                    Ok(_) => {}
                    Err(at) if keys.len() < FANOUT => {
                        keys.insert(at, &key);
                        model.insert(at, key);
                    }
                    Err(_) => {}
                }
                check(&keys, &model, &sought);
            }
            let mut copy = Keys::new([].into(), None);
            copy.extend_from(&keys, 0..keys.len());
            check(&copy, &model, b"key:0000000000");
        }
    }

    #[test]
    fn what_keys_have_in_common_is_not_in_their_heads() {
        let mut keys = Keys::new([].into(), None);
        for number in 0..FANOUT {
            keys.insert(number, format!("user:00000000{number:04}").as_bytes());
        }
        assert_eq!(keys.guard.len(), "user:0000000000".len());
        let mut heads = keys.heads.to_vec();
        heads.dedup();
        assert_eq!(heads.len(), FANOUT);
        assert!(keys.tails.is_empty());
    }
}
