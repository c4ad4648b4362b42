//! HyperLogLogs: estimates, the form of Redis, and damaged ones.

use crate::common;
use crate::common::Running;

on_threads! {
    elements_are_counted_once
    several_are_counted_and_merged
    the_form_is_that_of_redis
    the_estimate_is_kept_until_elements_are_added
    sparse_ones_become_dense
    other_strings_and_damaged_ones_are_refused
    they_outlive_the_server
}

const NO_HYPERLOGLOG: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected";

fn elements_are_counted_once() {
    Running::start().client().check(&[
        ("PFADD h a b c d e f g", ":1"),
        ("PFADD h a b c", ":0"),
        ("PFCOUNT h", ":7"),
        ("PFADD empty", ":1"),
        ("PFADD empty", ":0"),
        ("PFCOUNT empty", ":0"),
        ("PFCOUNT none", ":0"),
        ("PFSELFTEST", "+OK"),
    ]);
}

fn several_are_counted_and_merged() {
    Running::start().client().check(&[
        ("PFADD a foo bar zap a", ":1"),
        ("PFADD b a b c foo", ":1"),
        ("PFCOUNT a b", ":6"),
        ("PFCOUNT a none b", ":6"),
        ("PFMERGE c a b", "+OK"),
        ("PFCOUNT c", ":6"),
        ("EXPIREAT a 33177117420", ":1"),
        ("PFMERGE a c", "+OK"),
        ("PFCOUNT a", ":6"),
        ("EXPIRETIME a", ":33177117420"),
        ("PFMERGE none", "+OK"),
        ("PFDEBUG DECODE none", "\"Z:16384\""),
    ]);
}

fn the_form_is_that_of_redis() {
    Running::start().client().check(&[
        ("PFADD h a b c", ":1"),
        // As Redis 7 answers.
        ("GET h", "\"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80`\\xf3\\x80P\\xb1\\x84K\\xfb\\x80BZ\""),
        ("OBJECT ENCODING h", "\"raw\""),
        ("PFDEBUG SIMD OFF", "+OK"),
        ("PFDEBUG ENCODING h", "+sparse"),
        ("PFDEBUG DECODE h", "\"Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603\""),
    ]);
}

fn the_estimate_is_kept_until_elements_are_added() {
    Running::start().client().check(&[
        ("PFADD h a b c", ":1"),
        ("GETRANGE h 15 15", "\"\\x80\""),
        ("PFCOUNT h", ":3"),
        ("GETRANGE h 8 15", "\"\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00\""),
        ("PFADD h a b c", ":0"),
        ("GETRANGE h 15 15", "\"\\x00\""),
        ("PFADD h 1 2 3", ":1"),
        ("GETRANGE h 15 15", "\"\\x80\""),
        ("MULTI", "+OK"),
        ("PFADD h 4", "+QUEUED"),
        ("PFCOUNT h", "+QUEUED"),
        ("EXEC", "[:1, :7]"),
        ("GETRANGE h 15 15", "\"\\x00\""),
    ]);
}

fn sparse_ones_become_dense() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("CONFIG GET hll-sparse-max-bytes", "[\"hll-sparse-max-bytes\", \"3000\"]"),
        ("PFADD h a", ":1"),
        ("PFDEBUG ENCODING h", "+sparse"),
        ("PFDEBUG TODENSE h", ":1"),
        ("PFDEBUG TODENSE h", ":0"),
        ("PFDEBUG ENCODING h", "+dense"),
        ("STRLEN h", ":12304"),
        ("PFCOUNT h", ":1"),
        ("PFDEBUG DECODE h", "-ERR HLL encoding is not sparse"),
        ("PFADD s b", ":1"),
        ("PFMERGE s h", "+OK"),
        ("PFDEBUG ENCODING s", "+dense"),
        ("CONFIG SET hll-sparse-max-bytes 20", "+OK"),
        ("PFADD t a b c d", ":1"),
        ("PFDEBUG ENCODING t", "+dense"),
        ("PFDEBUG NOSUCH t", "-ERR Unknown PFDEBUG subcommand 'NOSUCH'"),
        ("PFDEBUG ENCODING none", "-ERR The specified key does not exist"),
        ("CONFIG SET hll-sparse-max-bytes 3000", "+OK"),
    ]);
    for first in (0..20_000).step_by(100) {
        let words = ["PFADD".to_owned(), "large".to_owned()].into_iter();
        let words = words.chain((first..first + 100).map(|number| format!("element:{number}")));
        client.call(&words.collect::<Vec<_>>());
    }
    let count = client.integer("PFCOUNT large");
    assert!((19_000..21_000).contains(&count), "{count}");
    assert_eq!(client.ask("PFDEBUG GETREG large").matches(':').count(), 16384);
}

fn other_strings_and_damaged_ones_are_refused() {
    Running::start().client().check(&[
        ("SET k abc", "+OK"),
        ("PFADD k a", NO_HYPERLOGLOG),
        ("PFCOUNT k", NO_HYPERLOGLOG),
        ("PFCOUNT none k", NO_HYPERLOGLOG),
        ("PFMERGE d k", NO_HYPERLOGLOG),
        ("PFDEBUG ENCODING k", NO_HYPERLOGLOG),
        ("PFADD h a b c", ":1"),
        ("APPEND h hello", ":32"),
        ("PFCOUNT h", CORRUPTED),
        ("PFCOUNT h h", CORRUPTED),
        ("PFMERGE d h", CORRUPTED),
        ("PFDEBUG GETREG h", CORRUPTED),
        ("EXISTS d", ":0"),
        ("PFADD h2 a b c", ":1"),
        ("SETRANGE h2 0 0123", ":27"),
        ("PFCOUNT h2", NO_HYPERLOGLOG),
        ("PFADD h3 a b c", ":1"),
        ("SETRANGE h3 4 x", ":27"),
        ("PFCOUNT h3", NO_HYPERLOGLOG),
        ("PFADD h4 a", ":1"),
        ("PFDEBUG TODENSE h4", ":1"),
        ("APPEND h4 x", ":12305"),
        ("PFCOUNT h4", NO_HYPERLOGLOG),
    ]);
}

fn they_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut server = Running::on(common::open(&path), |_| {});
    server.client().check(&[("PFADD h a b c", ":1"), ("SETBIT bits 9 1", ":0")]);
    server.stop().unwrap();
    drop(server);
    let server = Running::on(common::open(&path), |_| {});
    server.client().check(&[("PFCOUNT h", ":3"), ("GETBIT bits 9", ":1")]);
}
