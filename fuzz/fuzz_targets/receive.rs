//! Any bytes are received as a stream of a snapshot, and any content with its checksums, or refused with an error: no panic,
//! no hang, no allocation that the bytes do not pay for, and no change of a dataset by a stream that is refused.
#![no_main]

use std::ops::ControlFlow;
use std::sync::OnceLock;

use halite_betree::{Betree, ReceiveOptions};
use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Op};
use halite_pmem::PoolOptions;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Magic and format.
const BEGIN: usize = 12;

/// Bytes of a chunk before its content.
const HEAD: usize = 16;

/// A chunk: kind, length, checksum, bytes. Its checksum, too.
fn chunk(seed: u64, number: u64, kind: u32, bytes: &[u8]) -> (Vec<u8>, u64) {
    let (kind, len) = (kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let mut sum = Xxh3::with_seed(seed ^ number);
    [&kind[..], &len, bytes].into_iter().for_each(|part| sum.update(part));
    let sum = sum.digest();
    ([&kind[..], &len, &sum.to_le_bytes(), bytes].concat(), sum)
}

fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A store with a dataset, and how the streams of a snapshot of it, and of changes since, begin.
struct Image {
    _folder: TempDir,
    betree: Betree,
    space: KeySpaceId,
    headers: [Vec<u8>; 2],
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 64 << 20;
        let options =
            EngineOptions { pool_options, ..EngineOptions::new(folder.path().join("pool")) };
        let betree = Betree::open(&options).unwrap();
        let put = |space, key: &[u8], value: &[u8]| {
            betree.write(&[Op::Put { space, key, value }], Durability::Immediate).unwrap();
        };
        let sent = betree.key_space("sent").unwrap();
        put(sent, b"key", b"value");
        betree.create_snapshot(sent, "one").unwrap();
        put(sent, b"key", b"other");
        betree.create_snapshot(sent, "two").unwrap();
        let send = |name, from| {
            let mut stream = Vec::new();
            betree.send(sent, name, from, None, &mut stream, &mut on).unwrap();
            stream
        };
        let streams = [send("one", None), send("two", Some("one"))];
        let strict = ReceiveOptions::default();
        betree.receive(&mut &streams[0][..], "copy", strict, &mut on).unwrap();
        let space = betree.key_space("copy").unwrap();
        let headers = streams.map(|mut stream| {
            let len = u32::from_le_bytes(stream[BEGIN + 4..BEGIN + 8].try_into().unwrap());
            stream.truncate(BEGIN + HEAD + len as usize);
            stream
        });
        Image { _folder: folder, betree, space, headers }
    })
}

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (way, bytes) = input;
    let Image { betree, space, headers, .. } = image();
    let bytes = &bytes[..bytes.len().min(256 << 10)];
    let content = || {
        let pairs = betree.scan(*space, KeyRange::all(), Direction::Forward).unwrap();
        pairs.map(|pair| pair.unwrap()).collect::<Vec<_>>()
    };
    let (stream, name) = match way % 3 {
        0 => (bytes.to_vec(), "copy"),
        way => {
            let header = &headers[usize::from(way - 1)];
            let seed = xxh3_64(&header[BEGIN + HEAD..][..16]);
            let first = u64::from_le_bytes(header[BEGIN + 8..][..8].try_into().unwrap());
            let (chunk_of, second) = chunk(seed, 1, 2, bytes);
            let sum = [first, second]
                .into_iter()
                .fold(0, |sum, checksum| xxh3_64_with_seed(&checksum.to_le_bytes(), sum));
            // The end that the content would have if it were one put.
            let numbers = [1, 0, 0, bytes.len() as u64, sum];
            let end: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let (end, _) = chunk(seed, 2, 3, &end);
            ([&header[..], &chunk_of, &end].concat(), if way == 1 { "new" } else { "copy" })
        }
    };
    let before = content();
    let received = betree.receive(&mut &stream[..], name, ReceiveOptions::default(), &mut on);
    match (received, name) {
        (Err(_), _) => assert_eq!(content(), before),
        (Ok(_), "copy") => betree.rollback(*space, "one", true).unwrap(),
        (Ok(_), name) => {
            let new = betree.key_space(name).unwrap();
            betree.destroy_key_space(new).unwrap();
        }
    }
});
