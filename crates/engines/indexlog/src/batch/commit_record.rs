//! The record that ends each part of a batch on several partitions, and the numbers of such batches.

use std::sync::atomic::{AtomicU64, Ordering};

use halite_contract::{Error, Result};

use crate::key_spaces::INTERNAL;
use crate::read::view::View;
use crate::record::{Kind, Record, SEQ_MAX};

/// The key of the newest batch on several partitions.
pub(crate) const KEY: &[u8] = b"batch";

/// The content of a batch's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Higher than those of all batches before it.
    pub(crate) number: u64,
    /// The partitions that have a part of it, a bit each.
    pub(super) participants: u64,
}

impl Batch {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.number.to_le_bytes());
        value[8..].copy_from_slice(&self.participants.to_le_bytes());
        value
    }

    /// The batch that a record ends, if it ends one.
    pub(crate) fn of(record: &Record<'_>) -> Option<Self> {
        let is_one =
            record.header.space.get() == INTERNAL && record.kind == Kind::Put && record.key == KEY;
        let value = record.inline_value().filter(|_| is_one)?;
        let (number, rest) = value.split_first_chunk()?;
        let participants = u64::from_le_bytes(*rest.first_chunk()?);
        Some(Self { number: u64::from_le_bytes(*number), participants })
    }

    /// The newest batch of which a partition has a part.
    pub(crate) fn newest(view: &View) -> Result<Option<Self>> {
        let Some(entry) = view.live(INTERNAL, KEY)? else { return Ok(None) };
        Ok(Self::of(&view.pin_record(entry)?.read()?))
    }

    /// The partitions that have a part of it.
    pub(crate) fn participants(self) -> impl Iterator<Item = usize> {
        (0..u64::BITS as usize).filter(move |at| self.participants >> at & 1 != 0)
    }
}

/// Checks that no participant lacks its part of the newest batch of any partition.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn check_whole(newest: &[Option<Batch>]) -> Result<()> {
    for batch in newest.iter().flatten() {
        if batch.number > SEQ_MAX {
            return Err(Error::Damaged {
                what: format!("batch {}", batch.number),
                why: "its number is beyond all that is ever written".into(),
            });
        }
        let has_part = |at: usize| {
            newest.get(at).copied().flatten().is_some_and(|newest| newest.number >= batch.number)
        };
        if let Some(lacking) = batch.participants().find(|&at| !has_part(at)) {
            return Err(Error::Damaged {
                what: format!("log of partition {lacking}"),
                why: format!(
                    "its part of batch {} is not there, though it was durable",
                    batch.number
                ),
            });
        }
    }
    Ok(())
}

/// The numbers of batches.
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    /// Numbers above all that were drawn before.
    pub(crate) fn after(highest: u64) -> Self {
        Self(AtomicU64::new(highest + 1))
    }

    /// Goes on above a number.
    pub(crate) fn raise(&self, number: u64) {
        // A forged number is refused by `check_whole`.
        self.0.fetch_max(number.saturating_add(1), Ordering::Relaxed);
    }

    pub(super) fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_number_is_damage() {
        let batch = |number| Some(Batch { number, participants: 1 });
        assert!(check_whole(&[batch(SEQ_MAX)]).is_ok());
        assert!(matches!(check_whole(&[batch(u64::MAX)]), Err(Error::Damaged { .. })));
        let numbers = Numbers::after(0);
        numbers.raise(u64::MAX);
        assert_eq!(numbers.draw(), u64::MAX);
    }
}
