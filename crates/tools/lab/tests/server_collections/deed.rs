//! The steps of histories: those of servers, and what the lab adds.

use halite::Database;
use halite_rdb::Value;
use halite_server::Keys;

use super::cache;
use super::collections_model::Chance;
use super::collections_model::commands::{Draw, Step};
use super::collections_model::model::Words;

/// Elements of an imported collection: so many that they have records of their own.
const MANY: u64 = 140;

/// A step of a history.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Step(Step),
    /// While no server runs, keys of a database are replaced as by `halite load`: by collections whose elements begin with
    /// a number.
    Import {
        db: usize,
        first: u64,
    },
    /// Keys that may be evicted, from a number on.
    Cache(u64),
}

impl From<Step> for Deed {
    fn from(step: Step) -> Self {
        Self::Step(step)
    }
}

impl Deed {
    pub(super) fn import<R: Chance>(draw: &mut Draw<'_, R>) -> Self {
        Self::Import { db: usize::from(draw.percent(30)), first: draw.below(9) }
    }

    /// The next one, of a server that may evict.
    pub(super) fn draw<R: Chance>(draw: &mut Draw<'_, R>, evicts: bool) -> Self {
        // An import takes more than the limit of a server that evicts.
        if !evicts && draw.percent(2) {
            return Self::import(draw);
        }
        if !evicts {
            return draw.step().into();
        }
        if draw.percent(20) {
            return Self::Cache(draw.below(cache::KEYS));
        }
        loop {
            let step = draw.step();
            // A key with a deadline might be evicted, which the model does not know.
            if cache::spares(&step) {
                return step.into();
            }
        }
    }
}

fn members(first: u64) -> impl Iterator<Item = String> {
    (first..first + MANY).map(|number| format!("m{number}"))
}

/// Streams that have no entry, and yet elements, or did have some.
pub(super) fn streams_without_entries() -> impl Iterator<Item = Deed> {
    let commands = [
        "XADD x0 7-0 f v",
        "XTRIM x0 MAXLEN 0",
        "XGROUP CREATE x1 g0 0 MKSTREAM",
        "XADD x1 9-0 f v",
        "XDEL x1 9-0",
    ];
    commands.into_iter().map(|command| {
        let words = command.split(' ').map(str::to_owned).collect();
        Step::Run { db: 0, commands: vec![words] }.into()
    })
}

/// The commands that do what an import does, for each key.
pub(super) fn imported(first: u64) -> [Vec<Words>; 3] {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Words>();
    let all = |head: &str, parts: Vec<String>| [words(head), parts].concat();
    let small = (first..first + 3).map(|number| format!("v{number}")).collect();
    let scored = members(first).flat_map(|member| [first.to_string(), member]).collect();
    [
        vec![words("DEL l0"), all("RPUSH l0", small)],
        vec![words("DEL s1"), all("SADD s1", members(first).collect())],
        vec![words("DEL z1"), all("ZADD z1", scored)],
    ]
}

/// Puts the same values into a database that no server has open.
pub(super) fn import(database: &Database, db: usize, first: u64) -> Result<(), String> {
    let failed = |error: halite_server::Error| error.to_string();
    let bytes = |text: String| text.into_bytes();
    let small = (first..first + 3).map(|number| format!("v{number}").into_bytes());
    let scored = members(first).map(|member| (bytes(member), first as f64));
    let values = [
        ("l0", Value::List(small.collect())),
        ("s1", Value::Set(members(first).map(bytes).collect())),
        ("z1", Value::SortedSet(scored.collect())),
    ];
    let mut keys = Keys::open(database, 3).map_err(failed)?;
    for (key, value) in values {
        keys.put(db, key.as_bytes(), value, None).map_err(failed)?;
        keys.sync().map_err(failed)?;
    }
    Ok(())
}
