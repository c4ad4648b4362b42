//! The decoders of stored forms, behind their checksums, for the fuzzers: bytes with a right checksum may be any bytes.
//!
//! A form that is taken is encoded, and has to come back from that as it was.

use halite_codec::Reader;
use halite_contract::Result;

use crate::allocation;
use crate::catalogue::Catalogue;
use crate::dataset::history::{Origin, SnapshotRoot};
use crate::message::{Kind, Message, apply, merge};
use crate::record::Changes;
use crate::run::RunPointer;
use crate::store::superblock::{RootRecord, Superblock};
use crate::tree::pointer::NodePointer;

/// Reads bytes as the stored form of a number, whichever it is.
///
/// # Panics
/// If a form that is taken does not come back as it was: a bug.
pub fn read(form: u8, bytes: &[u8]) {
    match form % 7 {
        0 => {
            if let Ok(superblock) = Superblock::decode(bytes) {
                assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
            }
        }
        1 => {
            if let Ok(record) = RootRecord::decode(bytes) {
                assert_eq!(RootRecord::decode(&record.encode()), Ok(record));
            }
        }
        2 => {
            if let Ok(bits) = allocation::decode(bytes) {
                let again = allocation::decode(&allocation::encode(&bits)).expect("it is one");
                assert!(again.runs().eq(bits.runs()), "a bitmap is another one");
            }
        }
        3 => {
            for change in Changes::of(bytes).flatten() {
                let Ok(kind) = Kind::of_code(change.kind) else { continue };
                let _ = read_message(kind, change.key, change.payload);
            }
        }
        4 => drop(read_catalogue(bytes)),
        5 => {
            if let Ok(pointer) = RunPointer::decode(&mut Reader(bytes)) {
                let mut to = Vec::new();
                pointer.encode(&mut to);
                let again = RunPointer::decode(&mut Reader(&to)).expect("it is one");
                assert_eq!(again, pointer);
                let _ = pointer.directory_pieces().count();
            }
            if let Ok(pointer) = NodePointer::decode(&mut Reader(bytes)) {
                let mut to = Vec::new();
                pointer.encode(&mut to);
                assert_eq!(NodePointer::decode(&mut Reader(&to)), Ok(pointer));
            }
        }
        _ => {
            if let Some(root) = SnapshotRoot::decode(bytes) {
                assert_eq!(SnapshotRoot::decode(&root.encode()), Some(root));
            }
            if let Some(origin) = Origin::decode(bytes) {
                assert_eq!(Origin::decode(&origin.encode()), Some(origin));
            }
        }
    }
}

/// Merges a message with itself and with the others, and applies it.
fn read_message(kind: Kind, key: &[u8], payload: &[u8]) -> std::result::Result<(), &'static str> {
    /// Bytes of a value at most: an upsert may ask for a GiB of zeros.
    const LEN_MAX: usize = 1 << 16;
    let message = Message { kind, payload };
    let large = message.large()?;
    let is_short = large.is_none_or(|large| large.len < LEN_MAX as u64);
    for older in [message, Message::DELETE, Message { kind: Kind::Insert, payload: b"older" }] {
        if !is_short || payload.len() > 64 {
            return Ok(());
        }
        merge(key, message, older, None, &mut |_| ())?;
    }
    apply(key, message, Some(b"value".to_vec()), None).map(drop)
}

/// Reads entries of a catalogue: a length of the key, one of the value, and both.
fn read_catalogue(bytes: &[u8]) -> Result<()> {
    let (mut catalogue, mut from) = (Catalogue::default(), Reader(bytes));
    while let (Ok(key), Ok(value)) = (from.bytes(), from.bytes()) {
        catalogue.read(key, value)?;
    }
    catalogue.check_read()
}
