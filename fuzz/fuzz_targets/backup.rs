//! Any bytes are read as a backup, and any contents with their checksums restored, or refused with an
//! error: no panic, no hang, no allocation that the bytes do not pay for.
#![no_main]

use std::sync::OnceLock;

use halite::{BackupReader, Database};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use xxhash_rust::xxh3::Xxh3;

/// Magic and format.
const BEGIN: usize = 12;

/// A chunk: kind, length, checksum, bytes.
fn chunk(seed: u64, number: u64, kind: u32, bytes: &[u8]) -> Vec<u8> {
    let (kind, len) = (kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let mut sum = Xxh3::with_seed(seed ^ number);
    [&kind[..], &len, bytes].into_iter().for_each(|part| sum.update(part));
    [&kind[..], &len, &sum.digest().to_le_bytes(), bytes].concat()
}

/// How the backup of an empty database begins, and its id.
fn header() -> &'static (Vec<u8>, u64) {
    static HEADER: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    HEADER.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let db = Database::builder().change_log(0).open(folder.path()).unwrap();
        let mut backup = Vec::new();
        db.backup(&db.take_snapshot().unwrap(), &mut backup).unwrap();
        let len = u32::from_le_bytes(backup[BEGIN + 4..BEGIN + 8].try_into().unwrap()) as usize;
        backup.truncate(BEGIN + 16 + len);
        let id = u64::from_le_bytes(backup[BEGIN + 16..BEGIN + 24].try_into().unwrap());
        (backup, id)
    })
}

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (is_raw, bytes) = input;
    if is_raw {
        let _ = BackupReader::new(&bytes[..]).and_then(BackupReader::verify);
        return;
    }
    let (header, id) = header();
    let bytes = &bytes[..bytes.len().min(256 << 10)];
    let backup = [&header[..], &chunk(*id, 1, 2, bytes), &chunk(*id, 2, 3, &[0; 16])].concat();
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir_in("/dev/shm").unwrap());
    let reader = BackupReader::new(&backup[..]).unwrap();
    let builder = Database::builder().max_size(16 << 20);
    let _ = builder.restore(folder.path().join("data"), vec![reader], true);
});
