//! The note of where a log ended when its partition was closed: an opening that finds less names the damage, where it would
//! take it for the torn end of a crash.
//!
//! ```text
//!  CLOSED:  checksum u64 | number of the next batch u64 | file u64 | bytes there u64
//! ```
//!
//! A note stays right while the log grows: it says what there is at the least. After a crash it is that of an earlier close,
//! so that the batches behind it may be a torn end; a power cut right behind a close may leave the earlier one, too, as the
//! note's name is not synced. Costs of a close: a sync of the note.

use halite_codec::{CHECKSUM, Reader, Seed, check_front, put_front};
use halite_disk::Disk;

use super::Position;
use crate::{Error, Result};

const NAME: &str = "CLOSED";

/// The name of a note that is being written.
const UNFINISHED: &str = "CLOSED.new";

const LEN: usize = CHECKSUM + 24;

/// The noted end; `None` of a partition that was never closed.
pub(super) fn read(disk: &Disk, store_id: u128) -> Result<Option<Position>> {
    let file = match disk.open(NAME) {
        Err(halite_disk::Error::Missing { .. }) => return Ok(None),
        file => file?,
    };
    let damaged = |why| Error::damaged(disk.path().join(NAME).display().to_string(), why);
    if file.len() != LEN as u64 {
        return Err(damaged("it does not have its length"));
    }
    let mut bytes = [0; LEN];
    file.read_at(0, &mut bytes)?;
    let read = || -> halite_codec::Result<_> {
        let mut reader = Reader(check_front(&bytes, Seed::of_store(store_id))?);
        Ok(Position { sequence: reader.u64()?, file: reader.u64()?, len: reader.u64()? })
    };
    read().map(Some).map_err(|error| damaged(error.reason()))
}

/// Notes the end of a log that is durable up to there.
pub(super) fn write(disk: &Disk, store_id: u128, end: Position) -> Result<()> {
    let Position { sequence, file, len } = end;
    let mut bytes = vec![0; CHECKSUM];
    for number in [sequence, file, len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    put_front(&mut bytes, Seed::of_store(store_id));
    let _ = disk.remove(UNFINISHED);
    let mut writer = disk.create(UNFINISHED)?;
    writer.write(&bytes)?;
    writer.sync()?;
    Ok(disk.rename(UNFINISHED, NAME)?)
}
