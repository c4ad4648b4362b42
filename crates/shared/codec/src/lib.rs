//! Bytes and back: the parts from which the stored formats of engines, tables, logs and backups are made.
//!
//! A writer encodes numbers and byte strings ([`put_varint`], [`put_bytes`]) and protects them by one of three
//! framings, each with a checksum of its [`Seed`]. A reader takes the same way back: the framing says whether the
//! bytes are whole, and a [`Reader`] walks through them with every length checked. Neither knows files: the caller
//! reads and writes the bytes.
//!
//! | module | framing | bytes beside the payload | found by a reader |
//! |---|---|---|---|
//! | `checked` | a checksum before or behind the bytes | 8 | the bytes are whole, of this seed |
//! | `frame` | a length and a checksum before the payload, in a log | 16 | where the log's whole frames end |
//! | `sealed` | a compressed block with a trailer behind it | 16, and padding of at most 511 | the block, decompressed |
//!
//! A seed ties bytes to their place: the checksum of a store's id, of a file's number or of an offset is part of it
//! ([`Seed::of_file`], [`Seed::at`]), so that bytes of another store, file or place fail their check. All checksums
//! are XXH3 of 64 bits: they tell accidents, not forgeries. Readers therefore check lengths and offsets within
//! checked bytes, too, and each defect is an [`Error`] with a name.
#![forbid(unsafe_code)]

mod checked;
mod compression;
mod error;
mod frame;
mod plain;
mod reader;
mod sealed;
mod seed;
mod varint;

pub use checked::{CHECKSUM, check_behind, check_front, put_behind, put_front};
pub use compression::{BlockCompressor, Compression, unpack};
pub use error::{Error, Result};
pub use frame::{Frames, HEAD, Head, frame, read_frames};
pub use plain::Plain;
pub use reader::Reader;
pub use sealed::{BLOCK_LEN_MAX, TRAILER, seal, unseal, unseal_copy};
pub use seed::Seed;
pub use varint::{put_bytes, put_varint};
