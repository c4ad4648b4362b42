//! tmp
use halite_engine::*;
use halite_indexlog::IndexLog;
use halite_pmem::PoolOptions;
use std::time::Instant;
fn opts(p: &std::path::Path, max: u64) -> EngineOptions {
    let mut po = PoolOptions::default();
    po.size_max = max;
    EngineOptions { pool: p.join("pool"), pool_options: po, create: true }
}
#[test]
fn bench() {
    let d = tempfile::tempdir_in("/dev/shm").unwrap();
    let n: u64 = std::env::var("N").ok().map_or(20_000, |s| s.parse().unwrap());
    let e = IndexLog::open(&opts(d.path(), 4 << 30)).unwrap();
    let s = e.key_space("a").unwrap();
    let key = |i: u64| {
        let mut k = [0u8; 16];
        k[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        k[8..].copy_from_slice(&i.to_be_bytes());
        k
    };
    let v = [7u8; 100];
    let t0 = e.stats().traffic;
    let t = Instant::now();
    for i in 0..n {
        e.write(&[Op::Put { space: s, key: &key(i), value: &v }], Durability::Immediate).unwrap();
    }
    println!("put {:?} ns", t.elapsed().as_nanos() as f64 / n as f64);
    println!("{:?}", e.stats().traffic - t0);
    let t = Instant::now();
    for i in 0..n {
        e.write(
            &[Op::Put { space: s, key: &key(i.wrapping_mul(7919) % n), value: &v }],
            Durability::Immediate,
        )
        .unwrap();
    }
    println!("overwrite {:?} ns", t.elapsed().as_nanos() as f64 / n as f64);
    let t = Instant::now();
    for i in 0..n {
        assert!(e.get(s, &key(i.wrapping_mul(104729) % n)).unwrap().is_some());
    }
    println!("get {:?} ns", t.elapsed().as_nanos() as f64 / n as f64);
    let t = Instant::now();
    assert_eq!(e.scan(s, KeyRange::all(), Direction::Forward).unwrap().count() as u64, n);
    println!("scan {:?} ns", t.elapsed().as_nanos() as f64 / n as f64);
    println!("{:?}", e.stats());
    drop(e);
    let e = IndexLog::open(&opts(d.path(), 4 << 30)).unwrap();
    println!("{:?}", e.stats().recovery);
    let t = Instant::now();
    for i in 0..n {
        assert!(e.get(s, &key(i.wrapping_mul(104729) % n)).unwrap().is_some());
    }
    println!("get {:?} ns", t.elapsed().as_nanos() as f64 / n as f64);
}
