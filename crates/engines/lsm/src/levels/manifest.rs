//! The state of the levels, durably: a log of edits, in a file of which `CURRENT` has the number.
//!
//! ```text
//! MANIFEST-n                                   CURRENT
//!  0  magic     "HALITMAN"                      0  magic     "HALITCUR"
//!  8  format    u32   1                         8  format    u32   1
//! 12  zeros     u32                            12  zeros     u32
//! 16  store id  u128                           16  store id  u128
//! 32  number    u64   n                        32  number    u64   n
//! 40  checksum  u64   xxh3 of these            40  durable   u64   bytes of the manifest that are so
//! 48  frames, of each the payload an           48  checksum  u64   xxh3 of these
//!     edit (`edit`); of a frame: `halite_codec::frame`
//! ```
//!
//! An edit counts when its frame is synced: one append changes everything at once. A frame that is not whole
//! at the end was being written when the power failed, and is cut. Damage before `durable`, or before another
//! whole frame, is an error. `CURRENT` is written when a manifest is begun and when the store is closed;
//! of one that was not closed, edits that are cut from the end, or a last one that is damaged, cannot be told from
//! unfinished ones.
//!
//! A manifest that has grown, or that an edit could not be appended to, is followed by a new one, whose first
//! edit is all that there is. It counts when `CURRENT` has its number: by a rename.

use halite_codec::{CHECKSUM, Reader, Seed, check_behind, frame, put_behind, read_frames};
use halite_disk::{Disk, Writer};
use halite_sim::planted;

use super::edit::{Edit, State};
use super::error::{Error, Result};
use super::names::{self, CURRENT, UNFINISHED};

const FORMAT: u32 = 1;
const MANIFEST_MAGIC: [u8; 8] = *b"HALITMAN";
const CURRENT_MAGIC: [u8; 8] = *b"HALITCUR";
const HEADER: usize = 48;
const CURRENT_LEN: usize = 56;

/// The longest manifest that is read, in bytes. One that is begun anew has less than 1 KiB a table.
const LEN_MAX: u64 = 1 << 30;

/// The content of `CURRENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) number: u64,
    pub(crate) durable: u64,
}

/// An open manifest.
pub(crate) struct Manifest {
    disk: Disk,
    store_id: u128,
    number: u64,
    /// `None` after an append that failed: how much of it is durable is not known.
    writer: Option<Writer>,
    /// Its length when it was begun; 0, if that was not now.
    begun_len: u64,
}

/// An edit could not be made durable.
pub(crate) struct Unappended {
    pub(crate) error: Error,
    /// Whether it may be durable all the same. Not if the disk had no room: then its frame is not whole.
    pub(crate) may_count: bool,
}

/// Bytes that begin with magic, format and store id, and end with a checksum.
fn labelled(magic: [u8; 8], store_id: u128, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&store_id.to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    put_behind(&mut bytes, Seed::NONE);
    bytes
}

/// The numbers within such bytes.
fn unlabelled<const N: usize>(
    bytes: &[u8],
    magic: [u8; 8],
    store_id: u128,
    file: &str,
) -> Result<[u64; N]> {
    let damaged = |why: &str| Error::damaged(file, "header", why);
    let wrong = |why: halite_codec::Error| damaged(why.reason());
    let len = 32 + 8 * N + CHECKSUM;
    let bytes = bytes.get(..len).ok_or_else(|| damaged("it is too short"))?;
    if bytes[..8] != magic {
        return Err(damaged("it does not begin as it should"));
    }
    let bytes = check_behind(bytes, Seed::NONE).map_err(wrong)?;
    let mut reader = Reader(&bytes[8..]);
    let mut header = || Ok((reader.u32()?, reader.u32()?, reader.u128()?));
    let (format, _, found) = header().map_err(wrong)?;
    if format != FORMAT {
        return Err(Error::Format { file: file.to_owned(), found: format, known: FORMAT });
    }
    if found != store_id {
        return Err(Error::Foreign { file: file.to_owned(), found, wanted: store_id });
    }
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = reader.u64().map_err(wrong)?;
    }
    Ok(numbers)
}

/// All bytes of a file.
fn contents(disk: &Disk, name: &str, len_max: u64) -> Result<Vec<u8>> {
    let file = disk.open(name).map_err(|error| match error {
        halite_disk::Error::Missing { .. } => Error::Missing { file: name.to_owned() },
        error => error.into(),
    })?;
    if file.len() > len_max {
        return Err(Error::damaged(name, "file", format!("it has {} bytes", file.len())));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The content of `CURRENT`.
pub(crate) fn current(disk: &Disk, store_id: u128) -> Result<Current> {
    let bytes = contents(disk, CURRENT, CURRENT_LEN as u64)?;
    let [number, durable] = unlabelled(&bytes, CURRENT_MAGIC, store_id, CURRENT)?;
    Ok(Current { number, durable })
}

/// The sum of a manifest's frames, how many they are, and where the last ends. With `lenient`, up to the first that
/// is damaged.
pub(crate) fn replay(
    disk: &Disk,
    store_id: u128,
    current: Current,
    lenient: bool,
) -> Result<(State, usize, u64)> {
    let name = names::manifest(current.number);
    let bytes = contents(disk, &name, LEN_MAX)?;
    let [number] = unlabelled(&bytes, MANIFEST_MAGIC, store_id, &name)?;
    if number != current.number {
        return Err(Error::Misnamed { file: name, found: number });
    }
    let damaged = |at, why| Error::damaged(&name, format!("edit at {at}"), why);
    let seed = Seed::of_file(store_id, number);
    let (frames, end) = match read_frames(&bytes, seed, HEADER, current.durable) {
        Ok(found) => found,
        Err(at) if lenient => read_frames(&bytes[..at], seed, HEADER, 0).expect("whole frames"),
        Err(at) => return Err(damaged(at, "it is not whole")),
    };
    let (mut state, count) = (State::default(), frames.len());
    for payload in frames {
        let at = payload.start;
        let applied = Edit::of_bytes(&bytes[payload]).and_then(|edit| state.apply(edit));
        applied.map_err(|why| damaged(at, why))?;
    }
    if count == 0 && !lenient {
        return Err(damaged(HEADER, "the first one is missing"));
    }
    Ok((state, count, end as u64))
}

/// Whether a manifest that `CURRENT` does not name is this store's.
pub(crate) fn is_ours(disk: &Disk, store_id: u128, number: u64) -> bool {
    let name = names::manifest(number);
    let header = disk.open(&name).ok().and_then(|file| {
        let mut header = [0; HEADER];
        file.read_at(0, &mut header).ok().map(|()| header)
    });
    header.is_some_and(|header| {
        unlabelled(&header, MANIFEST_MAGIC, store_id, &name).is_ok_and(|[found]| found == number)
    })
}

impl Manifest {
    /// Opens the manifest that `CURRENT` names, and cuts a torn end.
    pub(crate) fn open(disk: &Disk, store_id: u128) -> Result<(Self, State)> {
        let current = current(disk, store_id)?;
        let (state, _, end) = replay(disk, store_id, current, false)?;
        let mut writer = disk.append(&names::manifest(current.number), end)?;
        // Edits that a killed process had written and named, and that this one has found, count from now on: files
        // that are no longer needed are removed.
        writer.sync()?;
        disk.sync()?;
        let (disk, number) = (disk.clone(), current.number);
        Ok((Self { disk, store_id, number, writer: Some(writer), begun_len: 0 }, state))
    }

    /// Begins a manifest with a state, and makes it the store's.
    pub(crate) fn create(disk: &Disk, store_id: u128, number: u64, state: &State) -> Result<Self> {
        let name = names::manifest(number);
        let unfinished = format!("{name}{UNFINISHED}");
        let write = || {
            let mut writer = disk.create(&unfinished)?;
            let header = labelled(MANIFEST_MAGIC, store_id, &[number]);
            writer.write(&header)?;
            let payload = state.snapshot().bytes();
            let seed = Seed::of_file(store_id, number);
            writer.write(&frame(&payload, seed, header.len() as u64))?;
            let writer = planted!(
                "lsm.current-before-manifest",
                disk.append(&unfinished, writer.finish()?.len())?,
                {
                    writer.sync()?;
                    writer
                }
            );
            disk.rename(&unfinished, &name)?;
            set_current(disk, store_id, Current { number, durable: writer.len() })?;
            Ok(writer)
        };
        let writer = write().inspect_err(|_: &Error| {
            // They may not be there; if they stay, the next opening removes them.
            let _ = disk.remove(&unfinished);
            if current(disk, store_id).is_ok_and(|current| current.number != number) {
                let _ = disk.remove(&name);
            }
        })?;
        let begun_len = writer.len();
        Ok(Self { disk: disk.clone(), store_id, number, writer: Some(writer), begun_len })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a new one has to be begun for the next edit, since this one failed, or since it is longer than
    /// `len_max` and most of it is out of date.
    pub(crate) fn is_to_be_followed(&self, len_max: u64) -> bool {
        let is_long = |len: u64| len > len_max && len > 2 * self.begun_len;
        self.writer.as_ref().is_none_or(|writer| is_long(writer.len()))
    }

    /// Makes an edit durable.
    pub(crate) fn append(&mut self, edit: &Edit) -> std::result::Result<(), Unappended> {
        let mut writer = self.writer.take().expect("a manifest that can be appended to");
        let seed = Seed::of_file(self.store_id, self.number);
        let frame = frame(&edit.bytes(), seed, writer.len());
        let written = writer.write(&frame).and_then(|()| writer.flush());
        written.map_err(|error| Unappended { error: error.into(), may_count: false })?;
        let synced = planted!("lsm.edit-not-synced", Ok(()), writer.sync());
        synced.map_err(|error| Unappended { error: error.into(), may_count: true })?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Notes that all of it is durable.
    pub(crate) fn close(&mut self) -> Result<()> {
        match &self.writer {
            Some(writer) => {
                let current = Current { number: self.number, durable: writer.len() };
                set_current(&self.disk, self.store_id, current)
            }
            None => Ok(()),
        }
    }
}

/// Writes `CURRENT`, in place of the one that there is.
fn set_current(disk: &Disk, store_id: u128, current: Current) -> Result<()> {
    let unfinished = format!("{CURRENT}{UNFINISHED}");
    let Current { number, durable } = current;
    let write = || {
        let mut writer = disk.create(&unfinished)?;
        writer.write(&labelled(CURRENT_MAGIC, store_id, &[number, durable]))?;
        writer.sync()?;
        // The names of the files that `CURRENT` points to have to be durable before it is.
        disk.sync()?;
        disk.rename(&unfinished, CURRENT)
    };
    write().inspect_err(|_| {
        // It may not be there; if it stays, the next opening removes it.
        let _ = disk.remove(&unfinished);
    })?;
    Ok(disk.sync()?)
}
