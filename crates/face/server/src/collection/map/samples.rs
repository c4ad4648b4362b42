//! Random fields of a map.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::{Map, Pair, State, pairs};
use crate::collection::{check_ending, damaged};
use crate::failure::Outcome;
use crate::store::Store;

/// Fields that a part of the space of hashes has on average, at least, from which one is drawn.
const DRAWN_AMONG: u64 = 4;

/// Twice [`DRAWN_AMONG`] are the average at most; hardly a part has more than so many.
const DRAWN_AMONG_MAX: u64 = 24;

/// Draws for each of several different fields at most.
const DRAWS_A_FIELD: usize = 16;

/// Draws of a field that are in vain at most: more are so improbable that the map must have no field.
const DRAWS_MAX: usize = 10_000;

impl Map {
    /// A random field with its value, each as likely as any other; `None` of an empty map.
    ///
    /// The space of hashes is divided into parts of one length, with some fields each. A part is drawn, and a number: if the
    /// part has a field of this number, it is the one; if not, both are drawn anew. So fields in parts that have few are not
    /// preferred.
    pub(crate) fn sample(
        &self,
        store: &mut Store,
        mut random: impl FnMut() -> u64,
    ) -> Outcome<Option<Pair>> {
        let len = self.len(store)?;
        if len == 0 {
            return Ok(None);
        }
        let elements = match &self.state {
            State::Packed(packed) => {
                let pair = pairs(packed).nth((random() % len) as usize);
                return Ok(pair.map(|(field, value)| (field.to_vec(), value.to_vec())));
            }
            State::Elements(elements) => elements,
        };
        let bits = (len / DRAWN_AMONG).max(1).ilog2().min(u32::BITS);
        let numbers = if bits == 0 { len } else { DRAWN_AMONG_MAX };
        for _ in 0..DRAWS_MAX {
            let (part, mut left) = (random() & ((1 << bits) - 1), random() % numbers);
            let shift = u32::BITS - bits;
            let mut found = None;
            self.visit_from(store, elements, (part << shift) as u32, |hash, field, value| {
                if u64::from(hash) >> shift != part {
                    return Ok(ControlFlow::Break(()));
                }
                if left == 0 {
                    found = Some((field.to_vec(), value.to_vec()));
                    return Ok(ControlFlow::Break(()));
                }
                left -= 1;
                Ok(ControlFlow::Continue(()))
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let mut all = self.to_vec(store)?;
        let nth = random().checked_rem(all.len() as u64);
        Ok(nth.map(|nth| all.swap_remove(nth as usize)))
    }

    /// Different random fields, so many if there are, in random order; each choice is as likely as any other.
    pub(crate) fn sample_distinct(
        &self,
        store: &mut Store,
        count: usize,
        mut random: impl FnMut() -> u64,
    ) -> Outcome<Vec<Pair>> {
        let len = self.len(store)? as usize;
        if !self.is_packed() && count <= len / 3 {
            let (mut drawn, mut seen) = (Vec::new(), HashSet::new());
            let mut draws = 0..DRAWS_A_FIELD * count + DRAWS_MAX;
            while drawn.len() < count && draws.next().is_some() {
                check_ending(store)?;
                let Some(pair) = self.sample(store, &mut random)? else { break };
                if seen.insert(pair.0.clone()) {
                    drawn.push(pair);
                }
            }
            // Fields whose hashes were chosen to be alike are not all drawn.
            if drawn.len() == count {
                return Ok(drawn);
            }
        }
        let mut all = self.to_vec(store)?;
        let count = count.min(all.len());
        for at in 0..count {
            let other = at + (random() % (all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        Ok(all)
    }

    /// Draws so many random fields, of which some may be the same, until `visit` breaks or fails.
    pub(crate) fn draw(
        &self,
        store: &mut Store,
        count: u64,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        let packed: Option<Vec<_>> = match &self.state {
            State::Packed(packed) => Some(pairs(packed).collect()),
            State::Elements(_) => None,
        };
        for _ in 0..count {
            let go_on = match &packed {
                Some(all) if all.is_empty() => break,
                Some(all) => {
                    let (field, value) = all[(random() % all.len() as u64) as usize];
                    visit(field, value)?
                }
                None => {
                    let pair = self.sample(store, &mut random)?;
                    let (field, value) = pair.ok_or_else(|| {
                        damaged(&self.key, "it has fewer fields than were counted")
                    })?;
                    visit(&field, &value)?
                }
            };
            if go_on.is_break() {
                break;
            }
        }
        Ok(())
    }
}
