//! A random key, by a descent along the bytes of keys.

use fastrand::Rng;

use crate::{Bytes, Direction, KeyRange, Result};

/// Finds the first key of a range in a direction.
pub type Seek<'a> = &'a dyn Fn(&KeyRange, Direction) -> Result<Option<Bytes>>;

/// A key chosen by `random`; `None` if there is none: for engines that do not count their keys.
///
/// A prefix is followed until it is a key. Wherever keys differ in their next byte, it is any of those that there are,
/// by equal chances; that a key ends there is another chance of the same size. So keys of one length that are numbers
/// are chosen uniformly. Others are not: one that has few beside it is chosen more often than one among many. Each of
/// them can be.
///
/// It takes a few seeks for each byte in which keys differ, and counts nothing.
///
/// # Errors
/// Those of `seek`.
pub fn sample_by_descent(seek: Seek<'_>, random: u64) -> Result<Option<Bytes>> {
    Keys(seek).sample(&mut Rng::with_seed(random))
}

/// The keys, as they are found.
struct Keys<'a>(Seek<'a>);

impl Keys<'_> {
    fn sample(&self, random: &mut Rng) -> Result<Option<Bytes>> {
        let all = KeyRange::all();
        let Some(mut first) = (self.0)(&all, Direction::Forward)? else { return Ok(None) };
        let Some(mut last) = (self.0)(&all, Direction::Reverse)? else { return Ok(None) };
        // `first` and `last` are the first and the last key with a common prefix.
        while first != last {
            let depth = first.iter().zip(&*last).take_while(|(a, b)| a == b).count();
            match self.choose(&first, &last, depth, random)? {
                Some(chosen) => first = chosen,
                None => break,
            }
            if first[depth] < last[depth] {
                let prefix = KeyRange::prefix(&first[..=depth]);
                let Some(its_last) = (self.0)(&prefix, Direction::Reverse)? else { break };
                last = its_last;
            }
        }
        Ok(Some(first))
    }

    /// Chooses one of the bytes that keys from `first` to `last` have at `depth`: the first key that has it. `None`
    /// if it is chosen that the key ends there, which `first` may.
    fn choose(
        &self,
        first: &Bytes,
        last: &Bytes,
        depth: usize,
        random: &mut Rng,
    ) -> Result<Option<Bytes>> {
        let low = first.get(depth).copied();
        // The bytes that may be there.
        let mut bytes: Vec<u8> = (low.unwrap_or(0)..=last[depth]).collect();
        loop {
            let place = random.usize(..bytes.len() + usize::from(low.is_none()));
            let Some(&byte) = bytes.get(place) else { return Ok(None) };
            if Some(byte) == low {
                return Ok(Some(first.clone()));
            }
            let sought = [&last[..depth], &[byte]].concat();
            let Some(next) = self.from(sought, last)? else { return Ok(Some(last.clone())) };
            if next[depth] == byte {
                return Ok(Some(next));
            }
            // Each miss leaves fewer, and those that are there have equal chances still.
            bytes.retain(|other| !(byte..next[depth]).contains(other));
        }
    }

    /// The first key from `start` up to `last`, which is one.
    fn from(&self, start: Vec<u8>, last: &Bytes) -> Result<Option<Bytes>> {
        let end = [&last[..], &[0]].concat();
        (self.0)(&KeyRange::new(start, Some(end)), Direction::Forward)
    }
}
