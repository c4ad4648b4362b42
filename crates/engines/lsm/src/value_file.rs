//! A file that has one large value: written once, read whole, never changed.
//!
//! ```text
//!  0  magic     "HALITVAL"
//!  8  format    u32   1
//! 12  zeros     u32
//! 16  store id  u128
//! 32  number    u64   which the file is named after
//! 40  len       u64   of the value, in bytes
//! 48  checksum  u64   xxh3 of the bytes above; the one that does not depend on store and number
//! 56  value           in chunks of 256 KiB
//!     checks    u64   for each chunk: xxh3, seeded with store, file and the chunk's number
//! ```
//!
//! A reference ([`ValueRef`]) has the xxh3 of all checks, seeded in the same way. So a file that is cut, damaged,
//! foreign, misnamed, or not the one that was referred to, is reported by name.
//!
//! A file is written under a name that says that it is not whole, synced, renamed, and the folder is synced: then a
//! record may refer to it. Two syncs a value; its bytes go through the writer's buffer of 128 KiB, and no other memory.

use halite_codec::{Reader, Seed, check_behind, put_behind};
use halite_disk::{Disk, File, Writer};
use halite_sst::ValueRef;

use crate::levels::{Error, Result};
use crate::levels::{UNFINISHED, value_name};

const MAGIC: [u8; 8] = *b"HALITVAL";
const FORMAT: u32 = 1;
const HEADER: usize = 56;

/// Bytes of a value that have a check together.
const CHUNK: usize = 256 << 10;

/// Bytes of the file of a value of so many bytes.
pub(crate) fn file_len(value_len: u64) -> u64 {
    HEADER as u64 + value_len + 8 * value_len.div_ceil(CHUNK as u64)
}

fn header(store_id: u128, number: u64, len: u64) -> [u8; HEADER] {
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&store_id.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    put_behind(&mut bytes, Seed::NONE);
    bytes.try_into().expect("the header's length")
}

/// The check of a chunk, by its number.
fn check_of(chunk: &[u8], number: usize, seed: Seed) -> u64 {
    seed.at(number as u64 + 1).checksum(chunk)
}

/// Sets so many bytes of the disk aside for a file.
pub(crate) type Reserve<'a> = &'a dyn Fn(&mut Writer, u64) -> halite_disk::Result<()>;

/// Writes a value, durably, name included.
///
/// # Errors
/// An error of the disk: then there is no file, or one that is not whole, which the next opening removes.
pub(crate) fn write(
    disk: &Disk,
    store_id: u128,
    number: u64,
    value: &[u8],
    reserve: Reserve<'_>,
) -> Result<ValueRef> {
    let (name, seed) = (value_name(number), Seed::of_file(store_id, number));
    let unfinished = format!("{name}{UNFINISHED}");
    let written = (|| {
        let mut writer = disk.create(&unfinished)?;
        // A disk that is full says so before anything is written.
        reserve(&mut writer, file_len(value.len() as u64))?;
        writer.write(&header(store_id, number, value.len() as u64))?;
        let mut checks = Vec::with_capacity(8 * value.len().div_ceil(CHUNK));
        for (number, chunk) in value.chunks(CHUNK).enumerate() {
            checks.extend_from_slice(&check_of(chunk, number, seed).to_le_bytes());
            writer.write(chunk)?;
        }
        writer.write(&checks)?;
        writer.sync()?;
        Ok::<_, halite_disk::Error>(seed.checksum(&checks))
    })();
    let named = written.and_then(|check| {
        disk.rename(&unfinished, &name)?;
        disk.sync()?;
        Ok(ValueRef { number, len: value.len() as u64, check })
    });
    Ok(named.inspect_err(|_| {
        // The next opening removes files that stay.
        let _ = disk.remove(&unfinished);
        let _ = disk.remove(&name);
    })?)
}

/// A file whose header and checks are right; its chunks are not checked yet.
struct Opened {
    file: File,
    name: String,
    seed: Seed,
    checks: Vec<u8>,
}

impl Opened {
    fn open(disk: &Disk, store_id: u128, wanted: &ValueRef) -> Result<Self> {
        let name = value_name(wanted.number);
        let file = disk.open(&name).map_err(|error| match error {
            halite_disk::Error::Missing { .. } => Error::Missing { file: name.clone() },
            error => error.into(),
        })?;
        // Checked before memory is taken for the length that a reference has.
        if file.len() != file_len(wanted.len) {
            let wanted = file_len(wanted.len);
            let why = format!("it has {} bytes, and should have {wanted}", file.len());
            return Err(Error::damaged(&name, "file", why));
        }
        let seed = Seed::of_file(store_id, wanted.number);
        let checks = vec![0; 8 * (wanted.len as usize).div_ceil(CHUNK)];
        let mut opened = Self { file, name, seed, checks };
        let mut head = [0; HEADER];
        opened.read_at(0, &mut head, "header")?;
        check_header(&opened.name, &head, store_id, wanted)?;
        let mut checks = std::mem::take(&mut opened.checks);
        opened.read_at(HEADER as u64 + wanted.len, &mut checks, "checks")?;
        if seed.checksum(&checks) != wanted.check {
            let why = "they are not those of the value";
            return Err(Error::damaged(&opened.name, "checks", why));
        }
        Ok(Self { checks, ..opened })
    }

    fn read_at(&self, at: u64, to: &mut [u8], what: &str) -> Result<()> {
        let read = self.file.read_at(at, to);
        read.map_err(|error| Error::of_reading(&self.name, what, error))
    }

    /// Reads a chunk, by its number.
    fn read_chunk(&self, number: usize, to: &mut [u8]) -> Result<()> {
        let at = number * CHUNK;
        let what = format!("the value from byte {at} on");
        self.read_at((HEADER + at) as u64, to, &what)?;
        let check =
            self.checks.as_chunks::<8>().0.get(number).map(|check| u64::from_le_bytes(*check));
        if check != Some(check_of(to, number, self.seed)) {
            return Err(Error::damaged(&self.name, what, "it does not have its checksum"));
        }
        Ok(())
    }
}

/// Reads a value.
///
/// # Errors
/// [`Error::Missing`], [`Error::Damaged`], [`Error::Foreign`], [`Error::Misnamed`], [`Error::Format`]; an error of the
/// disk.
pub(crate) fn read(disk: &Disk, store_id: u128, wanted: &ValueRef) -> Result<Vec<u8>> {
    let file = Opened::open(disk, store_id, wanted)?;
    let mut value = vec![0; wanted.len as usize];
    let mut chunks = value.chunks_mut(CHUNK).enumerate();
    chunks.try_for_each(|(number, chunk)| file.read_chunk(number, chunk))?;
    Ok(value)
}

/// Reads a value to check it, and drops it.
///
/// # Errors
/// As [`read`].
pub(crate) fn check(disk: &Disk, store_id: u128, wanted: &ValueRef) -> Result<()> {
    let file = Opened::open(disk, store_id, wanted)?;
    let mut chunk = vec![0; CHUNK.min(wanted.len as usize)];
    for (number, at) in (0..wanted.len).step_by(CHUNK).enumerate() {
        let len = (wanted.len - at).min(CHUNK as u64) as usize;
        file.read_chunk(number, &mut chunk[..len])?;
    }
    Ok(())
}

fn check_header(name: &str, head: &[u8; HEADER], store_id: u128, wanted: &ValueRef) -> Result<()> {
    if *head == header(store_id, wanted.number, wanted.len) {
        return Ok(());
    }
    let file = || name.to_owned();
    Err(match Header::read(head) {
        None => Error::damaged(name, "header", "it does not have its checksum"),
        Some(Header { format, .. }) if format != FORMAT => {
            Error::Format { file: file(), found: format, known: FORMAT }
        }
        Some(Header { store_id: found, .. }) if found != store_id => {
            Error::Foreign { file: file(), found, wanted: store_id }
        }
        Some(Header { number, .. }) if number != wanted.number => {
            Error::Misnamed { file: file(), found: number }
        }
        Some(_) => Error::damaged(name, "header", "the value has another length"),
    })
}

/// The fields of a header whose checksum is right.
struct Header {
    format: u32,
    store_id: u128,
    number: u64,
}

impl Header {
    fn read(bytes: &[u8; HEADER]) -> Option<Self> {
        let fields = check_behind(bytes, Seed::NONE).ok()?.strip_prefix(&MAGIC)?;
        let mut reader = Reader(fields);
        let (format, _zeros) = (reader.u32().ok()?, reader.u32().ok()?);
        Some(Self { format, store_id: reader.u128().ok()?, number: reader.u64().ok()? })
    }
}

/// Whether a file is this store's, as far as its header says so.
pub(crate) fn is_ours(disk: &Disk, store_id: u128, number: u64) -> Result<bool> {
    let file = disk.open(&value_name(number))?;
    let mut head = [0; HEADER];
    if file.len() < HEADER as u64 || file.read_at(0, &mut head).is_err() {
        return Ok(false);
    }
    let header = Header::read(&head);
    Ok(header.is_some_and(|header| (header.store_id, header.number) == (store_id, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_and_every_damage_has_a_name() {
        let disk = Disk::in_memory();
        let value: Vec<u8> = (0..CHUNK * 2 + 77).map(|n| (n % 251) as u8).collect();
        let reserve = |writer: &mut Writer, len| writer.reserve(len);
        let wanted = write(&disk, 7, 3, &value, &reserve).unwrap();
        assert_eq!(read(&disk, 7, &wanted).unwrap(), value);
        check(&disk, 7, &wanted).unwrap();
        assert_eq!(ValueRef::of_bytes(&wanted.bytes()), Ok(wanted));
        assert!(is_ours(&disk, 7, 3).unwrap() && !is_ours(&disk, 8, 3).unwrap());
        assert!(matches!(read(&disk, 8, &wanted), Err(Error::Foreign { .. })));
        let other = ValueRef { number: 4, ..wanted };
        assert!(matches!(read(&disk, 7, &other), Err(Error::Missing { .. })));
        let shorter = ValueRef { len: wanted.len - 1, ..wanted };
        let another = ValueRef { check: wanted.check ^ 1, ..wanted };
        for wanted in [shorter, another] {
            assert!(matches!(read(&disk, 7, &wanted), Err(Error::Damaged { .. })));
        }
        disk.rename(&value_name(3), &value_name(4)).unwrap();
        assert!(matches!(read(&disk, 7, &other), Err(Error::Misnamed { found: 3, .. })));

        let small = write(&disk, 7, 5, b"a value that is not so long", &reserve).unwrap();
        let file = disk.open(&value_name(5)).unwrap();
        let mut whole = vec![0; file.len() as usize];
        file.read_at(0, &mut whole).unwrap();
        let name = value_name(5);
        let put = |bytes: &[u8]| {
            disk.remove(&name).unwrap();
            disk.create(&name).unwrap().write_all_and_sync(bytes);
        };
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            put(&damaged);
            let error = read(&disk, 7, &small).unwrap_err();
            assert_eq!(error.file(), Some(&*name), "bit {bit}: {error}");
            assert_eq!(check(&disk, 7, &small).unwrap_err().to_string(), error.to_string());
        }
        for len in 0..whole.len() {
            put(&whole[..len]);
            let error = read(&disk, 7, &small).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{len} bytes: {error}");
        }
        put(&whole);
        assert_eq!(read(&disk, 7, &small).unwrap(), b"a value that is not so long");
    }

    trait WriteAll {
        fn write_all_and_sync(self, bytes: &[u8]);
    }

    impl WriteAll for halite_disk::Writer {
        fn write_all_and_sync(mut self, bytes: &[u8]) {
            self.write(bytes).unwrap();
            self.sync().unwrap();
        }
    }
}
