//! Bugs planted for the crash lab's own tests: in the code that ships, one line each, compiled in under
//! `--cfg halite_planted` only and chosen at run time. `crates/tools/lab/tests/planted.rs` names the test
//! with which the lab must find each of them, and `docs/PLANTED_BUGS.md` has the table.

#[cfg(halite_planted)]
use std::cell::Cell;

/// Whether a bug is active; or, of two expressions, the wrong one if it is. Without `--cfg halite_planted`:
/// `false`, and the right one.
#[cfg(halite_planted)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::Bug::$bug.is_there()
    };
    ($bug:ident, $wrong:expr, $right:expr) => {
        if $crate::planted!($bug) { $wrong } else { $right }
    };
}

/// A place for a bug that the lab's tests plant: `false`, or the last of the expressions.
#[cfg(not(halite_planted))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
    ($bug:ident, $wrong:expr, $right:expr) => {
        $right
    };
}

#[cfg(halite_planted)]
macro_rules! bugs {
    ($($name:ident: $what:literal;)*) => {
        /// A planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $(#[doc = $what] $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The bug, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what,)*
                }
            }
        }
    };
}

#[cfg(halite_planted)]
bugs! {
    FlushRoundedDown: "A flush stops short of its last line, if that is not full.";
    WordStoredInHalves: "A word of 8 bytes is stored as two of 4.";
    FileNamedBeforeSynced: "A new pool gets its name before its bytes and its length are synced.";
    FolderNotSynced: "The folder of a new pool is not synced.";
    GrowthNotSynced: "The pool grows, and the file's new length is not synced.";
    SyncMissesLastRange: "The sync of several ranges ends where the last one begins.";
    FoundBytesNotSynced: "What a killed process left in the page cache is not synced on opening.";
    FoundBytesTakenForDirty: "What is found in the page cache is synced on opening, and not written again.";
    FailedSyncRepeated: "A sync that failed is asked for again, and the answer to that counts.";
    CachesMakeFencesNeedless: "Where caches persist, nothing is fenced: not what was streamed, either.";
    NamesNotSynced: "The folder of files is not synced.";
    RenamedInTwoSteps: "The file that a rename replaces is removed before it.";
    SyncedWithoutBuffer: "The sync of a file leaves out what is still in its writer's buffer.";
    FailedFileSyncRepeated: "The sync of a file that failed is asked for again, and the answer to that counts.";
    FoundFileTakenForDirty: "A file that is opened again to be appended to is not written again.";
    SuperblockCopiesFencedTogether: "Both copies of the superblock are written before one fence.";
    GoodSuperblockWrittenFirst: "A torn copy of the superblock is mended behind the good one.";
    GrowthAnnouncedBeforeLength: "The superblock counts new segments before the file is longer.";
    FlushBeforeStore: "The word of a segment is flushed before it is stored.";
    SegmentReusedBeforeReleased: "A segment is free for others before its release is fenced.";
    PoolSegmentBeforeItsWords: "A segment of an object pool is committed before its words are fenced.";
    ObjectReusedBeforeReleased: "An object is free for others before its release is fenced.";
    PagesFlushedAfterFailure: "A page store flushes again after a flush that failed.";
    ChecksumOverHeader: "The checksum of a record covers its header only.";
    ChecksumWithoutLife: "The checksum of a record is not seeded with the life of its block.";
    SixteenBytesAtOnce: "16 bytes are taken to arrive at once: of two words, one is in the checksum.";
    BatchWithoutItsEnd: "A batch whose last records are missing is kept.";
    RecordsBehindGap: "Records behind one that is missing are kept.";
    BatchCutInOnePartition: "Of a batch that lacks a part, recovery cuts off one part only.";
    BatchKeptInParts: "Recovery keeps the parts of a batch that lacks one.";
    CutBlocksFreedOldestFirst: "Recovery frees the blocks behind the log's end oldest first.";
    KilledProcessTrusted: "Recovery seals what a killed process left without making it durable.";
    CutKeptBeforeDropped: "Recovery seals what stays before it frees what goes.";
    BlockLifeLivedTwice: "A life of a block that the map missed is lived again.";
    AcknowledgedBeforeFence: "A write is acknowledged before it is fenced.";
    ChangeBeforeFence: "A write is acknowledged before its entry in the change log is fenced.";
    ReplaySkipsLast: "Replay of the change log skips the last operation of a batch.";
    ChangesReleasedBeforeRecords: "A segment of the change log is released before its records are durable.";
    RecordsBehindChanges: "Recovery keeps records that the change log does not have.";
    DeferredTakenForDurable: "Deferred writes count as durable before they are synced.";
    SealedBeforeRecords: "A block's word says that it is sealed before its records are fenced.";
    OpenBlocksUnknown: "The log goes on in a block before the map knows the one before.";
    TailBeforeRecord: "The word of the collector's block covers records before they are fenced.";
    VictimFreedBeforeCovered: "A collected block is freed with the fence that covers its copies.";
    BlockReusedBeforeFreed: "A collected block is free for others before its word is fenced.";
    TombstoneForgotten: "A collected tombstone goes while what it hides is on the medium.";
    TornValueTaken: "Recovery keeps a record without a look at its large value.";
    ValueReusedBeforeProved: "A large value is overwritten while recovery may still look at it.";
    SnapshotBeforeSync: "A snapshot of the index is taken before what it leads to is durable.";
    SnapshotTrustsReusedBlock: "A snapshot of the index is used for a block that lives another life.";
    SnapshotForgetsTail: "What was written behind a snapshot of the index is not read.";
    ValueFreedBeforeReplaced: "A large value is freed before what replaces it is durable.";
    CommitIdBeforeData: "`commit_id` covers a batch before its data is fenced.";
    GidxBeforeData: "`gidx` covers a batch before its data is fenced.";
    FragmentMissing: "A batch is taken for committed that lacks a fragment in another tree.";
    TailNotZeroed: "Recovery does not overwrite what it cut at the end of a memtable.";
    RollFailureForgiven: "A store is written to after a new memtable could not be made durable.";
    LevelsAheadOfCommitId: "The levels get what `commit_id` does not durably cover.";
    EditNotSynced: "An edit of the manifest counts before it is synced.";
    CurrentBeforeManifest: "`CURRENT` names a manifest that is not synced.";
    TableNamedBeforeSynced: "A table gets its name before it is synced.";
    TableNamesNotSynced: "An edit says that tables are there, and the folder is not synced.";
    LogRemovedBeforeTable: "A file of the log goes before its memtable is durably a table.";
    TornLogTaken: "A batch at the end of the log is taken for whole without a look at its check.";
}

#[cfg(halite_planted)]
thread_local! {
    static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
}

#[cfg(halite_planted)]
impl Bug {
    /// Runs `f` with this bug, on this thread.
    pub fn during<T>(self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Bug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.set(self.0);
            }
        }
        let _restore = Restore(CHOSEN.replace(Some(self)));
        f()
    }

    /// Whether it is active, on this thread.
    #[must_use]
    pub fn is_there(self) -> bool {
        CHOSEN.get() == Some(self)
    }
}

/// The first of every two words of `bytes`.
#[cfg(halite_planted)]
#[must_use]
pub fn every_other_word(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(16).flat_map(|pair| &pair[..pair.len().min(8)]).copied().collect()
}
