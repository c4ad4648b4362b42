//! Verification: every record's checksum is compared.

use std::ops::{Bound, ControlFlow};

use halite_contract::{Damage, Progress, Result, VerifyReport};
use halite_index::{Direction, RadixTree, Records};

use crate::address::Address;
use crate::failure::from_levels;
use crate::record::Kind;
use crate::store::Store;
use crate::zones::Zones;

/// Reads every record that an index points to.
pub(crate) fn verify(store: &Store, progress: Progress<'_>) -> Result<VerifyReport> {
    let views: Vec<_> = store.trees.iter().map(|tree| tree.view()).collect();
    let mut all = 0;
    for view in &views {
        all += view.memtables().map(|memtable| memtable.zones.used_bytes()).sum::<u64>();
        all += view.global_indexes().map(|global| global.pool_bytes()).sum::<u64>();
    }
    let levels: u64 = store.levels.stats().levels.iter().map(|level| level.bytes).sum();
    all += levels;
    let mut walk = Walk { report: VerifyReport::default(), all, progress };
    for view in &views {
        for memtable in view.memtables() {
            let of = |_: Address| Some(&*memtable.zones);
            if walk.index(&memtable.index, &**memtable, of).is_break() {
                return Ok(walk.report);
            }
        }
        for global in view.global_indexes() {
            if walk.index(&global.index, &**global, |address| global.zones_of(address)).is_break() {
                return Ok(walk.report);
            }
        }
    }
    let Walk { mut report, progress, .. } = walk;
    // The reads that follow do not keep memory from going.
    drop(views);
    let above = (report.records, report.bytes);
    let mut is_complete = true;
    let found = store.levels.check(&mut |checked| {
        (report.records, report.bytes) = (above.0 + checked.entries, above.1 + checked.bytes);
        let next = progress(report.bytes.min(all), all);
        is_complete = next.is_continue() || checked.bytes == checked.bytes_all;
        next
    });
    report.damage.extend(found.into_iter().map(|error| {
        let error = from_levels(error);
        // A file that the kernel cannot read is not whole either.
        error.damage().unwrap_or_else(|| Damage { what: "levels".into(), why: error.to_string() })
    }));
    report.complete = is_complete;
    Ok(report)
}

struct Walk<'a> {
    report: VerifyReport,
    all: u64,
    progress: Progress<'a>,
}

impl Walk<'_> {
    fn index<'z>(
        &mut self,
        index: &RadixTree,
        records: &impl Records,
        zones_of: impl Fn(Address) -> Option<&'z Zones>,
    ) -> ControlFlow<()> {
        let mut cursor =
            index.cursor_of_versions(Bound::Unbounded, Bound::Unbounded, Direction::Ascending);
        while let Some(entry) = cursor.next(index, records) {
            let address = Address::from_bits(entry);
            let Some(zones) = zones_of(address) else { continue };
            match zones.checked(address) {
                Ok(record) => {
                    self.report.records += 1;
                    self.report.bytes += record.len() as u64;
                    if record.kind() == Some(Kind::PutPieces) {
                        match crate::version::join(zones, address, &record) {
                            Ok(value) => self.report.bytes += value.len() as u64,
                            Err(error) => self.note(error.damage()),
                        }
                    }
                }
                Err(error) => self.note(error.damage()),
            }
            if self.report.records.is_multiple_of(1024) {
                (self.progress)(self.report.bytes.min(self.all), self.all)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn note(&mut self, damage: Option<Damage>) {
        self.report.damage.extend(damage);
    }
}
