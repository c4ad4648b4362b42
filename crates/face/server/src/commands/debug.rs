//! DEBUG: commands that test suites of Redis use, which the configuration has to allow. Those that would harm the server
//! or its data are left out.
//!
//! Subcommands on keys are parts of the command in the table, so that they are executed where their keys are. All
//! others are found here.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::call::{Call, is};
use crate::collection::stream::layout::ENTRY;
use crate::failure::{Failure, NO_SUCH_KEY, Outcome};
use crate::glob;
use crate::number::parse_i64;
use crate::reply::{Protocol, Reply};
use crate::store::{NewDeadline, Order};
use crate::stored::{Stored, Type, collection_id, has_order, is_of_order};

use super::admin::ask_for_sync;
use super::object::encoding_of;

/// The longest time of DEBUG SLEEP.
const SLEEP_MAX: Duration = Duration::from_secs(3600);
/// How often the end of the server is looked for.
const NAP: Duration = Duration::from_millis(10);

/// Lets the thread sleep for some time, or until the server ends.
fn sleep(call: &Call<'_>, time: Duration) -> Outcome {
    if time > SLEEP_MAX {
        return Err(format!("ERR DEBUG SLEEP takes {} seconds at most", SLEEP_MAX.as_secs()).into());
    }
    let until = Instant::now() + time;
    while !call.service.store.ending.has_begun() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(NAP));
    }
    Ok(())
}

/// Executes a subcommand that is about no key.
pub(super) fn debug(call: &mut Call<'_>) -> Outcome {
    let (word, words) = (call.arg(1), call.args.len());
    match () {
        () if is(word, "HELP") && words == 2 => return help(call),
        () if is(word, "PROTOCOL") && words == 3 => return protocol(call),
        () if is(word, "SET-DISABLE-DENY-SCRIPTS") && words == 3 => {
            let may_debug = call.arg(2) == b"1";
            call.service.shared.scripts.may_debug.store(may_debug, Ordering::Relaxed);
        }
        () if is(word, "STRINGMATCH-LEN") && words == 4 => return stringmatch_len(call),
        () if is(word, "ERROR") && words == 3 => return Err(call.arg(2).to_vec().into()),
        () if is(word, "SLEEP") && words == 3 => {
            let seconds = std::str::from_utf8(call.arg(2)).ok().and_then(|text| text.parse().ok());
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            sleep(call, time.unwrap_or_default())?;
        }
        () if is(word, "SET-ACTIVE-EXPIRE") && words == 3 => {
            let actively = parse_i64(call.arg(2)).unwrap_or(0) != 0;
            call.service.change(|common| common.expires_actively = actively);
        }
        // All keys are read from the store at any time: to make them durable is all that is left to do.
        () if is(word, "RELOAD") => {
            let known = ["MERGE", "NOFLUSH", "NOSAVE"];
            if !call.args.from(2).iter().all(|word| known.iter().any(|name| is(word, name))) {
                let why = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
                return Err(why.into());
            }
            ask_for_sync(call)?;
        }
        () if is(word, "LOADAOF") && words == 2 => ask_for_sync(call)?,
        // They change how Redis stores values, saves or replicates, and nothing here.
        () if accepted(word, words) => {}
        () => return Err(unknown(word)),
    }
    call.reply().ok();
    Ok(())
}

/// Subcommands without an effect here, and their numbers of words.
const ACCEPTED: [(&str, usize); 5] = [
    ("CHANGE-REPL-ID", 2),
    ("DICT-RESIZING", 3),
    ("PAUSE-CRON", 3),
    ("QUICKLIST-PACKED-THRESHOLD", 3),
    ("REPLYBUFFER", 4),
];

fn accepted(word: &[u8], words: usize) -> bool {
    ACCEPTED.iter().any(|(name, count)| is(word, name) && words == *count)
}

fn unknown(word: &[u8]) -> Failure {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    Failure::quoting(before, word, "'. Try DEBUG HELP.")
}

/// The longest text of STRINGMATCH-LEN.
const TEXT_LEN_MAX: i64 = 1 << 20;

/// Replies whether a pattern matches a text of so many letters `a`.
fn stringmatch_len(call: &mut Call<'_>) -> Outcome {
    let len = call.integer(2)?;
    if !(0..=TEXT_LEN_MAX).contains(&len) {
        return Err("ERR value is out of range".into());
    }
    let text = vec![b'a'; len as usize];
    let matches = glob::matches(call.arg(3), &text, || call.check_ending().is_ok());
    call.check_ending()?;
    call.reply().flag(matches);
    Ok(())
}

/// An integer that is longer than 64 bits.
const LARGE: &str = "1234567999999999999999999999999999999";

/// Writes bytes of the protocol.
fn raw(reply: &mut Reply<'_>, text: &str) {
    reply.out.extend_from_slice(text.as_bytes());
}

/// Replies with a value of a type of the protocol.
fn protocol(call: &mut Call<'_>) -> Outcome {
    let word = call.arg(2);
    let is_third = call.client.protocol == Protocol::Resp3;
    let mut reply = call.reply();
    let flag = |reply: &mut Reply<'_>, flag: bool| match is_third {
        true => reply.out.extend_from_slice(if flag { b"#t\r\n" } else { b"#f\r\n" }),
        false => reply.flag(flag),
    };
    match () {
        () if is(word, "STRING") => reply.bulk(b"Hello World"),
        () if is(word, "INTEGER") => reply.integer(12345),
        () if is(word, "DOUBLE") => reply.decimal("3.141"),
        () if is(word, "NULL") => reply.null(),
        () if is(word, "ARRAY") => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(word, "SET") => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(word, "MAP") => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                flag(&mut reply, number == 1);
            }
        }
        () if is(word, "BIGNUM") && is_third => raw(&mut reply, &format!("({LARGE}\r\n")),
        () if is(word, "BIGNUM") => reply.bulk(LARGE.as_bytes()),
        () if is(word, "ATTRIB") => {
            if is_third {
                raw(&mut reply, "|1\r\n");
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        () if is(word, "PUSH") => {
            if !is_third {
                return Err("ERR RESP2 is not supported by this command".into());
            }
            raw(&mut reply, ">2\r\n");
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        () if is(word, "VERBATIM") => reply.verbatim("This is a verbatim\nstring"),
        () if is(word, "TRUE") => flag(&mut reply, true),
        () if is(word, "FALSE") => flag(&mut reply, false),
        () => {
            return Err("ERR Wrong protocol type name. Please use one of the following: \
                        string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|\
                        false"
                .into());
        }
    }
    Ok(())
}

/// Describes how a value is stored, in the words of Redis as far as they mean something here.
pub(super) fn object(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(2);
    let value = call.service.store.get(call.client.db, key)?.ok_or(NO_SUCH_KEY)?;
    let len = value.bytes().len();
    let encoding = encoding_of(call, key)?.unwrap_or("raw");
    let (store, db) = (&call.service.store, call.client.db);
    let idle_s = store.idle_ms(db, key) / 1000;
    // Redis keeps 24 bits of the second in which the key was last used.
    let used_s = (store.used_ms(db, key) / 1000) & 0xff_ffff;
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:{used_s} lru_seconds_idle:{idle_s}"
    );
    call.reply().simple(&text);
    Ok(())
}

/// The lengths of a key and its value.
pub(super) fn sdslen(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(2);
    let value = call.get(key)?.ok_or(NO_SUCH_KEY)?;
    if encoding_of(call, key)? == Some("int") {
        return Err("ERR Not an sds encoded string.".into());
    }
    let (key, value) = (key.len(), value.len());
    let text = format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, val_sds_avail:0, \
         val_zmalloc: {value}"
    );
    call.reply().simple(&text);
    Ok(())
}

/// Bytes of a digest, as many as one of SHA-1.
const DIGEST_LEN: usize = 20;

/// A digest of some values: the same for the same ones. It is not the one that Redis has.
type Digest = [u8; DIGEST_LEN];

fn digest_of(bytes: &[u8], seed: u64) -> Digest {
    let mut digest = [0; DIGEST_LEN];
    digest[..16].copy_from_slice(&xxh3_128_with_seed(bytes, seed).to_be_bytes());
    digest[16..].copy_from_slice(&xxh3_64_with_seed(bytes, !seed).to_be_bytes()[..4]);
    digest
}

/// The digest of a value: of a larger collection that of its elements, as their number is drawn at random. The order of a
/// sorted set follows from its members, and is not stored by every engine.
fn digest_of_value(
    call: &mut Call<'_>,
    (db, key): (usize, &[u8]),
    value: &Stored,
    seed: u64,
) -> Outcome<Digest> {
    let store = &call.service.store;
    let id = collection_id(value.bytes()).filter(|id| store.are_home(db, key, *id));
    let Some(id) = id else { return Ok(digest_of(value.bytes(), seed)) };
    let mut all = value.bytes()[..2].to_vec();
    let is_stream = value.value_type() == Ok(Type::Stream);
    let has_order = has_order(value.bytes()) == Some(true);
    for pair in store.scan(&store.elements(db, key, id), &[], Order::Ascending)? {
        call.check_ending()?;
        let (element, value) = pair?;
        // Groups of a stream have times.
        if is_stream && element.first() != Some(&ENTRY) {
            continue;
        }
        if has_order && is_of_order(&element) {
            break;
        }
        all.extend(digest_of(&element, seed));
        all.extend(digest_of(&value, seed));
    }
    Ok(digest_of(&all, seed))
}

fn shown(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digests of the values of some keys; zeros for a key that does not exist.
pub(super) fn digest_value(call: &mut Call<'_>) -> Outcome {
    let (keys, start) = (call.args.from(2), call.out.len());
    call.reply().array(keys.len());
    for key in keys {
        let value = call.service.store.get(call.client.db, key)?;
        let digest = match value {
            Some(value) => digest_of_value(call, (call.client.db, key), &value, 0)?,
            None => [0; DIGEST_LEN],
        };
        call.reply().simple(&shown(&digest));
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// Keys that are looked at together.
const PAGE: usize = 1000;

/// A digest of all keys, values and deadlines of all databases, in whatever order they lie.
pub(super) fn digest(call: &mut Call<'_>) -> Outcome {
    let mut all = [0; DIGEST_LEN];
    for db in 0..call.service.settings.databases {
        let mut after: Option<Box<[u8]>> = None;
        loop {
            let mut keys: Vec<Box<[u8]>> = Vec::new();
            call.service.store.walk(db, None, b"", after.as_deref(), |key| {
                keys.push(key.into());
                if keys.len() == PAGE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            call.check_ending()?;
            for key in &keys {
                let Some(value) = call.service.store.get(db, key)? else { continue };
                let deadline = call.service.store.deadline(db, key)?.unwrap_or(0);
                let mut record = digest_of(key, db as u64).to_vec();
                record.extend(digest_of_value(call, (db, key), &value, deadline)?);
                let one = digest_of(&record, 0);
                all.iter_mut().zip(one).for_each(|(all, one)| *all ^= one);
            }
            if keys.len() < PAGE {
                break;
            }
            after = keys.pop();
        }
    }
    call.reply().simple(&shown(&all));
    Ok(())
}

/// Sets many keys that do not exist yet.
pub(super) fn populate(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 5 {
        return Err(unknown(call.arg(1)));
    }
    let positive = |index| {
        let number = parse_i64(call.arg(index)).and_then(|number| usize::try_from(number).ok());
        number.ok_or("ERR value is out of range, must be positive")
    };
    let count = positive(2)?;
    let prefix = call.args.get(3).unwrap_or(b"key");
    let len = match call.args.len() {
        5 => Some(super::strings::check_len(call, Some(positive(4)?))?),
        _ => None,
    };
    let db = call.client.db;
    for number in 0..count {
        call.check_ending()?;
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if !call.contains(&key)? {
            let mut value = format!("value:{number}").into_bytes();
            value.resize(len.filter(|&len| len > 0).unwrap_or(value.len()), 0);
            call.service.store.put(db, &key, &value, NewDeadline::Clear)?;
        }
    }
    call.reply().ok();
    Ok(())
}

fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DIGEST",
        "    Returns a digest of all keys of all databases.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Returns a digest of each value.",
        "ERROR <text>",
        "    Is refused with this text.",
        "LOADAOF",
        "    Makes everything durable.",
        "OBJECT <key>",
        "    Describes how a value is stored.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Sets so many keys that do not exist.",
        "PROTOCOL <type>",
        "    Returns a value of a type of the protocol.",
        "RELOAD [<option> ...]",
        "    Makes everything durable.",
        "SDSLEN <key>",
        "    Tells the lengths of a key and its value.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Sets whether expired keys are removed before a command meets them.",
        "SLEEP <seconds>",
        "    Lets the thread of this connection sleep.",
        "STRINGMATCH-LEN <length> <pattern>",
        "    Tells whether a pattern matches a text of so many letters a.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
