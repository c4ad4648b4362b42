//! A leaf of members with scores.

use std::cmp::Ordering;

use super::{Leaf, NODE_MAX, reserve};

/// A leaf of members with scores, by the score and then by the member's bytes. Scores are never NaN.
#[derive(Debug, Default)]
pub(crate) struct Scored {
    scores: Vec<f64>,
    /// The ends of the members: [`NODE_MAX`] members, and one more, take less than 2^32 bytes.
    ends: Vec<u32>,
    members: Vec<u8>,
}

const _: () = assert!(((NODE_MAX + 1) * halite::KEY_LEN_MAX) as u64 <= u32::MAX as u64);

impl Scored {
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }
}

impl Leaf for Scored {
    type Item<'a> = (f64, &'a [u8]);

    fn len(&self) -> usize {
        self.scores.len()
    }

    fn get(&self, index: usize) -> (f64, &[u8]) {
        (self.scores[index], &self.members[self.start(index)..self.ends[index] as usize])
    }

    fn insert(&mut self, index: usize, (score, member): (f64, &[u8])) {
        let at = self.start(index);
        reserve(&mut self.members, member.len());
        reserve(&mut self.scores, 1);
        reserve(&mut self.ends, 1);
        self.members.splice(at..at, member.iter().copied());
        self.scores.insert(index, score);
        self.ends.insert(index, at as u32);
        for end in &mut self.ends[index..] {
            *end += member.len() as u32;
        }
    }

    fn remove(&mut self, index: usize) {
        let (start, end) = (self.start(index), self.ends[index] as usize);
        self.members.drain(start..end);
        self.scores.remove(index);
        self.ends.remove(index);
        for at in &mut self.ends[index..] {
            *at -= (end - start) as u32;
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let scores = self.scores.split_off(at);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|end| *end -= start as u32);
        let members = self.members.split_off(start);
        self.scores.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.members.shrink_to_fit();
        Self { scores, ends, members }
    }

    fn append(&mut self, other: Self) {
        let start = self.members.len() as u32;
        self.members.extend_from_slice(&other.members);
        self.scores.extend_from_slice(&other.scores);
        self.ends.extend(other.ends.into_iter().map(|end| end + start));
    }

    fn bytes(&self) -> usize {
        self.scores.capacity() * size_of::<f64>()
            + self.ends.capacity() * size_of::<u32>()
            + self.members.capacity()
    }

    fn compare(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
        let by_score = one.0.partial_cmp(&other.0).expect("no score is NaN");
        by_score.then_with(|| one.1.cmp(other.1))
    }
}
