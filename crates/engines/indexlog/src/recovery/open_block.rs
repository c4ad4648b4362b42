//! The blocks that the log was appended to last: their records tell where they end.

use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::{Error, Result};
use halite_pmem::{Fresh, Parcel};
use halite_sim::planted;

use crate::BLOCK;
use crate::batch::commit_record::Batch;
use crate::log::overflow::read_whole;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::record::{self, BATCH_ALIGN, Record};
use crate::space::Space;
use crate::space::block_map::{FIRSTS, Life, State};

/// A block whose end is known only from its records.
pub(crate) struct OpenBlock {
    pub(super) block: u32,
    /// The number of its first record, as far as the map knows it.
    number: u32,
    pub(super) fresh: Fresh,
    pub(super) seed: u64,
    /// The first and the last number of the records that follow each other from the start.
    pub(super) seqs: Option<(u64, u64)>,
    /// Each of them.
    pub(super) records: Vec<Followed>,
    /// The highest number that any record in the block, beyond those too, proves durable.
    pub(super) durable: u64,
}

/// A record of an open block.
pub(super) struct Followed {
    /// Where it ends, in bytes.
    end: u64,
    /// How many records of its batch are to follow.
    pub(super) remaining: u32,
    /// The batch on several partitions whose part it ends.
    pub(super) batch: Option<Batch>,
    /// Whether it has a large value.
    has_overflow: bool,
    /// The pieces of the large value, if they were read.
    pub(super) value: Vec<Parcel>,
}

impl OpenBlock {
    fn read(block: u32, number: u32, fresh: Fresh, seed: u64) -> Self {
        fresh.read_ahead();
        let bytes = fresh.bytes();
        let (mut seqs, mut records, mut durable) = (None, Vec::new(), 0);
        let mut at = 0;
        while at < BLOCK
            && let Ok(record) = Record::read(&bytes[at as usize..], frame::place(seed, at))
        {
            let (first, expected) = match seqs {
                Some((first, last)) => (first, last + 1),
                None => (record.seq(), record.seq()),
            };
            let begins = (first % u64::from(FIRSTS)) as u32 == number;
            if record.is_relocated() || record.seq() != expected || !begins {
                break;
            }
            seqs = Some((first, record.seq()));
            durable = durable.max(record.durable_before());
            at = record.next_at(at);
            records.push(Followed {
                end: at,
                remaining: record.header.remaining.get(),
                batch: Batch::of(&record),
                has_overflow: record.has_overflow(),
                value: Vec::new(),
            });
        }
        // A later batch that survived may prove that the missing records before it were durable.
        for at in (at.next_multiple_of(BATCH_ALIGN)..BLOCK).step_by(BATCH_ALIGN as usize) {
            if let Ok(record) = Record::read(&bytes[at as usize..], frame::place(seed, at)) {
                durable = durable.max(record.durable_before());
            }
        }
        Self { block, number, fresh, seed, seqs, records, durable }
    }

    /// The number of its first record, which is there or is missing. `near` is a number not far from
    /// it.
    pub(super) fn first(&self, near: u64) -> u64 {
        self.seqs.map_or_else(|| first_near(self.number, near), |(first, _)| first)
    }

    /// Reads the large values of the records behind number `durable`. Returns how many records there are
    /// before the first whose value is torn.
    pub(super) fn read_values(&mut self, space: &Space, durable: u64) -> usize {
        let first = self.seqs.map_or(0, |(first, _)| first);
        let proved = (durable + 1).saturating_sub(first) as usize;
        for at in proved..self.records.len() {
            if planted!("indexlog.torn-value-taken", true, !self.records[at].has_overflow) {
                continue;
            }
            let begin = at.checked_sub(1).map_or(0, |before| self.records[before].end);
            let bytes = &self.fresh.bytes()[begin as usize..];
            let record = Record::read(bytes, frame::place(self.seed, begin)).ok();
            match record.and_then(|record| read_whole(space.carving(), &record, space.salt())) {
                Some(value) => self.records[at].value = value,
                None => return at,
            }
        }
        self.records.len()
    }

    /// Where the records end.
    pub(super) fn end(&self) -> u64 {
        self.records.last().map_or(0, |last| last.end)
    }
}

/// The number nearest to `near` that the map would keep as `number`.
fn first_near(number: u32, near: u64) -> u64 {
    let firsts = u64::from(FIRSTS);
    let behind = near.wrapping_sub(number.into()) % firsts;
    let is_behind = behind <= firsts / 2 && behind <= near;
    if is_behind { near - behind } else { near.saturating_add(firsts - behind) }
}

/// Takes the sealed blocks into use, unread, and returns the open ones, read, in the order in which they were opened.
pub(crate) fn take_sealed_blocks(
    space: &mut Space,
    view: &mut View,
    lives: &[(u32, Life)],
) -> Result<Vec<OpenBlock>> {
    let mut open = Vec::new();
    for &(block, life) in lives {
        space.blocks_mut().take_found(block);
        let fresh = space.carving().block(block)?;
        let seed = record::seed(space.salt(), block, life.incarnation);
        match life.state {
            State::Sealed(used) if used <= BLOCK => take(view, block, fresh, used, seed),
            State::Sealed(used) => {
                return Err(Error::Damaged {
                    what: format!("block map, block {block}"),
                    why: format!("{used} bytes are said to be used"),
                });
            }
            State::Open(number) => open.push(OpenBlock::read(block, number, fresh, seed)),
            State::Free => {}
        }
    }
    // The numbers wrap; few records are in open blocks, so the widest gap is where the order begins.
    open.sort_unstable_by_key(|open| open.number);
    let gap = |at: usize| {
        let before = open[(at + open.len() - 1) % open.len()].number;
        open[at].number.wrapping_sub(before).wrapping_sub(1) % FIRSTS
    };
    if let Some(first) = (0..open.len()).max_by_key(|&at| gap(at)) {
        open.rotate_left(first);
    }
    Ok(open)
}

pub(super) fn take(view: &mut View, block: u32, fresh: Fresh, used: u64, seed: u64) {
    let published = Arc::clone(fresh.into_appender(used).published());
    view.set_block(block, Readable { published, seed: Some(seed) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_known_by_its_last_bits_and_by_one_not_far_from_it() {
        let firsts = u64::from(FIRSTS);
        for seq in [1, 2, 1000, firsts - 1, firsts, firsts + 1, 5 * firsts + 7] {
            for far in [0, 1, 100, firsts / 2 - 1] {
                let number = (seq % firsts) as u32;
                assert_eq!(first_near(number, seq + far), seq, "{far} behind");
                assert_eq!(first_near(number, seq - far.min(seq)), seq, "{far} ahead");
            }
        }
    }
}
