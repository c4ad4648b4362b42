//! A table that is damaged in any way returns its entries, or an error of damage. One whose checksums are right
//! and whose contents are a stranger's is read without a panic, a hang, or an allocation that its bytes do not
//! pay for.
#![no_main]

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use halite_cache::BlockCache;
use halite_codec::Compression;
use halite_disk::Disk;
use halite_sst::{
    Entry, PUT, RangeDelete, Reads, Result, SEQUENCE_MAX, Table, TableBuilder, TableId,
    TableOptions,
};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const ID: TableId = TableId { store_id: 3, number: 5 };
const TRAILER: usize = 16;
const FOOTER: usize = 56;

/// Entries: key, sequence, value.
type Entries = Vec<(Vec<u8>, u64, Vec<u8>)>;

struct Sample {
    entries: Entries,
    bytes: Vec<u8>,
    /// The blocks, without their trailers.
    blocks: Vec<Range<usize>>,
}

/// The checksum of a block, as `halite-codec`'s `sealed.rs` has it.
fn checksum(bytes: &[u8], block: &Range<usize>) -> u64 {
    let id = [&ID.store_id.to_le_bytes()[..], &ID.number.to_le_bytes()].concat();
    let head = u64::from_le_bytes(bytes[block.end..block.end + 8].try_into().unwrap());
    let place = (block.start as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seed = xxh3_64(&id) ^ place ^ head.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    xxh3_64_with_seed(&bytes[block.clone()], seed)
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let disk = Disk::in_memory();
        let options =
            TableOptions { block_bytes: 120, partition_bytes: 60, compression: Compression::Lz4 };
        let mut builder = TableBuilder::new(disk.create("table").unwrap(), ID, 0, options);
        let key = |n: u64| format!("key {:02}", n / 2).into_bytes();
        let entries: Entries = (0..40).map(|n| (key(n), 99 - n, vec![b'v'; n as usize])).collect();
        for (key, sequence, value) in &entries {
            builder.add(Entry { key, sequence: *sequence, kind: PUT, value }).unwrap();
        }
        let (start, end) = ((*b"key 03").into(), (*b"key 06").into());
        builder.add_range_delete(&RangeDelete { start, end, sequence: 200 });
        builder.finish().unwrap();
        let bytes = contents(&disk);
        // One block follows the other: the next one ends where a checksum is right.
        let (mut blocks, mut start) = (Vec::new(), 0);
        while start < bytes.len() - FOOTER {
            let ends = start..bytes.len() - FOOTER - TRAILER + 1;
            let is_right = |end: &usize| {
                bytes[end + 8..end + TRAILER] == checksum(&bytes, &(start..*end)).to_le_bytes()
            };
            let end = ends.into_iter().find(is_right).unwrap();
            blocks.push(start..end);
            start = end + TRAILER;
        }
        Sample { entries, bytes, blocks }
    })
}

fn contents(disk: &Disk) -> Vec<u8> {
    let file = disk.open("table").unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Opens a table of these bytes and reads everything, twice.
fn read(bytes: &[u8]) -> Result<(Entries, Entries)> {
    let disk = Disk::in_memory();
    let mut writer = disk.create("table").unwrap();
    writer.write(bytes).unwrap();
    writer.finish().unwrap();
    let table = Table::open(&disk, "table", ID, &Arc::new(BlockCache::new(1 << 20, 100)))?;
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    // A stranger's index may lead to one block again and again.
    let mut left = 20_000;
    let owned = |e: Entry<'_>| (e.key.to_vec(), e.sequence, e.value.to_vec());
    let _ = table.check();
    for (key, ..) in &sample().entries {
        let _ = table.get(key, SEQUENCE_MAX);
    }
    let mut cursor = table.cursor(Reads::Ahead);
    cursor.first()?;
    while let Some(entry) = cursor.entry()
        && left > 0
    {
        forward.push(owned(entry));
        cursor.forward()?;
        left -= 1;
    }
    let mut cursor = table.cursor(Reads::Cached);
    cursor.last()?;
    while let Some(entry) = cursor.entry()
        && left > 0
    {
        backward.push(owned(entry));
        cursor.backward()?;
        left -= 1;
    }
    Ok((forward, backward))
}

fuzz_target!(|input: (bool, Vec<(u8, u16, Vec<u8>)>, u16)| {
    let (is_sealed, edits, cut) = input;
    let Sample { entries, bytes: whole, blocks } = sample();
    let mut bytes = whole.clone();
    for (block, at, edit) in &edits {
        let block = &blocks[usize::from(*block) % blocks.len()];
        // The trailer's first bytes too: compression and length.
        let places = if is_sealed { block.start..block.end + 8 } else { 0..bytes.len() };
        let at = places.start + usize::from(*at) % places.len();
        let len = edit.len().min(places.end - at);
        bytes[at..at + len].copy_from_slice(&edit[..len]);
        if is_sealed {
            let sum = checksum(&bytes, block).to_le_bytes();
            bytes[block.end + 8..block.end + TRAILER].copy_from_slice(&sum);
        }
    }
    if !is_sealed && cut % 4 == 0 {
        bytes.truncate(usize::from(cut) % (whole.len() + 1));
    }
    let found = read(&bytes);
    if !is_sealed && let Ok((forward, mut backward)) = found {
        backward.reverse();
        assert_eq!((&forward, &backward), (entries, entries));
    }
});
