//! A leaf of numbers.

use std::cmp::Ordering;

use super::{Leaf, reserve};

/// A leaf of numbers. Those that follow each other at one distance, as positions do that were given in order, are not kept
/// one by one.
#[derive(Debug)]
pub(crate) enum Numbers {
    Steps { first: u64, step: u64, len: usize },
    All(Vec<u64>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Steps { first: 0, step: 0, len: 0 }
    }
}

/// The number at an index among those that begin with `first`, at a distance, if there can be one.
fn nth(first: u64, step: u64, index: usize) -> Option<u64> {
    first.checked_add(step.checked_mul(index as u64)?)
}

impl Numbers {
    /// The numbers one by one.
    fn all(&mut self) -> &mut Vec<u64> {
        if let Self::Steps { .. } = self {
            *self = Self::All((0..self.len()).map(|index| self.get(index)).collect());
        }
        match self {
            Self::All(numbers) => numbers,
            Self::Steps { .. } => unreachable!("they are kept one by one now"),
        }
    }
}

impl Leaf for Numbers {
    type Item<'a> = u64;

    fn len(&self) -> usize {
        match self {
            Self::Steps { len, .. } => *len,
            Self::All(numbers) => numbers.len(),
        }
    }

    fn get(&self, index: usize) -> u64 {
        match self {
            Self::Steps { first, step, .. } => first + step * index as u64,
            Self::All(numbers) => numbers[index],
        }
    }

    fn insert(&mut self, index: usize, item: u64) {
        if let Self::Steps { first, step, len } = self {
            match *len {
                0 => {
                    (*first, *len) = (item, 1);
                    return;
                }
                1 => {
                    (*first, *step, *len) = ((*first).min(item), first.abs_diff(item), 2);
                    return;
                }
                _ if index == *len && nth(*first, *step, index) == Some(item) => {
                    *len += 1;
                    return;
                }
                _ if index == 0 && item.checked_add(*step) == Some(*first) => {
                    (*first, *len) = (item, *len + 1);
                    return;
                }
                _ => {}
            }
        }
        let numbers = self.all();
        reserve(numbers, 1);
        numbers.insert(index, item);
    }

    fn remove(&mut self, index: usize) {
        match self {
            Self::Steps { first, step, len } if index == 0 => {
                *len -= 1;
                *first += if *len > 0 { *step } else { 0 };
            }
            Self::Steps { len, .. } if index + 1 == *len => *len -= 1,
            _ => {
                self.all().remove(index);
            }
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        if let Self::Steps { step, len, .. } = *self {
            let rest = match len - at {
                0 => Self::default(),
                left => Self::Steps { first: self.get(at), step, len: left },
            };
            if let Self::Steps { len, .. } = self {
                *len = at;
            }
            return rest;
        }
        let numbers = self.all();
        let rest = numbers.split_off(at);
        numbers.shrink_to_fit();
        Self::All(rest)
    }

    fn append(&mut self, other: Self) {
        for index in 0..other.len() {
            self.insert(self.len(), other.get(index));
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Steps { .. } => 0,
            Self::All(numbers) => numbers.capacity() * size_of::<u64>(),
        }
    }

    fn compare(one: u64, other: u64) -> Ordering {
        one.cmp(&other)
    }
}
