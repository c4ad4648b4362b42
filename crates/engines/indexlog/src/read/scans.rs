//! The scans and snapshots that are under way, and which space they may still read.
//!
//! The view of a partition counts the changes of its content: the count is its *epoch*. A scan reads a clone of the
//! index of one epoch. So it may read space that became visible before its epoch and was hidden in it or later:
//!
//! ```text
//! epochs    1    2    3    4    5    6
//! shown          |------------|             born 2, hidden 5
//! scans     no   no   yes  yes  yes  no
//! ```
//!
//! Space is *pinned* while one of these scans lives. It is filed under the youngest of them, and examined again when
//! that one ends: the next scan that pins it, if there is one, is older. Beginning, ending and asking take a search
//! among the epochs of the scans that live.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use halite_contract::{Holder, Reader};
use halite_sim::locks::Mutex;

/// The epochs in which space was visible: those behind `born`, up to `hidden`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The epoch in which the space was filled, which does not show it yet.
    pub(crate) born: u64,
    /// The last epoch that shows it.
    pub(crate) hidden: u64,
}

/// The scans and snapshots that are under way.
#[derive(Default)]
pub(crate) struct Scans(Mutex<UnderWay>);

#[derive(Default)]
struct UnderWay {
    epochs: BTreeMap<u64, Epoch>,
    /// Epochs under which space is filed, whose scans have ended.
    ended: Vec<u64>,
}

/// The scans of one epoch.
struct Epoch {
    scans: usize,
    /// The number behind the last operation that they show.
    position: u64,
    /// Whether space is filed under it.
    pins: bool,
    /// The kind of the first of them, and when it began.
    reader: Reader,
    since: Instant,
}

impl Scans {
    /// Notes a scan of an epoch that shows the operations before number `position`.
    pub(crate) fn begin(&self, epoch: u64, position: u64, reader: Reader) {
        match self.0.lock().epochs.entry(epoch) {
            Entry::Occupied(mut of_epoch) => of_epoch.get_mut().scans += 1,
            Entry::Vacant(vacant) => {
                let since = Instant::now();
                vacant.insert(Epoch { scans: 1, position, pins: false, reader, since });
            }
        }
    }

    /// Notes another scan of an epoch, if there is one of it. Returns whether there is.
    pub(crate) fn begin_again(&self, epoch: u64) -> bool {
        let mut under_way = self.0.lock();
        let of_epoch = under_way.epochs.get_mut(&epoch);
        of_epoch.map(|of_epoch| of_epoch.scans += 1).is_some()
    }

    /// Sets the purpose of the scans of an epoch.
    pub(crate) fn name(&self, epoch: u64, reader: Reader) {
        if let Some(of_epoch) = self.0.lock().epochs.get_mut(&epoch) {
            of_epoch.reader = reader;
        }
    }

    /// Notes the end of a scan.
    pub(crate) fn end(&self, epoch: u64) {
        let mut under_way = self.0.lock();
        let Entry::Occupied(mut of_epoch) = under_way.epochs.entry(epoch) else { return };
        of_epoch.get_mut().scans -= 1;
        if of_epoch.get().scans == 0 && of_epoch.remove().pins {
            under_way.ended.push(epoch);
        }
    }

    /// The epoch of the youngest scan that may read space that was visible in these epochs, under which the caller
    /// files the space; `None` if no scan may read it, now or later.
    pub(crate) fn pin(&self, shown: Shown) -> Option<u64> {
        if shown.born >= shown.hidden {
            return None;
        }
        let mut under_way = self.0.lock();
        let seeing = under_way.epochs.range_mut(shown.born + 1..=shown.hidden).next_back();
        seeing.map(|(epoch, of_epoch)| {
            of_epoch.pins = true;
            *epoch
        })
    }

    /// Takes the epochs under which space was filed and whose scans have ended since.
    pub(crate) fn take_ended(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().ended)
    }

    /// The epoch of the youngest scan. A scan may read space that is older than this and still visible, as long as it
    /// lives.
    pub(crate) fn youngest(&self) -> Option<u64> {
        self.0.lock().epochs.keys().next_back().copied()
    }

    /// The epoch of the oldest scan.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        self.0.lock().epochs.keys().next().copied()
    }

    /// The number behind the last operation that the oldest scan shows.
    pub(crate) fn oldest_position(&self) -> Option<u64> {
        self.0.lock().epochs.values().next().map(|oldest| oldest.position)
    }

    /// The oldest scan, for reports.
    pub(crate) fn oldest(&self) -> Option<Holder> {
        let under_way = self.0.lock();
        let oldest = under_way.epochs.values().next()?;
        Some(Holder { reader: oldest.reader, age: oldest.since.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Space that is filed as [`Scans`] says is let go as soon as no scan reads it, and not before.
        #[test]
        fn space_is_pinned_as_long_as_a_scan_reads_it(
            steps in prop::collection::vec((0..4_u8, 0..12_u64), 0..200),
        ) {
            let scans = Scans::default();
            let (mut now, mut live) = (1, Vec::new());
            let mut filed: BTreeMap<u64, Vec<Shown>> = BTreeMap::new();
            let sees = |epoch: u64, shown: Shown| shown.born < epoch && epoch <= shown.hidden;
            for (step, number) in steps {
                match step {
                    0 => {
                        scans.begin(now, now, Reader::Scan);
                        live.push(now);
                    }
                    1 if !live.is_empty() => {
                        scans.end(live.swap_remove(number as usize % live.len()));
                    }
                    2 => {
                        let shown = Shown { born: now.saturating_sub(number), hidden: now };
                        if let Some(epoch) = scans.pin(shown) {
                            filed.entry(epoch).or_default().push(shown);
                        } else {
                            prop_assert!(!live.iter().any(|&epoch| sees(epoch, shown)));
                        }
                        now += 1;
                    }
                    _ => now += 1,
                }
                for ended in scans.take_ended() {
                    for shown in filed.remove(&ended).unwrap_or_default() {
                        if let Some(next) = scans.pin(shown) {
                            filed.entry(next).or_default().push(shown);
                        } else {
                            prop_assert!(!live.iter().any(|&epoch| sees(epoch, shown)));
                        }
                    }
                }
                for (epoch, shown) in filed.iter().flat_map(|(epoch, all)| all.iter().map(move |shown| (epoch, shown))) {
                    prop_assert!(live.contains(epoch) && sees(*epoch, *shown));
                }
            }
        }
    }

    #[test]
    fn the_oldest_scan_is_told_with_what_it_is_for() {
        let scans = Scans::default();
        assert_eq!((scans.oldest(), scans.youngest(), scans.oldest_position()), (None, None, None));
        scans.begin(3, 30, Reader::Snapshot);
        scans.begin(5, 50, Reader::Scan);
        scans.name(3, Reader::Backup);
        assert_eq!(scans.oldest().map(|oldest| oldest.reader), Some(Reader::Backup));
        assert_eq!((scans.youngest(), scans.oldest_position()), (Some(5), Some(30)));
        scans.end(3);
        assert_eq!(scans.oldest().map(|oldest| oldest.reader), Some(Reader::Scan));
    }
}
