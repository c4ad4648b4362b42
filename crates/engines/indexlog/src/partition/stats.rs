//! The statistics of a partition.

use halite_contract::{Figure, Stats};

use crate::BLOCK;
use crate::change_log::ChangeLog;
use crate::key_spaces::is_internal;
use crate::partition::Partition;
use crate::read::view::View;
use crate::storage::Storage;
use crate::write::Writer;

impl Partition {
    /// Adds those of this partition.
    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        {
            let mut writer = self.writer.lock();
            let Writer { storage, collector, snapshots, .. } = &mut *writer;
            let Storage { space, log, .. } = storage;
            stats.held_bytes += space.held();
            let oldest = space.scans().oldest();
            stats.oldest_reader =
                oldest.map(|oldest| oldest.or_older(stats.oldest_reader)).or(stats.oldest_reader);
            let blocks = space.blocks();
            stats.live_bytes += blocks.live();
            stats.dead_bytes += blocks.reclaimable();
            stats.free_bytes += u64::from(blocks.free_count()) * BLOCK;
            stats.unsynced_writes += log.unsynced();
            let change_log = log.changes().map_or(0, ChangeLog::bytes);
            stats.user_bytes_written += storage.user_bytes();
            stats.collected_bytes_moved += collector.moved_bytes();
            stats.collected_blocks += collector.collected_blocks();
            let help = "Bytes of the pool that the change log takes.";
            stats.add(Figure::detail("change_log_bytes", help, change_log));
            let help = "Bytes of the pool that the newest snapshots of the index take.";
            stats.add(Figure::detail("index_snapshot_bytes", help, snapshots.len()));
        }
        let of_users = |view: &View| -> u64 {
            let of_users = view.spaces.iter().filter(|(id, _)| !is_internal(**id));
            of_users.map(|(_, space)| space.index.len()).sum()
        };
        stats.records += of_users(&self.view.read());
        stats.index_bytes += self.index_bytes();
    }
}
