//! The databases of a server as they should be: Redis' commands on plain maps, as far as the tests' commands have them.

use std::collections::{BTreeMap, BTreeSet};

/// The words of a command.
pub(crate) type Words = Vec<String>;

/// The databases that histories change.
pub(crate) const DATABASES: usize = 2;

/// A collection, or a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    String(String),
    /// Fields with their values, and when they expire.
    Hash(BTreeMap<String, (String, Option<u64>)>),
    List(Vec<String>),
    Set(BTreeSet<String>),
    Sorted(BTreeMap<String, i64>),
    Stream(Stream),
}

/// A stream, by the first parts of its ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) entries: BTreeMap<u64, String>,
    pub(crate) last: u64,
    pub(crate) groups: BTreeMap<String, Group>,
}

/// A group of consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) last: u64,
    /// By id: the consumer.
    pub(crate) pending: BTreeMap<u64, String>,
}

/// A value and when its key expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) value: Value,
    pub(crate) deadline: Option<u64>,
}

impl Value {
    /// Its name for TYPE.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Sorted(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }

    /// An empty one of a type.
    pub(crate) fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "string" => Self::String(String::new()),
            "hash" => Self::Hash(BTreeMap::new()),
            "list" => Self::List(Vec::new()),
            "set" => Self::Set(BTreeSet::new()),
            "zset" => Self::Sorted(BTreeMap::new()),
            "stream" => Self::Stream(Stream::default()),
            _ => return None,
        })
    }

    fn is_gone(&self) -> bool {
        match self {
            Self::String(_) | Self::Stream(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Set(members) => members.is_empty(),
            Self::Sorted(members) => members.is_empty(),
        }
    }

    /// Members with scores, as ZUNIONSTORE reads them.
    fn scores(&self) -> Option<BTreeMap<String, i64>> {
        match self {
            Self::Set(members) => Some(members.iter().map(|member| (member.clone(), 1)).collect()),
            Self::Sorted(members) => Some(members.clone()),
            _ => None,
        }
    }
}

/// All databases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) databases: [BTreeMap<String, Kept>; DATABASES],
    pub(crate) libraries: BTreeSet<String>,
    pub(crate) now: u64,
}

/// A command was refused, and has changed nothing.
#[derive(Debug)]
pub(crate) struct Refused;

type Outcome = Result<(), Refused>;

/// The value of a key by its type, made if there is none.
macro_rules! of_type {
    ($database:expr, $key:expr, $kind:ident) => {{
        let made = || Kept { value: Value::$kind(Default::default()), deadline: None };
        match &mut $database.entry($key.clone()).or_insert_with(made).value {
            Value::$kind(value) => value,
            _ => return Err(Refused),
        }
    }};
}

/// The value of a key by its type, if there is one; without, the command has nothing to do.
macro_rules! found {
    ($database:expr, $key:expr, $kind:ident) => {
        match $database.get_mut(&$key[..]).map(|kept| &mut kept.value) {
            Some(Value::$kind(value)) => value,
            Some(_) => return Err(Refused),
            None => return Ok(()),
        }
    };
}

impl Model {
    /// Lets time go on, and what is due expire.
    pub(crate) fn wait_until(&mut self, now: u64) {
        self.now = now;
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        for database in &mut self.databases {
            database.retain(|_, kept| {
                if let Value::Hash(fields) = &mut kept.value {
                    fields.retain(|_, (_, at)| !is_due(*at));
                }
                !is_due(kept.deadline) && !kept.value.is_gone()
            });
        }
    }

    /// Executes commands that happen together, or not at all if one is refused.
    pub(crate) fn run_all(&mut self, db: usize, commands: &[Words]) -> Outcome {
        let mut after = self.clone();
        for words in commands {
            after.run(db, words)?;
        }
        *self = after;
        Ok(())
    }

    /// Executes a command.
    pub(crate) fn run(&mut self, db: usize, words: &[String]) -> Outcome {
        let before = self.clone();
        let done = self.change(db, words);
        if done.is_err() {
            *self = before;
        } else {
            self.wait_until(self.now);
        }
        done
    }

    fn change(&mut self, db: usize, words: &[String]) -> Outcome {
        let (now, args) = (self.now, &words[1..]);
        let database = &mut self.databases[db];
        match &words[0][..] {
            "SET" => {
                let kept = Kept { value: Value::String(args[1].clone()), deadline: None };
                database.insert(args[0].clone(), kept);
            }
            "DEL" => args.iter().for_each(|key| drop(database.remove(key))),
            "HSET" => {
                let fields = of_type!(database, args[0], Hash);
                for pair in args[1..].chunks(2) {
                    fields.insert(pair[0].clone(), (pair[1].clone(), None));
                }
            }
            "HDEL" => {
                let fields = found!(database, args[0], Hash);
                args[1..].iter().for_each(|field| drop(fields.remove(field)));
            }
            "HPEXPIREAT" => {
                let fields = found!(database, args[0], Hash);
                let at = number(&args[1]);
                for field in &args[4..] {
                    if at <= now {
                        fields.remove(field);
                    } else if let Some((_, deadline)) = fields.get_mut(field) {
                        *deadline = Some(at);
                    }
                }
            }
            "RPUSH" => of_type!(database, args[0], List).extend_from_slice(&args[1..]),
            "LPUSH" => {
                let list = of_type!(database, args[0], List);
                args[1..].iter().for_each(|value| list.insert(0, value.clone()));
            }
            "LPOP" => {
                let list = found!(database, args[0], List);
                list.drain(..list.len().min(number(&args[1]) as usize));
            }
            "BLPOP" => drop(found!(database, args[0], List).remove(0)),
            "RPOP" => {
                let list = found!(database, args[0], List);
                list.truncate(list.len().saturating_sub(number(&args[1]) as usize));
            }
            "LREM" => {
                let list = found!(database, args[0], List);
                list.retain(|value| *value != args[2]);
            }
            "LSET" => {
                let Some(kept) = database.get_mut(&args[0]) else { return Err(Refused) };
                let Value::List(list) = &mut kept.value else { return Err(Refused) };
                let place = list.get_mut(number(&args[1]) as usize).ok_or(Refused)?;
                place.clone_from(&args[2]);
            }
            "LTRIM" => {
                let list = found!(database, args[0], List);
                let behind: usize = args[2][1..].parse().expect("a place from the end");
                list.truncate((list.len() + 1).saturating_sub(behind));
                list.drain(..list.len().min(number(&args[1]) as usize));
            }
            "LMOVE" => {
                let value = found!(database, args[0], List)[0].clone();
                of_type!(database, args[1], List);
                found!(database, args[0], List).remove(0);
                of_type!(database, args[1], List).push(value);
            }
            "SADD" => of_type!(database, args[0], Set).extend(args[1..].iter().cloned()),
            "SREM" => {
                let members = found!(database, args[0], Set);
                args[1..].iter().for_each(|member| {
                    members.remove(member);
                });
            }
            "SMOVE" => {
                let is_there = found!(database, args[0], Set).contains(&args[2]);
                of_type!(database, args[1], Set);
                if is_there {
                    found!(database, args[0], Set).remove(&args[2]);
                    of_type!(database, args[1], Set).insert(args[2].clone());
                }
            }
            "SUNIONSTORE" => {
                let mut union = BTreeSet::new();
                for key in &args[1..] {
                    match database.get(key).map(|kept| &kept.value) {
                        Some(Value::Set(members)) => union.extend(members.iter().cloned()),
                        Some(_) => return Err(Refused),
                        None => {}
                    }
                }
                let kept = Kept { value: Value::Set(union), deadline: None };
                database.insert(args[0].clone(), kept);
            }
            "ZADD" => {
                let members = of_type!(database, args[0], Sorted);
                for pair in args[1..].chunks(2) {
                    members.insert(pair[1].clone(), pair[0].parse().expect("a score"));
                }
            }
            "ZINCRBY" => {
                let members = of_type!(database, args[0], Sorted);
                let by: i64 = args[1].parse().expect("a score");
                *members.entry(args[2].clone()).or_default() += by;
            }
            "ZREM" => {
                let members = found!(database, args[0], Sorted);
                args[1..].iter().for_each(|member| {
                    members.remove(member);
                });
            }
            "ZPOPMIN" => {
                let members = found!(database, args[0], Sorted);
                let mut order: Vec<_> =
                    members.iter().map(|(member, score)| (*score, member.clone())).collect();
                order.sort();
                for (_, member) in order.iter().take(number(&args[1]) as usize) {
                    members.remove(member);
                }
            }
            "ZUNIONSTORE" => {
                let mut union: BTreeMap<String, i64> = BTreeMap::new();
                for key in &args[2..] {
                    let Some(kept) = database.get(key) else { continue };
                    for (member, score) in kept.value.scores().ok_or(Refused)? {
                        *union.entry(member).or_default() += score;
                    }
                }
                let kept = Kept { value: Value::Sorted(union), deadline: None };
                database.insert(args[0].clone(), kept);
            }
            "XADD" => {
                let stream = of_type!(database, args[0], Stream);
                let id = id(&args[1]);
                if id <= stream.last {
                    return Err(Refused);
                }
                stream.last = id;
                stream.entries.insert(id, args[3].clone());
            }
            "XTRIM" => {
                let stream = found!(database, args[0], Stream);
                while stream.entries.len() > number(&args[2]) as usize {
                    stream.entries.pop_first();
                }
            }
            "XDEL" => {
                let stream = found!(database, args[0], Stream);
                args[1..].iter().for_each(|at| drop(stream.entries.remove(&id(at))));
            }
            "XGROUP" => {
                let stream = of_type!(database, args[1], Stream);
                if stream.groups.contains_key(&args[2]) {
                    return Err(Refused);
                }
                stream.groups.insert(args[2].clone(), Group::default());
            }
            "XREADGROUP" => {
                let Some(kept) = database.get_mut(&args[6]) else { return Err(Refused) };
                let Value::Stream(stream) = &mut kept.value else { return Err(Refused) };
                let group = stream.groups.get_mut(&args[1]).ok_or(Refused)?;
                let count = number(&args[4]) as usize;
                for (&id, _) in stream.entries.range(group.last + 1..).take(count) {
                    group.last = id;
                    group.pending.insert(id, args[2].clone());
                }
            }
            "XACK" => {
                let stream = found!(database, args[0], Stream);
                if let Some(group) = stream.groups.get_mut(&args[1]) {
                    args[2..].iter().for_each(|at| drop(group.pending.remove(&id(at))));
                }
            }
            "RENAME" => {
                let kept = database.remove(&args[0]).ok_or(Refused)?;
                database.insert(args[1].clone(), kept);
            }
            "COPY" => {
                let to = number(&args[3]) as usize;
                if (to, &args[1]) == (db, &args[0]) {
                    return Err(Refused);
                }
                let Some(kept) = database.get(&args[0]).cloned() else { return Ok(()) };
                self.databases[to].insert(args[1].clone(), kept);
            }
            "MOVE" => {
                let to = number(&args[1]) as usize;
                if !self.databases[to].contains_key(&args[0])
                    && let Some(kept) = self.databases[db].remove(&args[0])
                {
                    self.databases[to].insert(args[0].clone(), kept);
                }
            }
            "PEXPIREAT" => {
                let at = number(&args[1]);
                match database.get_mut(&args[0]) {
                    Some(_) if at <= now => drop(database.remove(&args[0])),
                    Some(kept) => kept.deadline = Some(at),
                    None => {}
                }
            }
            "FLUSHDB" => database.clear(),
            "SWAPDB" => self.databases.swap(0, 1),
            "FUNCTION" if args[0] == "LOAD" => drop(self.libraries.insert(library(&args[2]))),
            "FUNCTION" => match self.libraries.remove(&args[1]) {
                true => {}
                false => return Err(Refused),
            },
            other => panic!("the model does not know {other}"),
        }
        Ok(())
    }
}

/// A number of a word, or of a name.
pub(crate) fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

/// The first part of an entry's id.
fn id(word: &str) -> u64 {
    number(word.split('-').next().unwrap_or_default())
}

/// The name of a library, by its text.
fn library(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.rsplit('=').next().unwrap_or_default().to_owned()
}
