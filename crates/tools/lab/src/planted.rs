//! The catalogue of planted bugs: classic bugs of persistent memory, planted in the code that ships to test the lab.
//!
//! Each is one expression there, `planted!("crate.what-is-wrong", wrong, right)` (`halite_sim::planted`), of which
//! `--cfg halite_planted` compiles both and a test chooses one at run time. A row says in which file the bug is, in which
//! histories and under which rules the lab must find it, and in how many. `docs/PLANTED_BUGS.md` shows the same rows.

use halite_contract::lab::Kind;

use crate::Rules;

/// Whose histories are explored: those of the seeds from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Histories {
    /// The manager of segments.
    Space,
    /// Object pools and zones.
    Objects,
    /// The persistent heap.
    Heap,
    /// Pages that are copied on write.
    Pages,
    /// A tiny store that appends to a file.
    LoggedFiles,
    /// A tiny store with a word that tells the name of a file.
    NotedFiles,
    /// A tiny store that replaces a file by renaming another.
    RenamedFiles,
    /// The engine `indexlog`.
    Indexlog(Kind),
    /// The same with three partitions.
    Partitions,
    /// The same with a change log.
    Changes(Kind),
    /// The same with snapshots of the index.
    Snapshots(Kind),
    /// The engine `lsm` with so many trees.
    Lsm(usize, Kind),
    /// The same with a log.
    LsmLog(Kind),
    /// The engine `betree`.
    Betree(Kind),
    /// The same with values in extents of their own.
    BetreeValues,
    /// The same with a pool of this name, with snapshots, objects and leaves that go and come back.
    BetreePool(&'static str),
    /// The same with leaves that are damaged, or were used without each other: one scenario, without power cuts.
    BetreeDevices,
    /// The copy-on-write trees of the engine `table`, in a file.
    CowTrees,
    /// A partition under CoW.
    Cow,
    /// A partition under InP.
    InP,
    /// A partition under Log.
    Log,
    /// A partition under NVM-InP.
    NvmInP,
    /// A partition under NVM-Log.
    NvmLog,
    /// The same with small memtables, in longer histories.
    DeepNvmLog,
    /// A partition under NVM-CoW, with snapshots.
    NvmCow,
    /// A partition under NVM-WBL, with views.
    NvmWbl,
    /// A partition under NVM-InP in a pool that rows fill.
    SmallNvmInP,
    /// Two partitions of a testbed in a pool, under NVM-InP, and transactions over both.
    Testbed,
    /// The same under InP, with files.
    TestbedInP,
    /// The same under CoW, with files and views.
    TestbedCow,
    /// The collections of a server of this name.
    Server(&'static str),
}

impl Histories {
    /// The name, for people.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Space => "the manager of segments".to_owned(),
            Self::Objects => "object pools and zones".to_owned(),
            Self::Heap => "the persistent heap".to_owned(),
            Self::Pages => "pages, copied on write".to_owned(),
            Self::LoggedFiles => "files, Logged".to_owned(),
            Self::NotedFiles => "files, Noted".to_owned(),
            Self::RenamedFiles => "files, Renamed".to_owned(),
            Self::Indexlog(kind) => format!("indexlog, {kind:?}"),
            Self::Partitions => "indexlog, 3 partitions".to_owned(),
            Self::Changes(kind) => format!("indexlog with a change log, {kind:?}"),
            Self::Snapshots(kind) => format!("indexlog with snapshots of the index, {kind:?}"),
            Self::Lsm(1, kind) => format!("lsm, {kind:?}"),
            Self::Lsm(trees, kind) => format!("lsm, {trees} trees, {kind:?}"),
            Self::LsmLog(kind) => format!("lsm with a log, {kind:?}"),
            Self::Betree(kind) => format!("betree, {kind:?}"),
            Self::BetreeValues => "betree, large values".to_owned(),
            Self::BetreePool(name) => format!("betree, {name}"),
            Self::BetreeDevices => "betree, devices".to_owned(),
            Self::CowTrees => "table, copy-on-write trees in a file".to_owned(),
            Self::Cow => "table, CoW".to_owned(),
            Self::InP => "table, InP".to_owned(),
            Self::Log => "table, Log".to_owned(),
            Self::NvmInP => "table, NVM-InP".to_owned(),
            Self::NvmLog => "table, NVM-Log".to_owned(),
            Self::DeepNvmLog => "table, NVM-Log with small memtables".to_owned(),
            Self::NvmCow => "table, NVM-CoW".to_owned(),
            Self::NvmWbl => "table, NVM-WBL".to_owned(),
            Self::SmallNvmInP => "table, NVM-InP without room".to_owned(),
            Self::Testbed => "table, two partitions".to_owned(),
            Self::TestbedInP => "table, two partitions under InP".to_owned(),
            Self::TestbedCow => "table, two partitions under CoW".to_owned(),
            Self::Server(name) => format!("collections, {name}"),
        }
    }
}

/// A planted bug.
#[derive(Debug, Clone, Copy)]
pub struct PlantedBug {
    /// The id: the crate, and what is wrong.
    pub id: &'static str,
    /// The defect, in a sentence.
    pub what: &'static str,
    /// A file that it is planted in, from the crate's folder on.
    pub place: &'static str,
    /// The histories in which it must be found.
    pub histories: Histories,
    /// The rules under which it must be found.
    pub rules: Rules,
    /// Histories that it may take.
    pub budget: u64,
}

macro_rules! bugs {
    ($($id:literal $place:literal, $histories:expr, $rules:ident, $budget:literal, $what:literal;)*) => {
        /// All of them.
        pub const PLANTED_BUGS: &[PlantedBug] = &{
            use Histories::{
                Betree, BetreeDevices, BetreePool, BetreeValues, Changes, Cow, CowTrees, DeepNvmLog, Heap, InP,
                Indexlog, Log, LoggedFiles, Lsm, LsmLog, NotedFiles, NvmCow, NvmInP, NvmLog, NvmWbl, Objects, Pages, SmallNvmInP,
                Partitions,
                RenamedFiles, Server, Snapshots, Space, Testbed, TestbedCow, TestbedInP,
            };
            use Kind::{Blocks, Collecting, Few, Large, Levels, Mixed, Unsynced};
            [$(PlantedBug {
                id: $id,
                what: $what,
                place: $place,
                histories: $histories,
                rules: Rules::$rules,
                budget: $budget,
            }),*]
        };
    };
}

bugs! {
    "pmem.flush-rounded-down" "pmem/src/pool.rs", Space, Memory, 10,
        "A flush stops short of its last line, if that is not full.";
    "pmem.word-stored-in-halves" "pmem/src/words.rs", Space, Memory, 10,
        "A word of 8 bytes is stored as two of 4.";
    "pmem.file-named-before-synced" "pmem/src/pool.rs", Space, Memory, 10,
        "A new pool gets its name before its bytes and its length are synced.";
    "pmem.folder-not-synced" "pmem/src/pool.rs", Space, Memory, 10,
        "The folder of a new pool is not synced.";
    "pmem.growth-not-synced" "pmem/src/pool.rs", Space, Memory, 20,
        "The pool grows, and the file's new length is not synced.";
    "pmem.sync-misses-last-range" "pmem/src/file.rs", Space, PageCache, 10,
        "The sync of several ranges ends where the last one begins.";
    "pmem.found-bytes-not-synced" "pmem/src/pool.rs", Indexlog(Few), PageCache, 20,
        "What a killed process left in the page cache is not synced on opening.";
    "pmem.found-bytes-taken-for-dirty" "pmem/src/pool.rs", Indexlog(Few), FailingSyncs, 20,
        "What is found in the page cache is synced on opening, and not written again.";
    "pmem.failed-sync-repeated" "pmem/src/syncs.rs", Indexlog(Few), FailingSyncs, 10,
        "A sync that failed is asked for again, and the answer to that counts.";
    "pmem.caches-make-fences-needless" "pmem/src/pool.rs", Indexlog(Few), Platform, 10,
        "Where caches persist, nothing is fenced: not what was streamed, either.";
    "disk.names-not-synced" "disk/src/disk.rs", NotedFiles, Memory, 10,
        "The folder of files is not synced.";
    "disk.renamed-in-two-steps" "disk/src/disk.rs", RenamedFiles, Memory, 10,
        "The file that a rename replaces is removed before it.";
    "disk.synced-without-buffer" "disk/src/writer.rs", LoggedFiles, Memory, 10,
        "The sync of a file leaves out what is still in its writer's buffer.";
    "disk.failed-file-sync-repeated" "disk/src/writer.rs", LoggedFiles, FailingSyncs, 10,
        "The sync of a file that failed is asked for again, and the answer to that counts.";
    "disk.found-file-taken-for-dirty" "disk/src/memory.rs", LoggedFiles, FailingSyncs, 20,
        "A file that is opened again to be appended to is not written again.";
    "alloc.superblock-copies-fenced-together" "alloc/src/superblock.rs", Space, Memory, 10,
        "Both copies of the superblock are written before one fence.";
    "alloc.good-superblock-written-first" "alloc/src/superblock.rs", Space, Memory, 10,
        "A torn copy of the superblock is mended behind the good one.";
    "alloc.growth-announced-before-length" "alloc/src/segments.rs", Space, Memory, 10,
        "The superblock counts new segments before the file is longer.";
    "alloc.flush-before-store" "alloc/src/table.rs", Space, Memory, 10,
        "The word of a segment is flushed before it is stored.";
    "alloc.segment-reused-before-released" "alloc/src/segments.rs", Space, Memory, 30,
        "A segment is free for others before its release is fenced.";
    "alloc.pool-segment-before-its-words" "alloc/src/object_pool.rs", Objects, Memory, 20,
        "A segment of an object pool is committed before its words are fenced.";
    "alloc.object-reused-before-released" "alloc/src/object_pool.rs", Objects, Memory, 20,
        "An object is free for others before its release is fenced.";
    "alloc.heap-words-before-record" "alloc/src/heap/publish.rs", Heap, Memory, 20,
        "A publication's words are stored in their places before its record is fenced.";
    "alloc.heap-words-not-flushed" "alloc/src/heap/publish.rs", Heap, Memory, 20,
        "A publication's words are never written back in their places.";
    "alloc.heap-record-without-its-bytes" "alloc/src/heap/recovery.rs", Heap, Memory, 20,
        "Recovery applies a record without a look at the bytes that it publishes.";
    "alloc.heap-slab-before-its-states" "alloc/src/heap/reserve.rs", Heap, Memory, 20,
        "A chunk's word says that it is a slab before its states are fenced.";
    "alloc.heap-slot-reused-before-freed" "alloc/src/heap/door.rs", Heap, Memory, 60,
        "A slot is free for others before its release is fenced.";
    "blocks.pages-flushed-after-failure" "blocks/src/page/ground.rs", Pages, FailingSyncs, 60,
        "A page store flushes again after a flush that failed.";
    "blocks.checksum-over-header" "blocks/src/log/frame.rs", Indexlog(Few), Memory, 10,
        "The checksum of a record covers its header only.";
    "indexlog.checksum-without-life" "indexlog/src/record.rs", Indexlog(Few), Memory, 60,
        "The checksum of a record is not seeded with the life of its block.";
    "blocks.sixteen-bytes-at-once" "blocks/src/log/frame.rs", Indexlog(Few), Memory, 10,
        "16 bytes are taken to arrive at once: of two words, one is in the checksum.";
    "indexlog.batch-without-its-end" "indexlog/src/recovery/log_end.rs", Indexlog(Few), Memory, 10,
        "A batch whose last records are missing is kept.";
    "indexlog.records-behind-gap" "indexlog/src/recovery/log_end.rs", Indexlog(Blocks), Memory, 30,
        "Records behind one that is missing are kept.";
    "indexlog.batch-cut-in-one-partition" "indexlog/src/recovery/log_end.rs", Partitions, Memory, 30,
        "Of a batch that lacks a part, recovery cuts off one part only.";
    "indexlog.batch-kept-in-parts" "indexlog/src/recovery.rs", Partitions, Memory, 30,
        "Recovery keeps the parts of a batch that lacks one.";
    "indexlog.cut-blocks-freed-oldest-first" "indexlog/src/recovery/kept.rs", Indexlog(Blocks), Memory, 100,
        "Recovery frees the blocks behind the log's end oldest first.";
    "indexlog.killed-process-trusted" "indexlog/src/recovery/kept.rs", Indexlog(Blocks), Memory, 30,
        "Recovery seals what a killed process left without making it durable.";
    "indexlog.cut-blocks-not-freed" "indexlog/src/recovery/kept.rs", Indexlog(Blocks), Memory, 30,
        "Recovery does not free the blocks behind the log's end.";
    "indexlog.block-life-lived-twice" "indexlog/src/space/blocks.rs", Indexlog(Few), Memory, 60,
        "A life of a block that the map missed is lived again.";
    "indexlog.acknowledged-before-fence" "indexlog/src/write.rs", Indexlog(Few), Memory, 10,
        "A write is acknowledged before it is fenced.";
    "indexlog.change-before-fence" "indexlog/src/log/append.rs", Changes(Few), Memory, 10,
        "A write is acknowledged before its entry in the change log is fenced.";
    "indexlog.replay-skips-last" "indexlog/src/change_log/replay.rs", Changes(Few), Memory, 10,
        "Replay of the change log skips the last operation of a batch.";
    "indexlog.changes-released-before-records" "indexlog/src/change_log.rs", Changes(Collecting), Memory, 30,
        "A segment of the change log is released before its records are durable.";
    "indexlog.records-behind-changes" "indexlog/src/recovery/log_end.rs", Changes(Few), Memory, 60,
        "Recovery keeps records that the change log does not have.";
    "indexlog.deferred-taken-for-durable" "indexlog/src/log/append.rs", Indexlog(Few), Memory, 60,
        "Deferred writes count as durable before they are synced.";
    "indexlog.sealed-before-records" "indexlog/src/log/append.rs", Indexlog(Blocks), Memory, 30,
        "A block's word says that it is sealed before its records are fenced.";
    "indexlog.open-blocks-unknown" "indexlog/src/log/append.rs", Indexlog(Unsynced), Memory, 30,
        "The log goes on in a block before the map knows the one before.";
    "indexlog.tail-before-record" "indexlog/src/collection/moving.rs", Indexlog(Collecting), Memory, 30,
        "The word of the collector's block covers records before they are fenced.";
    "indexlog.victim-freed-before-covered" "indexlog/src/space/release.rs", Indexlog(Collecting), Memory, 30,
        "A collected block is freed with the fence that covers its copies.";
    "indexlog.block-reused-before-freed" "indexlog/src/space/release.rs", Indexlog(Collecting), Memory, 120,
        "A collected block is free for others before its word is fenced.";
    "indexlog.tombstone-forgotten" "indexlog/src/storage/liveness.rs", Indexlog(Collecting), Memory, 60,
        "A collected tombstone goes while what it hides is on the medium.";
    "indexlog.torn-value-taken" "indexlog/src/recovery/open_block.rs", Indexlog(Large), Memory, 10,
        "Recovery keeps a record without a look at its large value.";
    "indexlog.value-reused-before-proved" "indexlog/src/space/release.rs", Indexlog(Large), Memory, 200,
        "A large value is overwritten while recovery may still look at it.";
    "indexlog.snapshot-before-sync" "indexlog/src/index_snapshot/capture.rs", Snapshots(Blocks), Memory, 60,
        "A snapshot of the index is taken before what it leads to is durable.";
    "indexlog.snapshot-trusts-reused-block" "indexlog/src/index_snapshot/read.rs", Snapshots(Collecting), Memory, 60,
        "A snapshot of the index is used for a block that lives another life.";
    "indexlog.snapshot-forgets-tail" "indexlog/src/index_snapshot/read.rs", Snapshots(Few), Memory, 10,
        "What was written behind a snapshot of the index is not read.";
    "indexlog.value-freed-before-replaced" "indexlog/src/space/limbo.rs", Indexlog(Large), Memory, 120,
        "A large value is freed before what replaces it is durable.";
    "lsm.commit-id-before-data" "lsm/src/commit.rs", Lsm(2, Few), Memory, 20,
        "`commit_id` covers a batch before its data is fenced.";
    "lsm.gidx-before-data" "lsm/src/commit.rs", Lsm(1, Few), Memory, 10,
        "`gidx` covers a batch before its data is fenced.";
    "lsm.fragment-missing" "lsm/src/recovery.rs", Lsm(2, Few), Memory, 20,
        "A batch is taken for committed that lacks a fragment in another tree.";
    "lsm.tail-not-zeroed" "lsm/src/recovery.rs", Lsm(1, Few), Memory, 60,
        "Recovery does not overwrite what it cut at the end of a memtable.";
    "lsm.roll-failure-forgiven" "lsm/src/commit.rs", Lsm(2, Few), FailingSyncs, 20,
        "A store is written to after a new memtable could not be made durable.";
    "lsm.levels-ahead-of-commit-id" "lsm/src/flush.rs", Lsm(1, Mixed), Memory, 20,
        "The levels get what `commit_id` does not durably cover.";
    "lsm.edit-not-synced" "lsm/src/levels/manifest.rs", Lsm(1, Levels), Memory, 20,
        "An edit of the manifest counts before it is synced.";
    "lsm.current-before-manifest" "lsm/src/levels/manifest.rs", Lsm(1, Levels), Memory, 20,
        "`CURRENT` names a manifest that is not synced.";
    "sst.table-named-before-synced" "sst/src/table_builder.rs", Lsm(1, Levels), Memory, 20,
        "A table gets its name before it is synced.";
    "lsm.table-names-not-synced" "lsm/src/levels/commit.rs", Lsm(1, Levels), Memory, 20,
        "An edit says that tables are there, and the folder is not synced.";
    "lsm.log-removed-before-table" "lsm/src/flush.rs", LsmLog(Mixed), Memory, 20,
        "A file of the log goes before its memtable is durably a table.";
    "lsm.revealed-before-log" "lsm/src/group_commit.rs", LsmLog(Few), FailingSyncs, 60,
        "A batch that is to be durable is visible before the log is synced.";
    "wal.torn-log-taken" "wal/src/batch.rs", LsmLog(Few), Memory, 10,
        "A batch at the end of the log is taken for whole without a look at its check.";
    "betree.seen-block-reused-at-once" "betree/src/allocation/device.rs", Betree(Mixed), Memory, 20,
        "A block that the last superblock leads to is allocated again while the next one is being built.";
    "betree.bitmaps-before-root-record" "betree/src/store/checkpoint.rs", Betree(Mixed), Memory, 20,
        "The bitmaps are written before the extents of the root record are in them: the fixpoint stops early.";
    "betree.superblock-before-data" "betree/src/store/checkpoint.rs", BetreePool("mirror"), Memory, 20,
        "The superblock is written before what it leads to is synced.";
    "betree.log-trimmed-before-superblock" "betree/src/store/checkpoint.rs", Betree(Blocks), PageCache, 60,
        "The log is released before the superblock that does not need it is durable.";
    "betree.value-not-synced" "betree/src/store/written_large.rs", BetreePool("mirror"), Memory, 20,
        "A large value is not synced before its record is in the log.";
    "betree.applied-batch-replayed" "betree/src/open/replay.rs", BetreePool("values"), Memory, 20,
        "Recovery replays batches that the trees have.";
    "betree.value-freed-with-its-record" "betree/src/store/written_large.rs", BetreeValues, Memory, 20,
        "The extents of a large value are free again though its batch is committed.";
    "betree.snapshot-extents-freed" "betree/src/dataset/history.rs", BetreePool("values"), Memory, 20,
        "What a snapshot has is freed when its dataset drops it, not put on its deadlist.";
    "betree.deadlist-off-by-one-epoch" "betree/src/dataset/history.rs", BetreePool("values"), Memory, 20,
        "What was born in the epoch that a snapshot ended counts as born after it.";
    "betree.deleted-range-forgets-buffers" "betree/src/tree/update.rs", Betree(Mixed), Memory, 60,
        "A deleted range drops the leaf below it, and not the buffer.";
    "betree.gap-not-zeroed" "betree/src/message/upsert.rs", BetreePool("single"), Memory, 20,
        "An upsert behind the end of a value leaves no zeros in the gap.";
    "vdev.label-on-first-leaf-only" "vdev/src/administration.rs", BetreePool("mirror"), Memory, 20,
        "The superblock is written to one leaf of a mirror, and counts as written to all.";
    "vdev.failed-leaf-not-stale" "vdev/src/members.rs", BetreePool("mirror"), FailingSyncs, 60,
        "A write of a mirror succeeds though a leaf failed, and that leaf counts as whole.";
    "vdev.other-copy-unchecked" "vdev/src/mirror.rs", BetreeDevices, Memory, 1,
        "Of a mirror with a damaged copy, another one is taken unchecked.";
    "betree.newest-generation-wins" "betree/src/storage/labels.rs", BetreeDevices, Memory, 1,
        "A leaf that was used without the others is taken for the pool, as its generation is the newest.";
    "table.master-before-pages" "table/src/index/cow_file/batch.rs", CowTrees, PageCache, 20,
        "The master record is written before the pages that it leads to are synced.";
    "table.page-reused-before-master" "table/src/index/cow_file/space.rs", CowTrees, PageCache, 20,
        "A page that a batch no longer needs is written again before the batch's master record is durable.";
    "table.master-not-checked" "table/src/index/cow_file/master.rs", CowTrees, PageCache, 20,
        "A master record is taken without a look at its check.";
    "table.cow-sync-does-nothing" "table/src/method/cow.rs", Cow, PageCache, 20,
        "A sync returns the ticket of commits that it has not made durable.";
    "table.log-not-synced" "table/src/method/redo_log.rs", InP, PageCache, 20,
        "A sync of the log returns without a sync.";
    "table.log-noted-before-sync" "table/src/method/redo_log.rs", Log, PageCache, 20,
        "A close notes the end of a log that is not durable up to there.";
    "table.inp-log-released-before-checkpoint" "table/src/method/inp/checkpoint.rs", InP, PageCache, 20,
        "The log is released before the checkpoint that replaces it has its name.";
    "table.inp-checkpoint-before-its-log" "table/src/method/inp/checkpoint.rs", InP, PageCache, 20,
        "A checkpoint gets its name while commits that it has are not durable in the log.";
    "table.inp-checkpoint-not-synced" "table/src/method/inp/checkpoint/copy.rs", InP, PageCache, 20,
        "A checkpoint gets its name before its bytes are durable.";
    "table.inp-redo-stops-early" "table/src/method/inp/recovery.rs", InP, PageCache, 20,
        "Recovery redoes the first transaction behind the checkpoint, and no other.";
    "table.inp-redo-from-the-end" "table/src/method/inp/recovery.rs", InP, PageCache, 160,
        "Recovery redoes the log from the end of a fuzzy checkpoint, not from its begin.";
    "table.log-manifest-not-synced" "table/src/method/log_structured/manifest.rs", Log, PageCache, 20,
        "The manifest takes the name of the old one before its bytes are synced.";
    "table.log-released-early" "table/src/method/log_structured/maintenance.rs", Log, PageCache, 20,
        "Files of the log are released before the run with their commits is named.";
    "table.log-inputs-removed-early" "table/src/method/log_structured/maintenance.rs", Log, PageCache, 20,
        "The inputs of a compaction are removed before its outputs are named.";
    "table.log-tombstone-dropped-early" "table/src/method/log_structured/compaction.rs", Log, PageCache, 60,
        "A compaction drops a tombstone although a run below has its key.";
    "table.nvm-inp-changes-before-log" "table/src/method/undo_log.rs", NvmInP, Memory, 20,
        "The changes of a transaction are stored before its undo log is durable.";
    "table.nvm-inp-commit-not-fenced" "table/src/method/undo_log.rs", NvmInP, Memory, 20,
        "A commit returns before its changes are durable.";
    "table.nvm-inp-undoes-whole" "table/src/method/undo_log.rs", NvmInP, Memory, 20,
        "Recovery undoes the last transaction though all its changes are there, as its log was not emptied durably.";
    "table.nvm-inp-kept-not-stored" "table/src/method/undo_log.rs", NvmInP, FailingSyncs, 20,
        "Recovery keeps a transaction whose changes it finds, and does not store them again.";
    "table.nvm-inp-undo-not-fenced" "table/src/method/undo_log.rs", NvmInP, Memory, 20,
        "The undo log is emptied before what it undid is durable.";
    "table.nvm-inp-opening-reads-rows" "table/src/method/nvm_inp.rs", SmallNvmInP, Memory, 20,
        "Opening reads all rows, and not those of the transaction in flight alone.";
    "table.nvm-log-undo-skipped" "table/src/method/undo_log.rs", NvmLog, Memory, 20,
        "Recovery empties the undo log of half a transaction, and undoes nothing.";
    "table.nvm-log-immutable-first" "table/src/method/nvm_log/list.rs", NvmLog, Memory, 20,
        "A memtable is listed as immutable before the new mutable one is there.";
    "table.nvm-log-unfinished-output-kept" "table/src/method/nvm_log.rs", NvmLog, Memory, 20,
        "Opening does not drop what an unfinished compaction has built.";
    "table.nvm-log-output-not-flushed" "table/src/method/nvm_log/compaction.rs", DeepNvmLog, Memory, 20,
        "The slots that a compaction writes are shown before they are durable.";
    "table.nvm-log-tombstone-dropped-early" "table/src/method/nvm_log/compaction.rs", DeepNvmLog, Memory, 20,
        "A compaction drops a tombstone of a key that an older memtable has.";
    "table.nvm-log-filter-without-tombstones" "table/src/method/nvm_log/compaction.rs", DeepNvmLog, Memory, 20,
        "The filter of a merged memtable does not let the keys of tombstones pass.";
    "table.nvm-cow-sync-does-nothing" "table/src/method/nvm_cow.rs", NvmCow, Memory, 20,
        "A sync returns the ticket of commits that it has not made durable.";
    "table.nvm-cow-node-not-activated" "table/src/index/cow_heap/swap.rs", NvmCow, Memory, 20,
        "The master leads to nodes whose slots are reserved only.";
    "table.nvm-cow-freed-before-swap" "table/src/index/cow_heap/swap.rs", NvmCow, Memory, 20,
        "The slots that a sync replaces are free before the master leads to the new directory.";
    "table.nvm-cow-snapshot-not-waited-for" "table/src/index/cow_heap/swap.rs", NvmCow, Memory, 20,
        "The slots that a sync replaces are free though a snapshot reads them.";
    "table.nvm-cow-entry-of-removed-row-stays" "table/src/method/nvm_cow/commit.rs", NvmCow, Memory, 20,
        "The entry of a removed row stays in a secondary index.";
    "table.nvm-wbl-sync-does-nothing" "table/src/method/nvm_wbl.rs", NvmWbl, Memory, 20,
        "A sync returns the ticket of commits that it has not made durable.";
    "table.nvm-wbl-record-with-first-step" "table/src/method/nvm_wbl/sync.rs", NvmWbl, Memory, 20,
        "The record covers a group with its first step, before the others are durable.";
    "table.nvm-wbl-covered-version-replaced" "table/src/method/nvm_wbl/sync.rs", NvmWbl, Memory, 20,
        "A version takes the place of the newest covered one before a record covers it.";
    "table.nvm-wbl-gap-not-skipped" "table/src/method/nvm_wbl/record.rs", NvmWbl, Memory, 20,
        "Readers take versions of gaps.";
    "table.nvm-wbl-former-gap-forgotten" "table/src/method/nvm_wbl/record.rs", NvmWbl, Memory, 20,
        "The second crash has the gap of the first one forgotten, whose versions are still there.";
    "table.nvm-wbl-stale-entry-followed" "table/src/method/nvm_wbl/read.rs", NvmWbl, Memory, 20,
        "An entry counts though the row that it leads to does not have it.";
    "table.nvm-wbl-sweep-passes-versions" "table/src/method/nvm_wbl/sweep.rs", NvmWbl, Memory, 20,
        "The sweep leaves versions of gaps beside covered ones, and the gaps are forgotten.";
    "table.no-decision" "table/src/testbed/commit.rs", Testbed, Memory, 20,
        "A transaction over two partitions is committed to one after the other, without a decision.";
    "table.decision-stays" "table/src/testbed/coordinator.rs", Testbed, Memory, 20,
        "A decision that was carried out stays, and is carried out again at the next opening.";
    "table.decision-removed-after-failure" "table/src/testbed/commit.rs", TestbedInP, FailingSyncs, 60,
        "A decision is removed though the commit or the sync of a partition failed, which may be durable.";
    "table.timestamps-not-reserved" "table/src/testbed/coordinator.rs", Testbed, Memory, 20,
        "Timestamps are given out that are not reserved, and again behind the next opening.";
    "table.cow-entry-not-looked-up" "table/src/method/cow.rs", TestbedCow, PageCache, 20,
        "A unique index is not asked whether a committed row has an entry.";
    "server.drop-note-not-written" "server/src/store/elements.rs", Server("server-indexlog"), Memory, 20,
        "A large collection is dropped, and no note says that its elements go.";
    "server.drop-note-goes-first" "server/src/store/elements.rs", Server("server-indexlog"), Memory, 60,
        "The note that a collection was dropped goes before its elements.";
    "server.resident-survives-rollback" "server/src/store/elements.rs", Server("server-indexlog"), Memory, 60,
        "A transaction is rolled back, and what is known in DRAM of its collections is not.";
    "server.record-before-its-elements" "server/src/store/transactions.rs", Server("server-lsm"), Memory, 20,
        "The record of a collection is written before its elements, and not together with them.";
    "server.replaced-elements-stay" "server/src/store/values.rs", Server("server-indexlog"), Memory, 60,
        "A large collection is replaced by another value, and its elements stay.";
    "server.expired-elements-stay" "server/src/store/expiry.rs", Server("server-indexlog"), Memory, 60,
        "A large collection expires, and its elements stay.";
    "server.order-record-not-written" "server/src/collection/sorted_set/stored.rs", Server("server-lsm"), Memory, 20,
        "A member of a sorted set whose order is stored gets a score, and its order gets no record.";
    "server.order-record-not-removed" "server/src/collection/sorted_set/stored.rs", Server("server-lsm"), Memory, 20,
        "A member of a sorted set whose order is stored loses its score, and its order keeps the record.";
    "server.first-partition-synced-alone" "server/src/store/durability.rs", Server("server-partitions"), Memory, 20,
        "Of several partitions with writes, only the first is synced before the reply.";
    "server.moved-without-note" "server/src/store/rehoming.rs", Server("server-rehoming"), Memory, 100,
        "Elements are copied to another partition before a note says that the copies may have to go.";
    "server.old-elements-not-noted" "server/src/store/rehoming.rs", Server("server-rehoming"), Memory, 60,
        "A collection has moved to another partition, and its old elements stay.";
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The sources of all crates, by their paths from the crate's folder on.
    fn sources() -> BTreeMap<String, String> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let entries = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten();
            entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<PathBuf>>()
        };
        let mut sources = BTreeMap::new();
        for folder in entries(&crates).iter().flat_map(|floor| entries(floor)) {
            let mut folders = vec![folder.join("src")];
            while let Some(inner) = folders.pop() {
                for path in entries(&inner) {
                    if path.is_dir() {
                        folders.push(path);
                    } else if path.extension().is_some_and(|end| end == "rs") {
                        let name = path.strip_prefix(folder.parent().expect("a floor"));
                        let name = name.expect("it is there").display().to_string();
                        sources.insert(name, fs::read_to_string(&path).expect("text"));
                    }
                }
            }
        }
        sources
    }

    /// The ids of the bugs in a source.
    fn ids(source: &str) -> BTreeSet<&str> {
        let places = source.split("planted!(").skip(1);
        let quoted = places.filter_map(|place| place.trim_start().strip_prefix('"'));
        quoted.filter_map(|id| Some(id.split_once('"')?.0)).collect()
    }

    #[test]
    fn every_id_in_the_code_has_one_row_and_is_where_that_says() {
        let rows: BTreeSet<&str> = PLANTED_BUGS.iter().map(|bug| bug.id).collect();
        assert_eq!(rows.len(), PLANTED_BUGS.len(), "an id has two rows");
        let sources = sources();
        let mut planted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (place, source) in sources.iter().filter(|(place, _)| !place.starts_with("lab/")) {
            for id in ids(source).into_iter().filter(|id| !id.contains("what-is-wrong")) {
                planted.entry(id).or_default().push(place);
            }
        }
        assert_eq!(planted.keys().copied().collect::<BTreeSet<_>>(), rows);
        for PlantedBug { id, place, .. } in PLANTED_BUGS {
            assert!(planted[id].contains(place), "{id} is in {:?}, not in {place}", planted[id]);
            let (of_crate, what) = id.split_once('.').expect("a crate and what is wrong");
            assert!(place.starts_with(&format!("{of_crate}/")), "{id} is in {place}");
            assert!(what.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
        }
    }

    #[test]
    fn the_documented_catalogue_is_this_one() {
        let mut table = format!(
            "# Planted bugs\n\n\
             {} classic bugs of persistent memory are planted in the code that ships, compiled in under\n\
             `--cfg halite_planted` only, and one at a time chosen by the crash lab's test of itself:\n\n    \
             RUSTFLAGS=\"--cfg halite_planted\" cargo test --release -p halite-lab --test planted \\\n        \
             --target-dir target/planted\n\n\
             The lab must find each within a budget of histories, from seed 0 on, and must find nothing in\n\
             the same histories without one, as far as some thousand recoveries of them go. A test\n\
             compares this page with the catalogue, `crates/tools/lab/src/planted.rs`, and that with the code.\n\n\
             | bug | what is wrong | where | histories of | rules | budget |\n|---|---|---|---|---|---|\n",
            PLANTED_BUGS.len()
        );
        for PlantedBug { id, what, place, histories, rules, budget } in PLANTED_BUGS {
            let (of, under) = (histories.name(), rules.name());
            writeln!(table, "| `{id}` | {what} | `{place}` | {of} | {under} | {budget} |").unwrap();
        }
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/PLANTED_BUGS.md");
        let written = fs::read_to_string(&page).unwrap_or_default();
        assert!(written == table, "{} should be:\n{table}", page.display());
    }
}
