//! The sorted levels of a store's trees, in the files of one folder.
//!
//! ```text
//!   level 0      runs that may overlap, the newest first: tables as memtables were written
//!   (empty)
//!   base         ┐ tables in the order of their keys, without overlap; each level about ten times
//!   ...          │ as large as the one above it; newer versions of a key are further up
//!   level 6      ┘
//! ```
//!
//! **Reading** ([`Levels`]): a reader takes the tree's version (`version`) and asks its runs from the newest to
//! the oldest; the first version of the key that it may see is the answer. A scan merges all runs
//! (`merge`, `iter`). Nothing that is read changes: files that no version needs are removed when the last reader
//! of them is gone.
//!
//! **Writing**: input from above is a [`SortedRun`] (`source`): a memtable becomes a run of level 0
//! ([`Levels::add_run`]), a frozen global index is merged into the base ([`Levels::merge_run`]). Both are compactions
//! (`compaction`), like those that move data down when a level has become too large (`pick`): new tables are written
//! and synced, then one edit (`edit`) is appended to the manifest (`manifest`), which makes the change
//! atomic and durable, then the new version takes the place of the old one. Versions that no reader can see are left
//! out on the way (`retention`).
//!
//! **After a crash** the manifest says which tables there are; others, and files that are not whole, are removed. A
//! table that is missing or damaged is an error only for reads that need it (`open`, `check`), and where the manifest
//! is lost, `repair` makes a new one of the tables.

mod ballast;
mod check;
mod commit;
mod compaction;
mod compactor;
mod discard;
mod edit;
mod emptying;
mod error;
mod inner;
mod iter;
mod manifest;
mod merge;
mod names;
mod open;
mod options;
mod part;
mod pick;
mod reading;
mod repair;
mod retention;
mod source;
mod stats;
mod version;
mod writing;

pub use check::Checked;
pub(crate) use discard::discard;
pub use edit::{LEVELS, TableMeta};
pub(crate) use emptying::{Hidden, is_no_space};
pub use error::{Error, Result};
pub(crate) use inner::FLUSHES;
pub use inner::{Change, Levels, Snapshots};
pub use iter::LevelsIter;
pub use merge::Merge;
pub(crate) use names::{CURRENT, UNFINISHED, aside, is_of_levels, value_name};
pub use open::Report;
pub use options::LevelsOptions;
pub(crate) use repair::Findings;
pub use repair::{Repaired, examine, repair};
pub use source::{Direction, SortedRun, Source};
pub use stats::{LevelStats, LevelsStats};
