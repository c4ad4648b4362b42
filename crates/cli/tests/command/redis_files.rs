//! `load` of Redis' files, and `dump --rdb`.

use std::fs;
use std::path::PathBuf;

use halite_rdb::{Event, HashField, Key, Reader, Value, Version, Writer};

use crate::run::Home;

/// A file of a real server.
fn file(name: &str) -> String {
    let files = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/rdb/tests/files");
    files.join(name).display().to_string()
}

/// Commands as an append-only file has them.
fn log(commands: &[&str]) -> Vec<u8> {
    let mut log = Vec::new();
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        log.extend(format!("*{}\r\n", words.len()).bytes());
        words.iter().for_each(|word| log.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    }
    log
}

/// Messages of a command that succeeds.
fn said(home: &Home, args: &[&str]) -> String {
    let ended = home.run(args);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended.err
}

/// A record of the year 2100, or of 1970.
const LATER: &str = "\\0\\0\\x03\\xbb,\\xc3\\xd8\\0";
const LATER_MS: &str = "4102444800000";
const OVER: &str = "\\0\\0\\0\\0\\0\\0\\0\\x05";

#[test]
fn an_rdb_file_brings_databases_and_times_to_live_back() {
    let home = Home::in_memory();
    let text = format!(
        "a\t1\nb\tfor a while\nbinary\t\\0\\xff\nlong\t{}\n\\space\tdb0:expires\nb\t{LATER}\n\\space\tdb12\nc\t\n",
        "abc".repeat(100)
    );
    home.run_with(&["load", "data", "-"], text.as_bytes()).ok();
    let said = said(&home, &["dump", "data", "dump.rdb"]);
    assert_eq!(said, "halite: dump.rdb: 5 records written\n");
    assert!(fs::read(home.path("dump.rdb")).unwrap().starts_with(b"REDIS0010"));
    let piped = home.ok(&["dump", "data", "--rdb"]);
    assert_eq!(piped, fs::read(home.path("dump.rdb")).unwrap());
    let report = home.text(&["load", "copy", "dump.rdb"]);
    assert!(report.starts_with("loaded 5 records, "), "{report}");
    assert_eq!(of_clients(&home.text(&["dump", "copy"])), text);
    home.run_with(&["load", "piped", "-", "--format", "rdb"], &piped).ok();
    assert_eq!(of_clients(&home.text(&["dump", "piped"])), text);
    let one = home.ok(&["dump", "data", "--rdb", "--space", "db12"]);
    home.run_with(&["load", "one", "-", "--format", "rdb"], &one).ok();
    assert_eq!(of_clients(&home.text(&["dump", "one"])), "\\space\tdb12\nc\t\n");
}

#[test]
fn what_has_no_place_in_an_rdb_file_is_named() {
    let home = Home::in_memory();
    home.ok(&["put", "data", "a", "1"]);
    home.ok(&["put", "data", "b", "2", "--space", "fruit"]);
    let said = said(&home, &["dump", "data", "--rdb", "dump.rdb"]);
    assert!(said.contains("the key space `fruit` is none of a database of Redis"), "{said}");
    let refused = home.run(&["dump", "data", "--rdb", "--space", "fruit"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("`fruit` is none, as `db0` is"), "{}", refused.err);
}

#[test]
fn a_file_of_redis_is_loaded_and_keys_that_have_expired_are_not() {
    let home = Home::in_memory();
    home.ok(&["load", "data", &file("frequency-7.0.rdb")]);
    assert_eq!(home.text(&["get", "data", "string"]), "abc".repeat(20));
    let text = format!("a\t1\nb\t2\n\\space\tdb0:expires\na\t{OVER}\nb\t{LATER}\n");
    home.run_with(&["load", "old", "-"], text.as_bytes()).ok();
    home.ok(&["dump", "old", "old.rdb"]);
    let report = home.text(&["load", "new", "old.rdb"]);
    assert!(report.ends_with("skipped 1 expired key\n"), "{report}");
    let expected = format!("b\t2\n\\space\tdb0:expires\nb\t{LATER}\n");
    assert_eq!(of_clients(&home.text(&["dump", "new"])), expected);
}

#[test]
fn wrong_rdb_files_are_refused_with_the_reason() {
    let home = Home::in_memory();
    home.file("text.rdb", "a\t1\n");
    home.file("end.rdb", b"REDIS0011\xfe\x00\x00\x01a");
    home.file("damaged.rdb", b"REDIS0011\xfe\x00\x00\x01a\x01b\xff12345678");
    for (name, code, why) in [
        (
            "text.rdb",
            1,
            "at byte 0, in the beginning of an RDB file: it does not begin with REDIS and a version",
        ),
        ("end.rdb", 1, "at byte 14, in a string of the key `a`: it ends too early"),
        ("damaged.rdb", 4, "at byte 17, in the checksum of an RDB file: the checksum is"),
    ] {
        let refused = home.run(&["load", "data", name]);
        assert_eq!(refused.code, Some(code), "{}", refused.err);
        assert!(refused.err.contains(&format!("{name}: {why}")), "{}", refused.err);
    }
    for (args, why) in [
        (["--space", "fruit"], "--space: a file of Redis says itself"),
        (["--key", "id"], "--key is for JSON lines, not for --format rdb"),
    ] {
        let all = [&["load", "data", "damaged.rdb", "--format", "rdb"][..], &args].concat();
        let refused = home.run(&all);
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains(why), "{}", refused.err);
    }
}

/// The keys of an RDB file, by their databases and names.
fn keys(bytes: &[u8]) -> Vec<(u32, Key)> {
    let mut reader = Reader::new(bytes, halite_rdb::Limits::default()).unwrap();
    let (mut database, mut keys) = (0, Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::SelectDb(number) => database = number,
            Event::Key(mut key) => {
                // Neither is kept.
                (key.idle_seconds, key.frequency) = (None, None);
                match &mut key.value {
                    Value::Set(members) => members.sort(),
                    Value::Hash(fields) => fields.sort_by(|a, b| a.name.cmp(&b.name)),
                    Value::Stream(stream) => {
                        let consumers =
                            stream.groups.iter_mut().flat_map(|group| &mut group.consumers);
                        // The form of Redis 7.0 does not have it.
                        consumers.for_each(|consumer| consumer.active_ms = None);
                    }
                    _ => {}
                }
                keys.push((database, *key));
            }
            _ => {}
        }
    }
    keys.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    keys
}

#[test]
fn values_of_all_types_go_through_a_database() {
    let home = Home::in_memory();
    for name in ["dump-7.0.rdb", "dump-8.1.rdb"] {
        let before = keys(&fs::read(file(name)).unwrap());
        let types: std::collections::BTreeSet<_> =
            before.iter().map(|(_, key)| key.value.type_name()).collect();
        assert!(types.len() >= 6, "{types:?}");
        home.ok(&["load", name, &file(name)]);
        let dumped = home.ok(&["dump", name, "--rdb"]);
        assert!(dumped.starts_with(b"REDIS0010"));
        let is_over = |key: &Key| key.expires_ms.is_some_and(|at| at < 2_000_000_000_000);
        let live: Vec<_> = before.iter().filter(|(_, key)| !is_over(key)).collect();
        let after = keys(&dumped);
        assert_eq!(after.iter().collect::<Vec<_>>(), live);
        // In the place of what is there.
        home.ok(&["load", name, &file(name)]);
        assert_eq!(keys(&home.ok(&["dump", name, "--rdb"])), after);
    }
}

#[test]
fn fields_that_expire_take_a_file_of_a_later_version() {
    let home = Home::in_memory();
    let field = |name: &[u8], expires_ms| HashField {
        name: name.to_vec(),
        value: b"1".to_vec(),
        expires_ms,
    };
    let fields = vec![field(b"a", Some(4_102_444_800_000)), field(b"b", None)];
    let mut writer = Writer::new(Vec::new(), Version::Redis74).unwrap();
    writer.select_db(20).unwrap();
    writer.key(&Key::new(b"k".to_vec(), Value::Hash(fields))).unwrap();
    let written = writer.finish().unwrap();
    home.file("some.rdb", &written);
    home.ok(&["load", "data", "some.rdb"]);
    let dumped = home.ok(&["dump", "data", "--rdb"]);
    assert!(dumped.starts_with(b"REDIS0012"));
    assert_eq!(keys(&dumped), keys(&written));
}

/// A dump without the records of the server itself.
fn of_clients(dump: &str) -> &str {
    dump.split("\\space\tserver:").next().unwrap()
}

#[test]
fn an_append_only_file_is_carried_out() {
    let home = Home::in_memory();
    for name in ["preamble-yes-6.2.aof", "preamble-no-6.2.aof"] {
        let report = home.text(&["load", name, &file(name)]);
        assert!(report.starts_with("loaded "), "{report}");
        assert_eq!(of_clients(&home.text(&["dump", name])), "a\t2\nb\t2\n");
    }
    let folder = home.path("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("some.manifest"), "file some.1.incr.aof seq 1 type i\n").unwrap();
    let commands = log(&["SELECT 2", "MULTI", "SET a 1", "APPEND a 2", "EXEC"]);
    fs::write(folder.join("some.1.incr.aof"), &commands).unwrap();
    for from in ["folder", "folder/some.manifest"] {
        let data = from.replace('/', "-") + "-data";
        home.ok(&["load", &data, from]);
        assert_eq!(of_clients(&home.text(&["dump", &data])), "\\space\tdb2\na\t12\n");
    }
}

#[test]
fn databases_that_were_swapped_are_those_of_the_file() {
    let home = Home::in_memory();
    home.file("some.aof", log(&["SET a 1", "SWAPDB 0 1"]));
    home.ok(&["load", "swapped", "some.aof"]);
    assert_eq!(home.text(&["dump", "swapped", "--space", "db0"]), "a\t1\n");
    home.ok(&["dump", "swapped", "dump.rdb"]);
    home.ok(&["load", "data", "dump.rdb"]);
    assert_eq!(of_clients(&home.text(&["dump", "data"])), "\\space\tdb1\na\t1\n");
    home.ok(&["put", "other", "b", "2"]);
    home.ok(&["dump", "other", "other.rdb"]);
    home.ok(&["load", "swapped", "other.rdb"]);
    assert_eq!(home.text(&["dump", "swapped", "--space", "db0"]), "a\t1\n");
    assert_eq!(home.text(&["dump", "swapped", "--space", "db1"]), "b\t2\n");
}

#[test]
fn a_deadline_that_is_over_can_have_been_put_off() {
    let home = Home::in_memory();
    let put_off = format!("PEXPIREAT a {LATER_MS}");
    let log = log(&["SET a 1 PXAT 5", &put_off, "SET b 2 PXAT 5", "PERSIST b", "SET c 3 PXAT 5"]);
    home.file("some.aof", log);
    home.ok(&["load", "data", "some.aof"]);
    let dump = home.text(&["dump", "data"]);
    assert_eq!(
        of_clients(&dump),
        format!("a\t1\nb\t2\nc\t3\n\\space\tdb0:expires\na\t{LATER}\nc\t{OVER}\n")
    );
}

#[test]
fn an_append_only_file_that_is_cut_off_is_loaded_up_to_there() {
    let home = Home::in_memory();
    let whole = log(&["SET a 1", "MULTI", "SET a 2", "EXEC"]);
    home.file("some.aof", &whole[..whole.len() - 3]);
    let said = said(&home, &["load", "data", "some.aof"]);
    let good = log(&["SET a 1"]).len();
    assert!(
        said.contains(&format!(
            "some.aof: the last command or transaction is not whole; loaded up to byte {good}"
        )),
        "{said}"
    );
    assert_eq!(home.text(&["get", "data", "a"]), "1");
}

#[test]
fn a_command_that_cannot_be_carried_out_is_named() {
    let home = Home::in_memory();
    for (command, why) in [
        ("SOMETHING b", "the command `SOMETHING` was refused: ERR unknown command"),
        ("EXPIRE a 10", "the command `EXPIRE` was refused: it gives a key a time from now on"),
    ] {
        home.file("some.aof", log(&["SET a 1", command, "SET c 1"]));
        let refused = home.run(&["load", "data", "some.aof"]);
        assert_eq!(refused.code, Some(1));
        let why = format!("some.aof: at byte {}, {why}", log(&["SET a 1"]).len());
        assert!(refused.err.contains(&why), "{}", refused.err);
        assert!(
            refused.err.ends_with("0 records and 1 command before it loaded and kept\n"),
            "{}",
            refused.err
        );
        assert_eq!(home.text(&["get", "data", "a"]), "1");
    }
}
