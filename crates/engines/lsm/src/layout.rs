//! The roots and devices of the pool.
//!
//! ```text
//! root engine:lsm       version of the formats: 2, or 3 if it has had large values in files
//! root lsm:trees        the number of trees; the bit above them: there is a log
//! root lsm:levels       1 if there are levels
//! root lsm:clean        0 if the store is open, or was; if it was closed, the number that was committed last and 2, or 1
//! root lsm:chained      the first memtable of which the one before is known to be there until it is in the levels
//! root lsm:flushes      so often something went from memory to the levels, at least
//! root lsm:log-first    the first file of the log that is needed
//! root lsm:log-resumed  the sequence that the log went on at, behind a hole that a repair left
//! root lsm:log-end      the log's last file when the store was closed, and below 40 bits how long it was
//! root lsm:values-aside 1 if the next opening sets files of large values aside, as a repair lost records of them
//! device 0              objects of memtables (64 bytes), and that of the store
//! device 1              zones: logical segment = slot * 1024 + number
//! device 2              zones of the cache of levels: never committed, so free when the pool is opened
//! ```

use std::sync::Arc;

use halite_alloc::{Device, Segments};
use halite_contract::{EngineOptions, Error, Result, other_engine};
use halite_wal::Known;

/// The root that says which engine a pool belongs to; its value is the version of the formats.
pub(crate) const ROOT: &str = "engine:lsm";

/// The version of the formats of a store that has had no large value.
const VERSION: u64 = 2;

/// The version of a store that has had large values in files: that is noted before the first of them is written.
pub(crate) const WITH_VALUES: u64 = 3;

const TREES: &str = "lsm:trees";

/// 0 while the store is open, more when it was closed; absent until the store has been open.
const CLEAN: &str = "lsm:clean";

/// The root of a closed store is the sequence that was committed last plus this; 1 stands for a store without one.
const CLOSED_WITH: u64 = 2;

const LEVELS: &str = "lsm:levels";

/// How often, at least, data went from memory to the levels. Levels that know of fewer times are an older copy.
pub(crate) const FLUSHES: &str = "lsm:flushes";

/// The first memtable whose predecessor is known to be there until it is in the levels. [`UNKNOWN`] behind a repair
/// of the levels, which may know of fewer memtables than they had.
const CHAINED: &str = "lsm:chained";

const UNKNOWN: u64 = u64::MAX;

/// The first file of the log that is needed, where there is a log.
pub(crate) const LOG_FIRST: &str = "lsm:log-first";

/// Where the log went on behind the last hole that a repair left.
pub(crate) const LOG_RESUMED: &str = "lsm:log-resumed";

/// Where the log ended when the store was closed.
const LOG_END: &str = "lsm:log-end";

/// Whether files of large values that no record refers to are set aside, and not removed.
const VALUES_ASIDE: &str = "lsm:values-aside";

/// Where the store's object has `commit_id`: where a memtable's has `gidx`.
pub(crate) const COMMIT_ID: u64 = 16;

/// Bits of a log file's length.
const LEN_BITS: u32 = 40;

const LOGGED: u64 = 1 << 32;

const OBJECTS: u16 = 0;

const ZONES: u16 = 1;

const CACHE: u16 = 2;

/// The device of the objects.
pub(crate) fn objects_device(segments: &Arc<Segments>) -> Device {
    segments.device(OBJECTS)
}

/// The device of the zones.
pub(crate) fn zones_device(segments: &Arc<Segments>) -> Device {
    segments.device(ZONES)
}

/// The device of records that were read from the levels.
pub(crate) fn cache_device(segments: &Arc<Segments>) -> Device {
    segments.device(CACHE)
}

/// How a store is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) trees: usize,
    /// Whether memtables are volatile, and a log has their records.
    pub(crate) logged: bool,
}

impl Layout {
    pub(crate) fn read(segments: &Segments) -> Result<Self> {
        let word = segments.root(TREES).unwrap_or(1);
        let layout = Self { trees: (word & (LOGGED - 1)) as usize, logged: word & LOGGED != 0 };
        if layout.trees == 0 || layout.trees > crate::TREES_MAX || word >= LOGGED << 1 {
            return Err(Error::Damaged {
                what: format!("the root `{TREES}`"),
                why: format!("it is {word}, which is no number of trees"),
            });
        }
        Ok(layout)
    }

    pub(crate) fn write(self, segments: &Segments) -> Result<()> {
        let word = self.trees as u64 | if self.logged { LOGGED } else { 0 };
        Ok(segments.set_root(TREES, word)?)
    }
}

/// Says, durably, that the pool is this engine's.
pub(crate) fn claim(segments: &Segments) -> Result<()> {
    Ok(segments.set_root(ROOT, VERSION)?)
}

/// Refuses a pool of another engine, or of another version.
pub(crate) fn check(segments: &Segments, options: &EngineOptions) -> Result<()> {
    match segments.root(ROOT) {
        Some(VERSION..=WITH_VALUES) => Ok(()),
        Some(found) if found > WITH_VALUES => Err(halite_alloc::Error::FutureVersion {
            path: options.pool.clone(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            supported: WITH_VALUES as u32,
        }
        .into()),
        Some(found) => Err(Error::Damaged {
            what: format!("the root `{ROOT}`"),
            why: format!(
                "it has version {found} of the engine's formats, and only those from {VERSION} on are read"
            ),
        }),
        None => Err(other_engine(crate::Lsm::NAME, segments)),
    }
}

/// Whether the store has had large values in files.
pub(crate) fn has_values(segments: &Segments) -> bool {
    noted(segments, ROOT) >= WITH_VALUES
}

/// Whether the store has been open: then its object is there, in a store without a log.
pub(crate) fn was_open(segments: &Segments) -> bool {
    segments.root(CLEAN).is_some()
}

/// Whether the store was closed, and not opened since.
pub(crate) fn is_clean(segments: &Segments) -> bool {
    noted(segments, CLEAN) > 0
}

/// The number that was committed last when the store was closed, if that was noted.
pub(crate) fn closed_with(segments: &Segments) -> Option<u64> {
    noted(segments, CLEAN).checked_sub(CLOSED_WITH)
}

/// Notes, durably, that the store is closed: with this number committed last, if that is in the pool. Two fences.
pub(crate) fn set_closed(segments: &Segments, committed: Option<u64>) -> Result<()> {
    Ok(segments.set_root(CLEAN, committed.map_or(1, |number| number + CLOSED_WITH))?)
}

/// Notes, durably, that the store is open. Two fences, unless that is noted.
pub(crate) fn set_open(segments: &Segments) -> Result<()> {
    match segments.root(CLEAN) {
        Some(0) => Ok(()),
        _ => Ok(segments.set_root(CLEAN, 0)?),
    }
}

/// Notes a number, durably, that only grows. Two fences, if it does.
pub(crate) fn raise(segments: &Segments, root: &str, value: u64) -> Result<()> {
    match noted(segments, root) < value {
        true => Ok(segments.set_root(root, value)?),
        false => Ok(()),
    }
}

/// Notes, durably, where the log ends.
pub(crate) fn note_log_end(segments: &Segments, (number, len): (u64, u64)) -> Result<()> {
    if number >> (u64::BITS - LEN_BITS) != 0 || len >> LEN_BITS != 0 {
        return Ok(());
    }
    raise(segments, LOG_END, number << LEN_BITS | len)
}

/// What the pool knows of the log.
pub(crate) fn known_of_log(segments: &Segments) -> Known {
    let end = noted(segments, LOG_END);
    let end = (end >> LEN_BITS, end & ((1 << LEN_BITS) - 1));
    let (first, resumed) = (noted(segments, LOG_FIRST), noted(segments, LOG_RESUMED));
    Known { first, resumed, end }
}

/// Notes, durably, that the pool knows nothing of the log: it is as a repair has left it.
pub(crate) fn forget_log(segments: &Segments) -> Result<()> {
    for root in [LOG_FIRST, LOG_END] {
        if noted(segments, root) > 0 {
            segments.set_root(root, 0)?;
        }
    }
    Ok(())
}

/// Notes, durably, that the levels may not know which memtables they have.
pub(crate) fn forget_chains(segments: &Segments) -> Result<()> {
    Ok(segments.set_root(CHAINED, UNKNOWN)?)
}

/// Whether memtable `id` says truly which one is before it, or that one is in the levels.
pub(crate) fn is_chained(segments: &Segments, id: u64) -> bool {
    id >= noted(segments, CHAINED)
}

/// Notes, durably, that memtables from number `next` on are chained, where no others are. Two fences then.
pub(crate) fn chain_from(segments: &Segments, next: u64) -> Result<()> {
    match noted(segments, CHAINED) {
        UNKNOWN => Ok(segments.set_root(CHAINED, next)?),
        _ => Ok(()),
    }
}

/// Notes, durably, whether the next opening sets files of large values aside that no record refers to.
pub(crate) fn set_values_aside(segments: &Segments, aside: bool) -> Result<()> {
    match are_values_aside(segments) == aside {
        true => Ok(()),
        false => Ok(segments.set_root(VALUES_ASIDE, u64::from(aside))?),
    }
}

/// Whether this opening sets files of large values aside that no record refers to.
pub(crate) fn are_values_aside(segments: &Segments) -> bool {
    noted(segments, VALUES_ASIDE) == 1
}

/// The number that was noted, or zero.
pub(crate) fn noted(segments: &Segments, root: &str) -> u64 {
    segments.root(root).unwrap_or(0)
}

/// Whether the store has levels.
pub(crate) fn has_levels(segments: &Segments) -> bool {
    segments.root(LEVELS) == Some(1)
}

/// Notes, durably, that the store has levels. Two fences.
pub(crate) fn note_levels(segments: &Segments) -> Result<()> {
    Ok(segments.set_root(LEVELS, 1)?)
}

/// The levels' word for the last sequence of a tree that is in the levels, where there is a log.
pub(crate) fn flushed_word(tree: usize) -> String {
    format!("flushed:{tree}")
}
