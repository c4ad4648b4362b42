//! Commands on collections, drawn at random.

use super::Chance;
use super::model::Words;

/// A step of a server.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Commands of a turn, each by itself: durable together.
    Run { db: usize, commands: Vec<Words> },
    /// Commands between MULTI and EXEC.
    Multi { db: usize, commands: Vec<Words> },
    /// A script of commands, which may fail in the end.
    Script { db: usize, commands: Vec<Words>, fails: bool },
    /// Time goes on by so many milliseconds, and what has expired is removed.
    Later(u64),
    /// A step in reclaiming dropped collections.
    Reclaim,
    /// The engine collects a little.
    Collect,
}

/// Elements of a collection that several steps reclaim, and several batches move.
const MANY: u64 = 300;

/// The latest deadline.
const LATEST: u64 = 30;

fn words(text: &str) -> Words {
    text.split(' ').map(str::to_owned).collect()
}

/// The draws of a history.
pub(crate) struct Draw<'a, R> {
    pub(crate) random: &'a mut R,
    /// Commands of one turn may be several: the partitions would become durable one after the other.
    pub(crate) pipelines: bool,
    /// Some collections are large enough for several steps of reclaiming.
    pub(crate) has_many: bool,
    /// Libraries of functions are added and removed.
    pub(crate) has_functions: bool,
    /// Deadlines are behind this time, in milliseconds since 1970.
    pub(crate) now: u64,
}

impl<R: Chance> Draw<'_, R> {
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.random.percent(percent)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A key, mostly of a type by its letter.
    pub(crate) fn key(&mut self, letter: char) -> String {
        let letter = match self.percent(4) {
            true => ['h', 'l', 's', 'z', 'x'][self.random.index(5)],
            false => letter,
        };
        format!("{letter}{}", self.below(2))
    }

    /// How many elements a command has: around the limits of packed collections.
    fn count(&mut self) -> u64 {
        match self.below(20) {
            0..11 => 1 + self.below(3),
            11..17 => 3 + self.below(6),
            17..19 => 10 + self.below(20),
            _ if self.has_many => MANY,
            _ => 5,
        }
    }

    /// The numbers of a command's elements.
    fn run(&mut self) -> std::ops::Range<u64> {
        let first = self.below(8);
        first..first + self.count()
    }

    fn value(&mut self) -> String {
        let value = format!("v{}", self.below(1000));
        if self.percent(6) { value.repeat(24) } else { value }
    }

    /// The members of a set: numbers, or texts.
    fn members(&mut self, key: &str) -> Words {
        let letter = if key.ends_with('0') && !self.percent(5) { "" } else { "m" };
        self.run().map(|number| format!("{letter}{number}")).collect()
    }

    fn hash(&mut self) -> Words {
        let key = self.key('h');
        match self.below(10) {
            0..5 => {
                let pairs = self.run().flat_map(|n| [format!("f{n}"), self.value()]);
                [words(&format!("HSET {key}")), pairs.collect()].concat()
            }
            5..7 => {
                let fields = self.run().map(|n| format!("f{n}"));
                [words(&format!("HDEL {key}")), fields.collect()].concat()
            }
            _ => {
                let fields: Words = self.run().map(|n| format!("f{n}")).collect();
                let at = self.now + 1 + self.below(LATEST);
                let head = format!("HPEXPIREAT {key} {at} FIELDS {}", fields.len());
                [words(&head), fields].concat()
            }
        }
    }

    fn list(&mut self) -> Words {
        let (key, count) = (self.key('l'), self.count());
        let (place, value) = (self.below(6), format!("v{}", self.below(9)));
        match self.below(12) {
            0..5 => {
                let name = ["LPUSH", "RPUSH"][self.random.index(2)];
                let values = (0..count).map(|_| match self.percent(50) {
                    true => format!("v{}", self.below(9)),
                    false => self.value(),
                });
                [words(&format!("{name} {key}")), values.collect()].concat()
            }
            5 => words(&format!("LPOP {key} {count}")),
            6 => words(&format!("RPOP {key} {count}")),
            7 => words(&format!("LREM {key} 0 {value}")),
            8 => words(&format!("LSET {key} {place} {value}")),
            9 => words(&format!("LTRIM {key} {} -{}", self.below(3), 1 + self.below(4))),
            _ => words(&format!("LMOVE {key} {} LEFT RIGHT", self.key('l'))),
        }
    }

    fn set(&mut self) -> Words {
        let key = self.key('s');
        let members = self.members(&key);
        match self.below(10) {
            0..5 => [words(&format!("SADD {key}")), members].concat(),
            5..7 => [words(&format!("SREM {key}")), members].concat(),
            7 => words(&format!("SMOVE {key} {} {}", self.key('s'), members[0])),
            _ => {
                let (to, other) = (self.key('s'), self.key('s'));
                words(&format!("SUNIONSTORE {to} {key} {other}"))
            }
        }
    }

    fn sorted(&mut self) -> Words {
        let key = self.key('z');
        match self.below(10) {
            0..5 => {
                let pairs = self.run().flat_map(|n| [self.below(50).to_string(), format!("m{n}")]);
                [words(&format!("ZADD {key}")), pairs.collect()].concat()
            }
            5 => words(&format!("ZINCRBY {key} {} m{}", self.below(9), self.below(12))),
            6 => [words(&format!("ZREM {key}")), self.run().map(|n| format!("m{n}")).collect()]
                .concat(),
            7..9 => words(&format!("ZPOPMIN {key} {}", self.count())),
            _ => {
                let (to, other) = (self.key('z'), self.key('z'));
                words(&format!("ZUNIONSTORE {to} 2 {key} {other}"))
            }
        }
    }

    fn stream(&mut self) -> Words {
        let (key, id) = (self.key('x'), 1 + self.below(60));
        match self.below(10) {
            0..5 => words(&format!("XADD {key} {id}-0 f {}", self.value())),
            5 => words(&format!("XTRIM {key} MAXLEN {}", self.below(4))),
            6 => words(&format!("XDEL {key} {id}-0")),
            7 => words(&format!("XGROUP CREATE {key} g{} 0 MKSTREAM", self.below(2))),
            8 => words(&format!(
                "XREADGROUP GROUP g{} c{} COUNT {} STREAMS {key} >",
                self.below(2),
                self.below(2),
                1 + self.below(4)
            )),
            _ => words(&format!("XACK {key} g{} {id}-0", self.below(2))),
        }
    }

    /// A command on a key of any type.
    fn generic(&mut self, db: usize) -> Words {
        let letter = ['h', 'l', 's', 'z', 'x'][self.random.index(5)];
        let (key, other) = (self.key(letter), self.key(letter));
        match self.below(24) {
            0..6 => words(&format!("DEL {key} {other}")),
            6..10 => words(&format!("RENAME {key} {other}")),
            10..13 => words(&format!("COPY {key} {other} DB {} REPLACE", self.below(2))),
            13..16 => words(&format!("MOVE {key} {}", 1 - db)),
            16..20 => words(&format!("PEXPIREAT {key} {}", self.now + 1 + self.below(LATEST))),
            20..22 => words(&format!("SET {key} {}", self.value())),
            22 => words("FLUSHDB"),
            _ => words("SWAPDB 0 1"),
        }
    }

    /// A library is added or removed.
    fn function(&mut self) -> Words {
        let name = format!("lib{}", self.below(2));
        if self.percent(30) {
            return words(&format!("FUNCTION DELETE {name}"));
        }
        let function = "redis.register_function('NAME', function() return 1 end)";
        let text = format!("#!lua name={name}\n{}", function.replace("NAME", &name));
        vec!["FUNCTION".to_owned(), "LOAD".to_owned(), "REPLACE".to_owned(), text]
    }

    fn command(&mut self, db: usize) -> Words {
        match self.below(100) {
            0..18 => self.hash(),
            18..33 => self.list(),
            33..48 => self.set(),
            48..63 => self.sorted(),
            63..76 => self.stream(),
            _ => self.generic(db),
        }
    }

    fn commands(&mut self, db: usize, count: u64) -> Vec<Words> {
        (0..count).map(|_| self.command(db)).collect()
    }

    pub(crate) fn step(&mut self) -> Step {
        let db = usize::from(self.percent(20));
        match self.below(100) {
            0..56 => {
                if self.has_functions && self.percent(4) {
                    return Step::Run { db, commands: vec![self.function()] };
                }
                let count = if self.pipelines && self.percent(25) { 2 } else { 1 };
                Step::Run { db, commands: self.commands(db, count) }
            }
            56..68 => {
                let count = 2 + self.below(3);
                Step::Multi { db, commands: self.commands(db, count) }
            }
            68..82 => {
                let count = 1 + self.below(3);
                let fails = self.percent(40);
                Step::Script { db, commands: self.commands(db, count), fails }
            }
            82..88 => Step::Later(1 + self.below(12)),
            88..97 => Step::Reclaim,
            _ => Step::Collect,
        }
    }

    /// A large collection of some type.
    pub(crate) fn many(&mut self) -> Step {
        let element = |n| format!("m{n}");
        let words = match self.below(3) {
            0 => [words("SADD s1"), (0..MANY).map(element).collect()].concat(),
            1 => [words("RPUSH l0"), (0..MANY).map(element).collect()].concat(),
            _ => [words("HSET h0"), (0..2 * MANY).map(element).collect()].concat(),
        };
        Step::Run { db: 0, commands: vec![words] }
    }
}

/// The error of a script that fails in the end.
pub(crate) const ON_PURPOSE: &str = "failed on purpose";

/// A script of commands.
pub(crate) fn script(commands: &[Words], fails: bool) -> String {
    let mut lines: Vec<_> = commands.iter().map(|words| quoted(words)).collect();
    lines.extend(fails.then(|| format!("error('{ON_PURPOSE}')")));
    lines.join("\n")
}

/// A call of a script; a table takes more words than the arguments of a call.
fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    format!("redis.call(unpack({{{}}}))", words.join(","))
}
