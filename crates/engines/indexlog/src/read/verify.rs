//! Verification: every record of every block, and every piece of every live value.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::{Progress, VerifyReport};

use crate::partition::Partition;
use crate::read::pinned::piece_damage;
use crate::read::view::View;
use crate::record::{self, Record};

/// Verifies all partitions, one after the other.
pub(crate) fn verify(partitions: &[Arc<Partition>], progress: Progress<'_>) -> VerifyReport {
    let mut report = VerifyReport { complete: true, ..VerifyReport::default() };
    let total = partitions.iter().map(|partition| partition.record_bytes()).sum();
    let mut done = 0;
    for partition in partitions {
        let named = report.damage.len();
        partition.verify(&mut report, &mut |bytes| {
            done += bytes;
            progress(done, done.max(total))
        });
        for damage in &mut report.damage[named..] {
            partition.name_damage(damage);
        }
        if !report.complete {
            break;
        }
    }
    report
}

impl Partition {
    /// Bytes of blocks of records.
    fn record_bytes(&self) -> u64 {
        let view = self.view.read();
        let blocks = view.record_blocks().into_iter();
        blocks.filter_map(|block| Some(view.block(block)?.published.len())).sum()
    }

    /// Verifies this partition; `advance` is called with the number of bytes after each block.
    fn verify(&self, report: &mut VerifyReport, advance: &mut dyn FnMut(u64) -> ControlFlow<()>) {
        let blocks = self.view.read().record_blocks();
        for block in blocks {
            // A block that was freed meanwhile has nothing to check; one that is held stays as it is.
            let Some(readable) = self.view.read().block(block).cloned() else { continue };
            let Some(seed) = readable.seed else { continue };
            readable.published.read_ahead(0);
            let bytes = readable.published.bytes();
            self.verify_block(block, bytes, seed, report);
            if advance(bytes.len() as u64) == ControlFlow::Break(()) {
                report.complete = false;
                return;
            }
        }
    }

    fn verify_block(&self, block: u32, bytes: &[u8], seed: u64, report: &mut VerifyReport) {
        let mut at = 0;
        while at < bytes.len() as u64 {
            let record = match Record::read(&bytes[at as usize..], frame::place(seed, at)) {
                Ok(record) => record,
                Err(why) => {
                    // Where the next record starts is not known any more.
                    report.damage.push(record::damage(&bytes[at as usize..], block, at, why));
                    break;
                }
            };
            report.records += 1;
            if record.has_overflow() {
                self.verify_value(&self.view.read(), block, at, &record, report);
            }
            at = record.next_at(at);
        }
        report.bytes += bytes.len() as u64;
    }

    /// Checks the value of a live record; the blocks of a dead record's value may have been reused.
    fn verify_value(
        &self,
        view: &View,
        block: u32,
        at: u64,
        record: &Record<'_>,
        report: &mut VerifyReport,
    ) {
        let live = view.live(record.header.space.get(), record.key);
        // A key that cannot be looked up is damage that is reported where it is.
        if !live.ok().flatten().is_some_and(|entry| entry.block() == block && entry.offset() == at)
        {
            return;
        }
        for piece in record.pieces() {
            let pinned = view.pieces.pin(piece);
            let bytes = pinned.as_deref().unwrap_or_default();
            report.bytes += bytes.len() as u64;
            if bytes.len() != piece.len() as usize || !piece.matches(bytes, self.salt, record.seq())
            {
                report.damage.extend(piece_damage(record, piece).damage());
            }
        }
    }
}
