//! Tables against a list of their entries, and damaged in every place.

use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::Compression;
use halite_disk::Disk;
use halite_sst::{
    DELETE, Entry, Error, PUT, RangeDelete, RangeDeletes, Reads, Result, Table, TableBuilder,
    TableCursor, TableId, TableOptions,
};
use proptest::collection::vec;
use proptest::prelude::*;

type Entries = Vec<(Vec<u8>, u64, u8, Vec<u8>)>;

const ID: TableId = TableId { store_id: 0x1234_5678_9abc_def0_1111, number: 7 };
const NAME: &str = "000007.sst";

fn sorted(mut entries: Entries) -> Entries {
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
    entries
}

fn write(disk: &Disk, entries: &Entries, deletes: &RangeDeletes, options: TableOptions) {
    let mut builder = TableBuilder::new(disk.create(NAME).unwrap(), ID, 3, options);
    for (key, sequence, kind, value) in entries {
        builder.add(Entry { key, sequence: *sequence, kind: *kind, value }).unwrap();
    }
    deletes.as_slice().iter().for_each(|delete| builder.add_range_delete(delete));
    builder.finish().unwrap();
}

fn open(disk: &Disk) -> Result<Table> {
    open_with(disk, 1 << 20)
}

fn open_with(disk: &Disk, cache_bytes: u64) -> Result<Table> {
    Table::open(disk, NAME, ID, &Arc::new(BlockCache::new(cache_bytes, 4096)))
}

/// Returns the whole content of a table, forward, backward, by gets, and of range deletes.
fn contents(table: &Table, keys: &[Vec<u8>]) -> Result<(Entries, Entries, Vec<Option<u64>>)> {
    let owned = |e: Entry<'_>| (e.key.to_vec(), e.sequence, e.kind, e.value.to_vec());
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let mut cursor = table.cursor(Reads::Ahead);
    cursor.first()?;
    while let Some(entry) = cursor.entry() {
        forward.push(owned(entry));
        cursor.forward()?;
    }
    let mut cursor = table.cursor(Reads::Cached);
    cursor.last()?;
    while let Some(entry) = cursor.entry() {
        backward.push(owned(entry));
        cursor.backward()?;
    }
    let mut gets = Vec::new();
    for key in keys {
        for at in [0, 3, 1 << 40] {
            gets.push(table.get(key, at)?.map(|found| found.sequence));
        }
    }
    Ok((forward, backward, gets))
}

fn entries() -> impl Strategy<Value = Entries> {
    let key = prop_oneof![
        8 => vec(0_u8..4, 0..7),
        1 => vec(0_u8..2, 0..4).prop_map(|end| [vec![1; 700], end].concat()),
    ];
    let value = prop_oneof![6 => vec(any::<u8>(), 0..20), 1 => Just(vec![9; 3000])];
    vec((key, 0_u64..8, prop_oneof![Just(PUT), Just(DELETE)], value), 1..150).prop_map(sorted)
}

fn options() -> impl Strategy<Value = TableOptions> {
    let compression =
        prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)];
    (32_usize..2000, 50_usize..1000, compression).prop_map(
        |(block_bytes, partition_bytes, compression)| TableOptions {
            block_bytes,
            partition_bytes,
            compression,
        },
    )
}

proptest! {
    #[test]
    fn a_table_says_what_was_put_into_it(
        entries in entries(),
        options in options(),
        keys in vec(vec(0_u8..4, 0..7), 0..20),
        moves in vec((0_u8..6, vec(0_u8..4, 0..7), 0_u64..9), 0..40),
    ) {
        let disk = Disk::in_memory();
        write(&disk, &entries, &RangeDeletes::default(), options);
        let table = open(&disk).unwrap();
        let keys: Vec<_> = keys.into_iter().chain(entries.iter().map(|e| e.0.clone())).collect();
        let (forward, mut backward, gets) = contents(&table, &keys).unwrap();
        prop_assert_eq!(&forward, &entries);
        backward.reverse();
        prop_assert_eq!(&backward, &entries);
        let newest = |key: &Vec<u8>, at| entries.iter().find(|e| e.0 == *key && e.1 <= at).map(|e| e.1);
        let right: Vec<_> =
            keys.iter().flat_map(|key| [0, 3, 1 << 40].map(|at| newest(key, at))).collect();
        prop_assert_eq!(gets, right);
        prop_assert_eq!(table.check().unwrap().entries, entries.len() as u64);
        let properties = table.properties();
        prop_assert_eq!(&*properties.span.first, &entries[0].0[..]);
        prop_assert_eq!(&*properties.span.last, &entries[entries.len() - 1].0[..]);

        // An empty cache, so that all is read from the file.
        let table = open_with(&disk, 0).unwrap();
        let mut cursor = table.cursor(Reads::Cached);
        let mut at: Option<usize> = None;
        for (choice, key, sequence) in moves {
            let before = entries.partition_point(|e| (&e.0, !e.1) < (&key, !sequence));
            match choice {
                0 => { cursor.first().unwrap(); at = Some(0); }
                1 => { cursor.last().unwrap(); at = Some(entries.len() - 1); }
                2 => { cursor.seek(&key, sequence).unwrap(); at = Some(before); }
                3 => { cursor.seek_before(&key, sequence).unwrap(); at = before.checked_sub(1); }
                4 => { cursor.forward().unwrap(); at = at.map(|at| at + 1); }
                _ => { cursor.backward().unwrap(); at = at.and_then(|at| at.checked_sub(1)); }
            }
            at = at.filter(|at| *at < entries.len());
            let is = cursor.entry().map(|e| (e.key.to_vec(), e.sequence));
            prop_assert_eq!(is, at.map(|at| (entries[at].0.clone(), entries[at].1)));
        }
    }
}

/// A small table with something of every part, several partitions among them.
fn sample() -> (Entries, RangeDeletes, Vec<u8>) {
    let entries: Entries = (0..60_u64)
        .map(|n| {
            (
                format!("key {:03}", n / 2).into_bytes(),
                n % 2 + n,
                PUT,
                vec![n as u8; 1 + n as usize / 3],
            )
        })
        .collect();
    let delete = |start: &str, end: &str, sequence| RangeDelete {
        start: start.as_bytes().into(),
        end: end.as_bytes().into(),
        sequence,
    };
    let deletes =
        RangeDeletes::fragments(vec![delete("key 003", "key 009", 80), delete("key 007", "m", 90)]);
    let options =
        TableOptions { block_bytes: 128, partition_bytes: 120, compression: Compression::Lz4 };
    let (disk, entries) = (Disk::in_memory(), sorted(entries));
    write(&disk, &entries, &deletes, options);
    let file = disk.open(NAME).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    (entries, deletes, bytes)
}

/// The error of these bytes in place of the sample's; `None` if they answer as it does.
fn judge(bytes: &[u8], sample: &(Entries, RangeDeletes, Vec<u8>), id: TableId) -> Option<Error> {
    let disk = Disk::in_memory();
    let mut writer = disk.create(NAME).unwrap();
    writer.write(bytes).unwrap();
    writer.finish().unwrap();
    let keys: Vec<_> = sample.0.iter().map(|e| e.0.clone()).chain([b"key 0035".to_vec()]).collect();
    let table = match Table::open(&disk, NAME, id, &Arc::new(BlockCache::new(1 << 20, 128))) {
        Ok(table) => table,
        Err(error) => return Some(error),
    };
    assert_eq!(*table.range_deletes(), sample.1);
    let check = table.check();
    let found = contents(&table, &keys);
    // The answers that single gets still give have to be right.
    for key in &keys {
        if let Ok(found) = table.get(key, 1 << 40) {
            let newest = sample.0.iter().find(|e| e.0 == *key);
            assert_eq!(found.map(|f| f.sequence), newest.map(|e| e.1));
        }
    }
    match found {
        Ok((forward, mut backward, _)) => {
            backward.reverse();
            assert_eq!((&forward, &backward), (&sample.0, &sample.0));
            check.err()
        }
        Err(error) => {
            assert!(check.is_err(), "a check finds what a scan finds");
            Some(error)
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_damage_and_never_a_wrong_answer() {
    let sample = sample();
    assert!(judge(&sample.2, &sample, ID).is_none());
    for at in 0..sample.2.len() {
        let mut bytes = sample.2.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = judge(&bytes, &sample, ID);
        let is_named = matches!(&error, Some(Error::Damaged { file, .. }) if file == NAME);
        assert!(is_named, "byte {at}: {error:?}");
    }
}

#[test]
fn a_truncated_table_is_damage_and_never_a_wrong_answer() {
    let sample = sample();
    for len in 0..sample.2.len() {
        let error = judge(&sample.2[..len], &sample, ID);
        assert!(matches!(&error, Some(Error::Damaged { .. })), "{len}: {error:?}");
    }
    let longer = [&sample.2[..], &[0; 3]].concat();
    assert!(matches!(judge(&longer, &sample, ID), Some(Error::Damaged { .. })));
}

#[test]
fn tables_of_other_stores_under_other_names_and_none_are_told_apart() {
    let sample = sample();
    let foreign = judge(&sample.2, &sample, TableId { store_id: 5, ..ID });
    assert!(matches!(foreign, Some(Error::Foreign { found, .. }) if found == ID.store_id));
    let misnamed = judge(&sample.2, &sample, TableId { number: 8, ..ID });
    assert!(matches!(misnamed, Some(Error::Misnamed { found: 7, .. })));
    assert!(matches!(open(&Disk::in_memory()), Err(Error::Missing { file }) if file == NAME));
}

/// A value that is much longer than a block is read, and the cache has room for others still.
#[test]
fn large_values_have_blocks_of_their_own() {
    let disk = Disk::in_memory();
    let noise: Vec<u8> = (0..5_000_000_u64).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect();
    let entries = vec![
        (b"a".to_vec(), 1, PUT, vec![1; 10]),
        (b"b".to_vec(), 2, PUT, noise),
        (b"c".to_vec(), 3, PUT, vec![0; 4_000_000]),
        (b"d".to_vec(), 4, PUT, vec![2; 10]),
    ];
    write(&disk, &entries, &RangeDeletes::default(), TableOptions::default());
    let table = open(&disk).unwrap();
    assert_eq!(table.properties().data_blocks, 4);
    for (key, sequence, _, value) in &entries {
        let found = table.get(key, 9).unwrap().unwrap();
        assert_eq!((found.sequence, &found.value[..]), (*sequence, &value[..]));
    }
    let (forward, ..) = contents(&table, &[]).unwrap();
    assert_eq!(forward, entries);
}

/// Versions, and the error that ended the walk, if one did.
type Told = (Vec<(Vec<u8>, u64)>, Option<String>);

/// The entries that a walk which reads ahead returns.
fn walked(table: &Table, reads: Reads, is_forward: bool) -> Told {
    let mut told = Vec::new();
    let mut cursor = table.cursor(reads);
    let mut moved = if is_forward { cursor.first() } else { cursor.last() };
    while let (Ok(()), Some(entry)) = (&moved, cursor.entry()) {
        told.push((entry.key.to_vec(), entry.sequence));
        moved = if is_forward { cursor.forward() } else { cursor.backward() };
    }
    (told, moved.err().map(|error| error.to_string()))
}

/// The result where each of these versions is sought by itself: one block is read.
fn sought<'a>(
    table: &Table,
    entries: impl Iterator<Item = &'a (Vec<u8>, u64, u8, Vec<u8>)>,
) -> Told {
    let mut told = Vec::new();
    for (key, sequence, ..) in entries {
        let mut cursor = table.cursor(Reads::Cached);
        if let Err(error) = cursor.seek(key, *sequence) {
            return (told, Some(error.to_string()));
        }
        let entry = cursor.entry().expect("it is there");
        told.push((entry.key.to_vec(), entry.sequence));
    }
    (told, None)
}

fn long_entries(entries: u64) -> Entries {
    (0..entries).map(|n| (n.to_be_bytes().to_vec(), n + 1, PUT, vec![n as u8; 100])).collect()
}

proptest! {
    /// Bytes that are read ahead bring no error with them, and hide none.
    #[test]
    fn walks_that_read_ahead_meet_damage_where_reads_of_single_blocks_do(
        flips in vec((any::<prop::sample::Index>(), 0_u8..8), 0..4),
        block_bytes in 200_usize..9000,
        partition_bytes in 50_usize..20_000,
        cut: Option<prop::sample::Index>,
    ) {
        let entries = long_entries(3000);
        let disk = Disk::in_memory();
        let options = TableOptions { block_bytes, partition_bytes, compression: Compression::None };
        write(&disk, &entries, &RangeDeletes::default(), options);
        let table = open(&disk).unwrap();
        // The last partition of the index is in the cache, and survives any damage to the file.
        table.cursor(Reads::Cached).last().unwrap();
        let file = disk.open(NAME).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        // Spares the part that was read when the table was opened.
        let places = bytes.len() * 9 / 10;
        flips.iter().for_each(|(at, bit)| bytes[at.index(places)] ^= 1 << bit);
        let cut = cut.map_or(bytes.len(), |cut| cut.index(bytes.len()));
        // The file that is open has other bytes now.
        let mut writer = disk.append(NAME, 0).unwrap();
        writer.write(&bytes[..cut]).unwrap();
        writer.finish().unwrap();
        let right = [sought(&table, entries.iter()), sought(&table, entries.iter().rev())];
        for reads in [Reads::Cached, Reads::Ahead] {
            let table = open_with(&disk, 0);
            let Ok(table) = table else { break };
            prop_assert_eq!(&walked(&table, reads, true), &right[0]);
            prop_assert_eq!(&walked(&table, reads, false), &right[1]);
        }
        prop_assert_eq!(&walked(&table, Reads::Cached, true), &right[0]);
        prop_assert_eq!(&walked(&table, Reads::Cached, false), &right[1]);
    }
}

/// The longer a walk, the fewer reads it takes; one that stays in a block reads that block alone, and none reads blocks
/// that it does not need.
#[test]
fn only_walks_that_go_on_read_ahead() {
    let disk = Disk::in_memory();
    let options = TableOptions {
        block_bytes: 4096,
        partition_bytes: 1 << 20,
        compression: Compression::None,
    };
    write(&disk, &long_entries(30_000), &RangeDeletes::default(), options);
    let table = open_with(&disk, 1 << 20).unwrap();
    let blocks = table.properties().data_blocks;
    let mut cursor = table.cursor(Reads::Cached);
    // The partition of the index is in the cache from now on.
    cursor.first().unwrap();
    for (is_forward, number) in [(true, 15_000_u64), (false, 14_000)] {
        let before = disk.traffic();
        let mut cursor = table.cursor(Reads::Cached);
        cursor.seek(&number.to_be_bytes(), 1 << 40).unwrap();
        let first = disk.traffic() - before;
        assert_eq!(first.reads, 1);
        assert!(first.bytes_read < 5000, "{first:?}");
        let step = |cursor: &mut TableCursor| {
            if is_forward { cursor.forward() } else { cursor.backward() }.unwrap();
        };
        (0..100).for_each(|_| step(&mut cursor));
        let some = disk.traffic() - before;
        assert_eq!(some.reads, 2);
        assert!(some.bytes_read < 5000 + (16 << 10), "{some:?}");
        while cursor.entry().is_some() {
            step(&mut cursor);
        }
        let all = disk.traffic() - before;
        assert!(all.reads < blocks / 20, "{all:?} for {blocks} blocks");
        assert!(all.bytes_read < table.file_len() * 7 / 10, "{all:?}");
    }
}
