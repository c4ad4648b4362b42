//! Random requests whose replies depend only on the requests before them.
//!
//! The fuzz target `threads` uses this file too.

/// A source of choices: numbers below a bound.
pub(crate) trait Choices {
    fn below(&mut self, bound: u64) -> u64;
}

const KEYS: u64 = 24;
/// The bytes of keys and values: every byte, and those that are special to a parser.
const BYTES: &[u8] = b"\r\n\0$*:+-%_ \"'\\\xff\x80abc019";

/// One of a few keys, which lie in all partitions; some are no text.
fn key(choices: &mut impl Choices) -> Vec<u8> {
    match choices.below(KEYS) {
        0 => Vec::new(),
        1 => b"\r\n\0\xff".to_vec(),
        2 => vec![b'k'; 1000],
        number => format!("key:{number}").into_bytes(),
    }
}

fn value(choices: &mut impl Choices) -> Vec<u8> {
    let len = match choices.below(40) {
        0 => 16 << 10,
        1 => 40_000,
        2 => 1 + choices.below(200_000) as usize,
        3..20 => return choices.below(1000).to_string().into_bytes(),
        _ => choices.below(30) as usize,
    };
    let first = choices.below(BYTES.len() as u64) as usize;
    (first..first + len).map(|at| BYTES[at % BYTES.len()]).collect()
}

fn number(choices: &mut impl Choices) -> Vec<u8> {
    let number = match choices.below(8) {
        0 => -1 - choices.below(20) as i64,
        // An id of a stream that is `*` depends on the time.
        1 => return Some(value(choices)).filter(|value| value != b"*").unwrap_or_default(),
        _ => choices.below(50) as i64,
    };
    number.to_string().into_bytes()
}

/// The words of a request. In a pattern `k` is a key, `v` a value, `n` a number, `n-*` the next id of it, and
/// other words are themselves.
fn words(choices: &mut impl Choices) -> Vec<Vec<u8>> {
    let pattern = PATTERNS[choices.below(PATTERNS.len() as u64) as usize];
    let mut words = Vec::new();
    for word in pattern.split(' ') {
        words.push(match word {
            "k" => key(choices),
            "v" => value(choices),
            "n" => number(choices),
            "n-*" => [&number(choices)[..], b"-*"].concat(),
            word => word.as_bytes().to_vec(),
        });
    }
    // Now and then a word is missing, or too much.
    match choices.below(60) {
        0 => drop(words.pop()),
        1 => words.push(value(choices)),
        _ => {}
    }
    words
}

const PATTERNS: &[&str] = &[
    "SET k v",
    "SET k v",
    "SET k v",
    "SET k n",
    "GET k",
    "GET k",
    "GET k",
    "get k",
    "SET k v NX",
    "SET k v XX GET",
    "SET k v KEEPTTL",
    "SETNX k v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k PERSIST",
    "APPEND k v",
    "STRLEN k",
    "GETRANGE k n n",
    "SUBSTR k n n",
    "SETRANGE k n v",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "DECRBY k n",
    "INCRBYFLOAT k n",
    "MGET k k k",
    "MSET k v k v",
    "MSET k v k",
    "MSETNX k v k v",
    "DEL k",
    "DEL k k k",
    "UNLINK k k",
    "EXISTS k k",
    "TOUCH k",
    "TYPE k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "COPY k k DB 1",
    "MOVE k 1",
    "EXPIREAT k 99999999999",
    "EXPIREAT k 1",
    "PEXPIREAT k 99999999999999 NX",
    "EXPIRETIME k",
    "PEXPIRETIME k",
    "PERSIST k",
    "OBJECT ENCODING k",
    "OBJECT REFCOUNT k",
    "OBJECT NO k",
    "MEMORY USAGE k",
    "LCS k k LEN",
    "HSET k v v",
    "HSET k v v v n",
    "HSETNX k v v",
    "HGET k v",
    "HMGET k v v",
    "HGETALL k",
    "HDEL k v v",
    "HLEN k",
    "HINCRBY k v n",
    "HSCAN k 0 COUNT n",
    "HEXPIREAT k 99999999999 FIELDS 1 v",
    "HEXPIREAT k 1 FIELDS 1 v",
    "HEXPIRETIME k FIELDS 2 v v",
    "HPERSIST k FIELDS 1 v",
    "HGETDEL k FIELDS 1 v",
    "HSETEX k EXAT 99999999999 FIELDS 1 v v",
    "SADD k v v n",
    "SADD k n n n",
    "SREM k v n",
    "SISMEMBER k n",
    "SMEMBERS k",
    "SCARD k",
    "SMOVE k k n",
    "SINTER k k",
    "SUNION k k k",
    "SDIFF k k",
    "SINTERSTORE k k k",
    "SUNIONSTORE k k k",
    "SDIFFSTORE k k k",
    "SINTERCARD 2 k k",
    "SPOP k 1000",
    "SORT k",
    "SORT k ALPHA LIMIT n n",
    "SORT k BY key:* GET # GET key:*",
    "SORT k BY key:*->v ALPHA GET key:*->n DESC",
    "SORT k ALPHA STORE k",
    "SETBIT k n 1",
    "SETBIT k n n",
    "GETBIT k n",
    "BITCOUNT k",
    "BITCOUNT k n n BIT",
    "BITPOS k 1 n",
    "BITOP AND k k k",
    "BITOP XOR k k k k",
    "BITOP NOT k k",
    "BITOP DIFF k k k",
    "BITOP ONE k k k k",
    "BITFIELD k SET u8 #1 n GET i5 n",
    "BITFIELD k OVERFLOW FAIL INCRBY i8 n n",
    "BITFIELD_RO k GET u63 n",
    "PFADD k v v n",
    "PFADD k v",
    "PFCOUNT k",
    "PFCOUNT k k k",
    "PFMERGE k k k",
    "PFDEBUG DECODE k",
    "PFDEBUG TODENSE k",
    "SET k v IFEQ v",
    "SET k v IFNE v GET",
    "DELEX k IFEQ n",
    "DELEX k",
    "DIGEST k",
    "MSETEX 2 k v k v NX",
    "MSETEX 2 k v k v EXAT 99999999999",
    "MSETEX n k v k v",
    "INCREX k BYINT n UBOUND 100",
    "INCREX k BYFLOAT n SATURATE",
    "DEBUG DIGEST-VALUE k k",
    "DEBUG DIGEST",
    "DEBUG SDSLEN k",
    "DEBUG POPULATE 3 k",
    "COMMAND GETKEYSANDFLAGS MSETEX 2 k v k v",
    "XADD k n-* v v",
    "XADD k n v v",
    "XADD k MAXLEN 3 n-* v v",
    "XLEN k",
    "XRANGE k - +",
    "XREVRANGE k + - COUNT n",
    "XDEL k n",
    "XTRIM k MAXLEN n",
    "XSETID k n",
    "XREAD COUNT n STREAMS k k 0 0",
    "XGROUP CREATE k g 0 MKSTREAM",
    "XGROUP DESTROY k g",
    "XREADGROUP GROUP g v COUNT 2 STREAMS k >",
    "XREADGROUP GROUP g c STREAMS k 0",
    "XACK k g n",
    "XCLAIM k g c 0 n FORCE JUSTID",
    "XAUTOCLAIM k g c 0 -",
    "XPENDING k g",
    "XINFO STREAM k",
    "XINFO GROUPS k",
    "DBSIZE",
    "KEYS *",
    "KEYS key:1*",
    "SELECT 0",
    "SELECT 1",
    "SELECT n",
    "SWAPDB 0 1",
    "FLUSHDB",
    "PING",
    "PING v",
    "ECHO v",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH k k",
    "UNWATCH",
    "PUBLISH k v",
    "PUBSUB NUMSUB k k",
    "UNSUBSCRIBE k",
    "CLIENT TRACKINGINFO",
    "CLIENT GETNAME",
    "CLIENT SETNAME n",
    "CLIENT REPLY SKIP",
    "HELLO 2",
    "HELLO 3",
    "RESET",
    "COMMAND COUNT",
    "v",
    "NOSUCH k v",
    "CONFIG NO k",
    "SCAN x",
    "SCAN 0 COUNT 0",
];

/// Requests one behind the other, as arrays or lines; at the end maybe bytes that are no request.
pub(crate) fn requests(choices: &mut impl Choices, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let words = words(choices);
        let is_plain = |word: &Vec<u8>| {
            !word.is_empty()
                && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b':')
        };
        if choices.below(10) == 0 && words.iter().all(is_plain) {
            bytes.extend(words.join(&b' '));
            bytes.extend(b"\r\n");
            continue;
        }
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
    }
    match choices.below(8) {
        0 => bytes.extend(b"*1\r\n!"),
        1 => bytes.extend(b"*2\r\n$3\r\nGET\r\n$5\r\nabc"),
        2 => bytes.extend(b"*1\r\n$-5\r\n"),
        3 => bytes.extend(b"QUIT\r\n"),
        _ => {}
    }
    bytes
}
