//! Taking backups.

use std::io::Write;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use halite_contract::{Direction, Engine, Error, KeyRange, Snapshot};
use xxhash_rust::xxh3::xxh3_128;

use super::content::ContentWriter;
use super::{BackupError, BackupInfo, BackupReport};

/// Writes all that a snapshot has.
pub(super) fn full(
    engine: &dyn Engine,
    snapshot: &dyn Snapshot,
    out: impl Write,
) -> Result<BackupReport, BackupError> {
    let info = describe(engine, snapshot, None)?;
    let mut writer = ContentWriter::begin(out, &info)?;
    for (name, space) in snapshot.key_spaces() {
        writer.create(space, &name)?;
        for pair in snapshot.scan(space, KeyRange::all(), Direction::Forward)? {
            let (key, value) = pair?;
            writer.put(space, &key, &value)?;
        }
    }
    report(info, writer)
}

/// Writes the changes between a backup and a snapshot. The snapshot keeps the values that they need: a large value that
/// was replaced before the snapshot is not needed, and one that was replaced after it is still there.
pub(super) fn since(
    engine: &dyn Engine,
    previous: &BackupInfo,
    snapshot: &dyn Snapshot,
    out: impl Write,
) -> Result<BackupReport, BackupError> {
    let info = describe(engine, snapshot, Some(previous))?;
    let until = info.positions.as_ref().ok_or(Error::NoChangeLog)?;
    let from = previous.positions.as_ref().ok_or(BackupError::NoPositions)?;
    if (from.history, from.partitions.len()) != (until.history, until.partitions.len()) {
        return Err(BackupError::OtherHistory);
    }
    let ranges = from.partitions.iter().zip(&until.partitions);
    if ranges.clone().any(|(from, until)| from > until) {
        return Err(BackupError::PreviousIsNewer);
    }
    // The changes are looked up before a byte is written, so that a missing change log is reported first.
    let changes =
        ranges.clone().enumerate().map(|(number, (from, _))| engine.changes(number, *from));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let mut writer = ContentWriter::begin(out, &info)?;
    for ((number, (from, until)), mut changes) in ranges.enumerate().zip(changes) {
        writer.partition(number)?;
        let mut position = *from;
        while position < *until {
            let change = changes.next().transpose()?;
            let Some(change) = change.filter(|change| change.position <= *until) else {
                let what = format!("change log of partition {number}");
                let why = format!("it ends at {position}, and the snapshot is of {until}");
                return Err(Error::Damaged { what, why }.into());
            };
            change.ops.iter().try_for_each(|op| writer.change(op))?;
            position = change.position;
        }
    }
    report(info, writer)
}

fn report<W: Write>(
    info: BackupInfo,
    writer: ContentWriter<W>,
) -> Result<BackupReport, BackupError> {
    let (operations, bytes) = writer.finish()?;
    Ok(BackupReport { info, operations, bytes })
}

/// How the backup of a snapshot begins.
fn describe(
    engine: &dyn Engine,
    snapshot: &dyn Snapshot,
    previous: Option<&BackupInfo>,
) -> Result<BackupInfo, BackupError> {
    // The snapshot may show writes that a crash could lose. Other writes would get their positions then.
    engine.sync()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut info = BackupInfo {
        id: 0,
        parent: previous.map(|previous| previous.id),
        created: now.as_secs(),
        partitioning: engine.partitioning(),
        change_log: engine.change_log(),
        positions: snapshot.positions(),
    };
    let mut named_by = info.encode();
    named_by.extend(now.as_nanos().to_le_bytes());
    named_by.extend(process::id().to_le_bytes());
    info.id = xxh3_128(&named_by).max(1);
    Ok(info)
}
