//! The superblock: the identity of the pool, and where its structures begin.

use std::io::ErrorKind;
use std::path::Path;

use halite_pmem::{Flushed, Fresh, Pool, PoolOptions};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::{Error, Result, SEGMENT};

/// The format that this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Named roots in a superblock.
pub const ROOTS_MAX: usize = 16;

/// The longest name of a root, in bytes.
pub const ROOT_NAME_LEN_MAX: usize = 24;

/// The first bytes of a pool. The line ends show a transfer that took it for text.
const MAGIC: [u8; 8] = *b"Halite\r\n";

/// Where the two copies of the superblock lie, in bytes from the pool's start.
pub const COPIES: [u64; 2] = [0, 32 << 10];

/// Bytes of a copy of the superblock, padding included.
pub const COPY_LEN: u64 = 4096;

/// The stored form. Magic and version keep their places in every version.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stored {
    magic: [u8; 8],
    version: U32,
    segment_len: U32,
    uuid: [u8; 16],
    salt: U64,
    /// Segments of the pool.
    segments: U64,
    /// Counts the changes; of two valid copies the higher one is newer.
    generation: U64,
    roots: [Root; ROOTS_MAX],
    /// XXH3 of all bytes before.
    checksum: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    /// Padded with zeros; a free root has no name.
    name: [u8; ROOT_NAME_LEN_MAX],
    value: U64,
}

impl Stored {
    fn sum(&self) -> u64 {
        let bytes = self.as_bytes();
        xxh3_64(&bytes[..bytes.len() - size_of::<U64>()])
    }
}

/// The state of one copy.
enum Copy {
    Valid(Box<Stored>),
    Foreign,
    Future(u32),
    Damaged,
}

impl Copy {
    fn read(bytes: &[u8]) -> Self {
        let Ok((stored, _)) = Stored::read_from_prefix(bytes) else { return Self::Foreign };
        if stored.magic != MAGIC {
            Self::Foreign
        } else if stored.version.get() > FORMAT_VERSION {
            Self::Future(stored.version.get())
        } else if stored.checksum.get() != stored.sum()
            || u64::from(stored.segment_len.get()) != SEGMENT
            || stored.generation.get() == u64::MAX
        {
            Self::Damaged
        } else {
            Self::Valid(Box::new(stored))
        }
    }
}

/// The superblock in memory, and its two places in the pool.
pub(crate) struct Superblock {
    stored: Stored,
    copies: [Fresh; 2],
    /// The copy that is certainly whole, to be written last.
    good: usize,
}

impl Superblock {
    /// Writes the superblock of a new pool.
    pub(crate) fn create(pool: &Pool) -> Result<Self> {
        let mut stored = Stored::new_zeroed();
        stored.magic = MAGIC;
        stored.version = FORMAT_VERSION.into();
        stored.segment_len = (SEGMENT as u32).into();
        for half in stored.uuid.chunks_exact_mut(8) {
            half.copy_from_slice(&pool.random()?.to_le_bytes());
        }
        stored.salt = pool.random()?.into();
        stored.segments = (pool.len() / SEGMENT).into();
        let mut superblock = Self { stored, copies: claim(pool)?, good: 0 };
        superblock.write()?;
        Ok(superblock)
    }

    /// Reads the superblock, and repairs a copy that a crash or the medium damaged.
    pub(crate) fn open(pool: &Pool) -> Result<Self> {
        let copies = claim(pool)?;
        let read = [Copy::read(copies[0].bytes()), Copy::read(copies[1].bytes())];
        let path = pool.path().to_owned();
        let (stored, good) = match &read {
            [Copy::Valid(a), Copy::Valid(b)] => {
                if a.generation.get() >= b.generation.get() {
                    (a, 0)
                } else {
                    (b, 1)
                }
            }
            [Copy::Valid(valid), _] => (valid, 0),
            [_, Copy::Valid(valid)] => (valid, 1),
            [Copy::Future(found), _] | [_, Copy::Future(found)] => {
                return Err(Error::FutureVersion {
                    path,
                    found: *found,
                    supported: FORMAT_VERSION,
                });
            }
            [Copy::Foreign, Copy::Foreign] => return Err(Error::Foreign { path }),
            _ => {
                return Err(Error::Damaged {
                    path,
                    what: "superblock".into(),
                    why: "neither copy has its checksum".into(),
                });
            }
        };
        let says = stored.segments.get().saturating_mul(SEGMENT);
        if says > pool.len() {
            return Err(Error::Truncated { path, says, is: pool.len() });
        }
        // The process that wrote it may have died before its fence; the other copy is written first.
        pool.fence_found(&[copies[good].flush(0..size_of::<Stored>() as u64)])?;
        let agree = matches!(&read, [Copy::Valid(a), Copy::Valid(b)]
            if a.generation.get() == b.generation.get());
        let mut superblock = Self { stored: Stored::clone(stored), copies, good };
        if !agree {
            superblock.write()?;
        }
        Ok(superblock)
    }

    /// The seed of every checksum in the pool, so that bytes of another pool are not taken for its own, and
    /// a user who chooses values cannot forge a record.
    pub(crate) fn salt(&self) -> u64 {
        self.stored.salt.get()
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.stored.uuid
    }

    pub(crate) fn segments(&self) -> u64 {
        self.stored.segments.get()
    }

    pub(crate) fn set_segments(&mut self, segments: u64) -> Result<()> {
        self.check_known()?;
        self.stored.segments = segments.into();
        self.write()
    }

    pub(crate) fn root(&self, name: &str) -> Option<u64> {
        let name = padded(name)?;
        self.stored.roots.iter().find(|root| root.name == name).map(|root| root.value.get())
    }

    /// The names of all roots.
    pub(crate) fn root_names(&self) -> Vec<String> {
        let names = self.stored.roots.iter().filter(|root| root.name[0] != 0);
        names
            .map(|root| {
                let end = root.name.iter().position(|&byte| byte == 0).unwrap_or(root.name.len());
                String::from_utf8_lossy(&root.name[..end]).into_owned()
            })
            .collect()
    }

    pub(crate) fn set_root(&mut self, name: &str, value: u64) -> Result<()> {
        self.check_known()?;
        let no_room = || Error::Root { name: name.to_owned() };
        let name = padded(name).ok_or_else(no_room)?;
        let roots = &mut self.stored.roots;
        let at = roots.iter().position(|root| root.name == name);
        let at =
            at.or_else(|| roots.iter().position(|root| root.name[0] == 0)).ok_or_else(no_room)?;
        roots[at] = Root { name, value: value.into() };
        self.write()
    }

    /// Refuses a change after a sync that failed: either copy may be the one that is whole.
    fn check_known(&self) -> Result<()> {
        Ok(self.copies[0].pool().check_synced()?)
    }

    /// Writes both copies, one after the other, the good one last: any number of crashes damages at most
    /// one. Two fences.
    fn write(&mut self) -> Result<()> {
        self.stored.generation += 1;
        self.stored.checksum = self.stored.sum().into();
        let last = planted!("alloc.good-superblock-written-first", 1 - self.good, self.good);
        planted!(
            "alloc.superblock-copies-fenced-together",
            drop(self.store_copy(1 - last)),
            self.write_copy(1 - last)?
        );
        self.write_copy(last)
    }

    #[track_caller]
    fn write_copy(&mut self, copy: usize) -> Result<()> {
        let flushed = self.store_copy(copy);
        let copy = &self.copies[copy];
        copy.pool().fence([flushed])?;
        Ok(())
    }

    /// Stores a copy, and starts its write-back.
    #[track_caller]
    fn store_copy(&mut self, copy: usize) -> Flushed {
        let copy = &mut self.copies[copy];
        copy.write_stream(0, self.stored.as_bytes())
    }
}

fn claim(pool: &Pool) -> Result<[Fresh; 2]> {
    Ok([pool.claim(COPIES[0], COPY_LEN)?, pool.claim(COPIES[1], COPY_LEN)?])
}

/// Whether the pool itself reports a failure to read a file: there is no file, or none that can be a pool.
fn is_for_the_pool(kind: ErrorKind) -> bool {
    use ErrorKind::{
        IsADirectory, NotADirectory, NotFound, NotSeekable, PermissionDenied, UnexpectedEof,
        Unsupported,
    };
    // Memory and a modelled medium are not read so: that is unsupported.
    matches!(
        kind,
        NotFound
            | NotADirectory
            | IsADirectory
            | NotSeekable
            | PermissionDenied
            | UnexpectedEof
            | Unsupported
    )
}

/// Refuses a file that has the beginning of a pool at neither copy. Files that are missing, too short, or
/// not permitted to be read are left for the pool to report; any other failure to read is returned.
pub(crate) fn refuse_foreign(path: &Path, options: &PoolOptions) -> Result<()> {
    let mut known = false;
    for at in COPIES {
        let mut magic = [0; MAGIC.len()];
        match Pool::peek(path, options, at, &mut magic) {
            Ok(()) => known |= magic == MAGIC,
            Err(error) if is_for_the_pool(error.kind()) => return Ok(()),
            Err(source) => {
                let (path, action) = (path.to_owned(), "read the pool");
                return Err(halite_pmem::Error::Io { path, action, source }.into());
            }
        }
    }
    if known { Ok(()) } else { Err(Error::Foreign { path: path.to_owned() }) }
}

fn padded(name: &str) -> Option<[u8; ROOT_NAME_LEN_MAX]> {
    if name.contains('\0') {
        return None;
    }
    let mut padded = [0; ROOT_NAME_LEN_MAX];
    padded.get_mut(..name.len()).filter(|_| !name.is_empty())?.copy_from_slice(name.as_bytes());
    Some(padded)
}
