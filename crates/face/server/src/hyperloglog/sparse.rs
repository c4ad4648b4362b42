//! The sparse encoding: runs of registers that have the same rank.
//!
//! ```text
//! 00nnnnnn            n+1 registers, up to 64, with rank 0
//! 01nnnnnn nnnnnnnn   n+1 registers, up to 16384, with rank 0
//! 1rrrrrnn            n+1 registers, up to 4, with rank r+1, up to 32
//! ```
//!
//! To raise a register within a run splits that in up to three, and afterwards neighbours of the same rank are joined
//! as Redis joins them, so that the same elements in the same order leave the same bytes.

use super::{Corrupted, HEADER_LEN, Result};

const ZEROS_LEN_MAX: usize = 64;
const RANKED_LEN_MAX: usize = 4;
/// The highest rank that a run can have.
const RANK_MAX: u8 = 32;
const LONG_ZEROS: u8 = 0x40;
const RANKED: u8 = 0x80;
/// Runs behind a change, one before it included, of which some may be joined.
const JOINED_MAX: usize = 5;

/// Some registers with the same rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) rank: u8,
    /// The number of registers.
    pub(super) len: usize,
    /// Bytes that its encoding takes.
    pub(super) size: usize,
}

impl Run {
    /// The run at the beginning of some bytes, which are not empty.
    fn decode(bytes: &[u8]) -> Result<Self> {
        let first = *bytes.first().ok_or(Corrupted)?;
        let low = usize::from(first & 0x3f);
        Ok(match first & 0xc0 {
            0 => Self { rank: 0, len: low + 1, size: 1 },
            LONG_ZEROS => {
                let second = usize::from(*bytes.get(1).ok_or(Corrupted)?);
                Self { rank: 0, len: (low << 8 | second) + 1, size: 2 }
            }
            _ => Self { rank: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, size: 1 },
        })
    }
}

/// The runs of a sparse encoding.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Result<Run>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let run = Run::decode(rest);
        rest = run.ok().and_then(|run| rest.get(run.size..)).unwrap_or_default();
        Some(run)
    })
}

/// Appends a run of zeros, if it has registers.
pub(super) fn push_zeros(bytes: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=ZEROS_LEN_MAX => bytes.push((len - 1) as u8),
        _ => bytes.extend([LONG_ZEROS | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

/// The encoding of a run of up to four registers with a rank.
fn ranked(rank: u8, len: usize) -> u8 {
    RANKED | (rank - 1) << 2 | (len - 1) as u8
}

/// The result of [`raise`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raised {
    /// Whether the register was lower.
    Done(bool),
    /// The rank is too high for the encoding, or its bytes would be too many: nothing has changed.
    TooLong,
}

/// Raises a register of a string, header included, to a rank.
pub(super) fn raise(
    string: &mut Vec<u8>,
    index: usize,
    rank: u8,
    len_max: usize,
) -> Result<Raised> {
    if rank > RANK_MAX {
        return Ok(Raised::TooLong);
    }
    let (mut at, mut first, mut before) = (HEADER_LEN, 0, None);
    let run = loop {
        let run = Run::decode(&string[at.min(string.len())..])?;
        if index < first + run.len {
            break run;
        }
        before = Some(at);
        (at, first) = (at + run.size, first + run.len);
    };
    if run.rank >= rank {
        return Ok(Raised::Done(false));
    }
    if run.len == 1 && run.size == 1 {
        string[at] = ranked(rank, 1);
    } else {
        let mut split = Vec::with_capacity(5);
        let push = |split: &mut Vec<u8>, len: usize| match run.rank {
            0 => push_zeros(split, len),
            _ if len == 0 => {}
            old => split.push(ranked(old, len)),
        };
        push(&mut split, index - first);
        split.push(ranked(rank, 1));
        push(&mut split, first + run.len - 1 - index);
        if split.len() > run.size && string.len() + split.len() - run.size > len_max {
            return Ok(Raised::TooLong);
        }
        string.splice(at..at + run.size, split);
    }
    join(string, before.unwrap_or(HEADER_LEN));
    Ok(Raised::Done(true))
}

/// Joins neighbours of the same rank among some runs.
fn join(string: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_MAX {
        let Some(Ok(run)) = string.get(at..).filter(|rest| !rest.is_empty()).map(Run::decode)
        else {
            return;
        };
        let next = string.get(at + 1..).and_then(|rest| Run::decode(rest).ok());
        match next.filter(|next| run.rank > 0 && next.rank == run.rank) {
            Some(next) if run.len + next.len <= RANKED_LEN_MAX => {
                string[at + 1] = ranked(run.rank, run.len + next.len);
                string.remove(at);
            }
            _ => at += run.size,
        }
    }
}
