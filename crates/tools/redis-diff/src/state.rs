//! All that a server stores: each key with its type, its value and the time at which it ends.
//!
//! Left out is what a server may do as it likes: the order of the members of sets and of the fields of hashes, the
//! digits of scores, the nodes of streams, the times at which consumers were seen, and consumers without pending
//! entries, which Redis 7.0 makes later than 7.2. Times may differ as the servers executed a request one after the other.

use std::collections::BTreeMap;
use std::io;

use crate::compare::items;
use crate::wire::{Request, Wire, shown_reply};

/// Databases that are looked at: all that both servers have.
const DATABASES: usize = 16;

/// How many milliseconds times may differ: a request that was under way when Halite was killed is executed by Redis behind
/// the restart.
const LATER: u64 = 60_000;

/// Fields of XINFO that are the server's own matter.
const OWN: [&[u8]; 4] = [b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time"];

/// Fields of groups that Redis 7.0 counts in another way: entries that were trimmed, and more than there ever were.
const COUNTS: [&[u8]; 2] = [b"entries-read", b"lag"];

/// All that a server stores, by database and key.
pub(crate) struct State(BTreeMap<(usize, Vec<u8>), Value>);

/// What is stored at a key.
#[derive(Debug, Default)]
struct Value {
    kind: Vec<u8>,
    /// Its elements, as bytes that are the same if it is the same.
    bytes: Vec<u8>,
    /// What one server has to keep, and another may count in another way.
    counts: Vec<u8>,
    /// The time at which it ends, and times of deliveries of a stream.
    times: Vec<i64>,
}

impl Value {
    fn is_same(&self, other: &Self) -> bool {
        let are_times = |(ours, theirs): (&i64, &i64)| {
            ours == theirs || *ours >= 0 && *theirs >= 0 && ours.abs_diff(*theirs) <= LATER
        };
        let mut times = self.times.iter().zip(&other.times);
        (&self.kind, &self.bytes, self.times.len())
            == (&other.kind, &other.bytes, other.times.len())
            && times.all(are_times)
    }
}

impl State {
    /// Asks a server for everything. The connection speaks RESP2, and changes its database.
    pub(crate) fn read(wire: &mut Wire) -> io::Result<Self> {
        let mut state = BTreeMap::new();
        let select = |database: usize| words(&[b"SELECT", database.to_string().as_bytes()]);
        let asked = (0..DATABASES).flat_map(|database| [select(database), words(&[b"KEYS", b"*"])]);
        let replies = wire.call_all(&asked.collect::<Vec<_>>())?;
        for (database, keys) in replies.iter().skip(1).step_by(2).enumerate() {
            let keys: Vec<_> = items(keys).unwrap_or_default().into_iter().map(text).collect();
            if keys.is_empty() {
                continue;
            }
            let mut asked = vec![select(database)];
            for key in &keys {
                asked.push(words(&[b"TYPE", key]));
                asked.push(words(&[b"PEXPIRETIME", key]));
            }
            let replies = wire.call_all(&asked)?;
            let kinds: Vec<_> =
                replies[1..].chunks(2).map(|pair| (text(&pair[0]), number(&pair[1]))).collect();
            let asked: Vec<_> =
                keys.iter().zip(&kinds).map(|(key, (kind, _))| reads(kind, key)).collect();
            let values = wire.call_all(&asked)?;
            for ((key, (kind, ends)), value) in keys.into_iter().zip(kinds).zip(values) {
                let mut stored =
                    Value { times: vec![ends], kind: kind.to_vec(), ..Value::default() };
                stored.add(kind, &value);
                state.insert((database, key.to_vec()), stored);
            }
        }
        Ok(Self(state))
    }

    /// Whether this is the state that the same server has had before.
    pub(crate) fn is_still(&self, before: &Self) -> bool {
        let counts = |state: &Self| -> Vec<_> {
            state.0.values().map(|value| value.counts.clone()).collect()
        };
        self.differences(before).is_empty() && counts(self) == counts(before)
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The keys whose values differ, with what is said about them.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut keys: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let differs = |key: &&&(usize, Vec<u8>)| match (self.0.get(*key), other.0.get(*key)) {
            (Some(ours), Some(theirs)) => !ours.is_same(theirs),
            _ => true,
        };
        let said = |key: &&(usize, Vec<u8>)| Difference {
            database: key.0,
            key: key.1.clone(),
            values: [self, other].map(|state| state.0.get(*key).map(ToString::to_string)),
        };
        keys.iter().filter(differs).map(said).collect()
    }
}

/// A key whose values differ.
pub(crate) struct Difference {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    /// What the servers have there.
    pub(crate) values: [Option<String>; 2],
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = match self.bytes.len() {
            0..=2000 => self.bytes.escape_ascii().to_string(),
            len => format!("{} ({len} bytes)", shown_reply(&self.bytes, 1000)),
        };
        write!(f, "{} {bytes} times {:?}", self.kind.escape_ascii(), self.times)
    }
}

fn words(words: &[&[u8]]) -> Request {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The request that reads a value of a type.
fn reads(kind: &[u8], key: &[u8]) -> Request {
    match kind {
        b"string" => words(&[b"GET", key]),
        b"list" => words(&[b"LRANGE", key, b"0", b"-1"]),
        b"hash" => words(&[b"HGETALL", key]),
        b"set" => words(&[b"SMEMBERS", key]),
        b"zset" => words(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        b"stream" => words(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]),
        _ => words(&[b"EXISTS", key]),
    }
}

/// The text of an item that is a text of either kind.
fn text(item: &[u8]) -> &[u8] {
    let line = item.iter().position(|byte| *byte == b'\n').map_or(item.len(), |at| at + 1);
    let text = if item.first() == Some(&b'$') { &item[line..] } else { &item[1.min(item.len())..] };
    text.strip_suffix(b"\r\n").unwrap_or(text)
}

fn number(item: &[u8]) -> i64 {
    std::str::from_utf8(text(item)).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN)
}

impl Value {
    /// Adds what the reply says of a value of a type.
    fn add(&mut self, kind: &[u8], reply: &[u8]) {
        let elements = items(reply).unwrap_or_default();
        match kind {
            b"set" => self.add_sorted(elements.iter().map(|item| item.to_vec())),
            b"hash" => self.add_sorted(elements.chunks(2).map(<[_]>::concat)),
            b"zset" => {
                for pair in elements.chunks(2) {
                    let score = std::str::from_utf8(text(pair[pair.len() - 1]));
                    // A zero keeps its sign where a sorted set is not packed, and Redis packs none that was large once.
                    let score = score
                        .ok()
                        .and_then(|score| score.parse::<f64>().ok())
                        .map(|score| score + 0.0);
                    self.bytes.extend_from_slice(pair[0]);
                    self.bytes.extend_from_slice(format!("{score:?}\r\n").as_bytes());
                }
            }
            b"stream" if !elements.is_empty() => self.add_stream(&elements),
            _ => self.bytes.extend_from_slice(reply),
        }
    }

    fn add_sorted(&mut self, elements: impl Iterator<Item = Vec<u8>>) {
        let mut elements: Vec<_> = elements.collect();
        elements.sort_unstable();
        self.bytes.extend_from_slice(&elements.concat());
    }

    /// Adds the fields of XINFO.
    fn add_stream(&mut self, fields: &[&[u8]]) {
        for field in fields.chunks(2) {
            let (name, value) = (text(field[0]), field[field.len() - 1]);
            if name == b"groups" {
                let groups = items(value).unwrap_or_default();
                groups.iter().for_each(|group| self.add_group(group));
            } else if !OWN.contains(&name) {
                self.bytes.extend_from_slice(&field.concat());
            }
        }
    }

    fn add_group(&mut self, group: &[u8]) {
        for field in items(group).unwrap_or_default().chunks(2) {
            let value = field[field.len() - 1];
            match text(field[0]) {
                b"pending" | b"pel" => self.add_pending(value, 2),
                b"consumers" => {
                    let mut consumers: Vec<_> = items(value).unwrap_or_default();
                    consumers.sort_unstable();
                    consumers.iter().for_each(|consumer| self.add_consumer(consumer));
                }
                name if COUNTS.contains(&name) => self.counts.extend_from_slice(&field.concat()),
                _ => self.bytes.extend_from_slice(&field.concat()),
            }
        }
    }

    fn add_consumer(&mut self, consumer: &[u8]) {
        let fields = items(consumer).unwrap_or_default();
        let pending = fields.chunks(2).find(|field| matches!(text(field[0]), b"pending" | b"pel"));
        if pending.is_none_or(|field| items(field[field.len() - 1]).unwrap_or_default().is_empty())
        {
            return;
        }
        for field in fields.chunks(2) {
            match text(field[0]) {
                b"pending" | b"pel" => self.add_pending(field[field.len() - 1], 1),
                name if OWN.contains(&name) => {}
                _ => self.bytes.extend_from_slice(&field.concat()),
            }
        }
    }

    /// Adds pending entries, of which an item is the time of the delivery.
    fn add_pending(&mut self, entries: &[u8], time: usize) {
        for entry in items(entries).unwrap_or_default() {
            for (at, item) in items(entry).unwrap_or_default().iter().enumerate() {
                if at == time {
                    self.times.push(number(item));
                } else {
                    self.bytes.extend_from_slice(item);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: &[u8], reply: &[u8]) -> Value {
        let mut value = Value::default();
        value.add(kind, reply);
        value
    }

    #[test]
    fn values_are_the_same_in_any_order_of_their_members() {
        let (ab, ba) = (b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n");
        assert!(value(b"set", ab).is_same(&value(b"set", ba)));
        assert!(!value(b"hash", ab).is_same(&value(b"hash", ba)));
        assert!(!value(b"list", ab).is_same(&value(b"list", ba)));
    }

    #[test]
    fn scores_are_compared_as_numbers() {
        let reply =
            |score: &str| format!("*2\r\n$1\r\na\r\n${}\r\n{score}\r\n", score.len()).into_bytes();
        let score = |text| value(b"zset", &reply(text));
        assert!(score("0.1").is_same(&score("0.10000000000000001")));
        assert!(!score("0.1").is_same(&score("0.11")));
        assert!(score("-0").is_same(&score("0")));
        assert!(score("inf").is_same(&score("inf")) && !score("inf").is_same(&score("-inf")));
    }

    #[test]
    fn times_may_differ_a_bit_but_not_whether_there_is_one() {
        let ends = |at| Value { times: vec![at], ..Value::default() };
        assert!(ends(1_000_000).is_same(&ends(1_000_900)));
        assert!(!ends(1_000_000).is_same(&ends(9_000_000)));
        assert!(!ends(10).is_same(&ends(-1)));
    }

    #[test]
    fn a_state_tells_which_keys_differ() {
        let state = |keys: &[(&str, &str)]| {
            let entry = |(key, bytes): &(&str, &str)| {
                let bytes = bytes.as_bytes().to_vec();
                ((0, key.as_bytes().to_vec()), Value { bytes, ..Value::default() })
            };
            State(keys.iter().map(entry).collect())
        };
        let (ours, theirs) =
            (state(&[("a", "1"), ("b", "2")]), state(&[("a", "1"), ("b", "3"), ("c", "4")]));
        let keys: Vec<_> = ours.differences(&theirs).into_iter().map(|found| found.key).collect();
        assert_eq!(keys, [b"b".to_vec(), b"c".to_vec()]);
        assert!(ours.differences(&ours).is_empty());
    }
}
