//! Keys that a server with a limit of memory evicts: they have deadlines far away, and no others have any.
//!
//! Which of them are there is a matter of chance, so they are no part of the model. Each that is there has to be whole, and
//! those of the histories must not go.

use super::collections_model::commands::Step;
use super::collections_model::model::{Kept, Model, Value, Words};

/// The numbers of the keys.
pub(super) const KEYS: u64 = 40;

/// The limit: the keys of a history take a part of it, and all keys of the cache do not fit.
pub(super) const LIMIT: &str = "CONFIG SET maxmemory 96kb maxmemory-policy volatile-random \
    maxmemory-eviction-tenacity 100";

/// Keys that one step sets.
const STEP: u64 = 2;

const FAR: &str = "4000000000000";

/// Fields of a hash of the cache: so many that each has a record of its own.
const FIELDS: usize = 9;

fn text(number: u64) -> String {
    format!("c{number}-").repeat(5000)
}

fn fields(number: u64) -> impl Iterator<Item = (String, String)> {
    (0..FIELDS).map(move |field| (format!("f{field}"), format!("c{number}-").repeat(40)))
}

/// The commands of a step, from a number on.
pub(super) fn fill(first: u64) -> impl Iterator<Item = Words> {
    (first..first + STEP).map(|number| number % KEYS).flat_map(|number| {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Words>();
        let pairs = fields(number).flat_map(|(field, value)| [field, value]);
        [
            words(&format!("SET c{number} {} PXAT {FAR}", text(number))),
            [words(&format!("HSET ch{number}")), pairs.collect()].concat(),
            words(&format!("PEXPIREAT ch{number} {FAR}")),
        ]
    })
}

/// Whether a step gives no key a deadline.
pub(super) fn spares(step: &Step) -> bool {
    match step {
        Step::Run { commands, .. }
        | Step::Multi { commands, .. }
        | Step::Script { commands, .. } => commands.iter().all(|words| words[0] != "PEXPIREAT"),
        Step::Later(_) | Step::Reclaim | Step::Collect => true,
    }
}

/// Takes the keys of the cache out of what a server has, and checks that each is whole.
pub(super) fn take_out(model: &mut Model) -> Result<(), String> {
    for database in &mut model.databases {
        for (key, kept) in database.extract_if(.., |key, _| key.starts_with('c')) {
            check(&key, &kept).map_err(|why| format!("`{key}` of the cache {why}: {kept:?}"))?;
        }
    }
    Ok(())
}

fn check(key: &str, kept: &Kept) -> Result<(), &'static str> {
    let number = key.trim_start_matches(['c', 'h']).parse().map_err(|_| "has no number")?;
    match &kept.value {
        Value::String(value) if *value == text(number) => {}
        Value::Hash(all) => {
            let wanted = fields(number).map(|(field, value)| (field, (value, None)));
            if *all != wanted.collect() {
                return Err("lacks fields, or has others");
            }
        }
        _ => return Err("has another value"),
    }
    // A hash gets its deadline by a command of its own.
    match &kept.deadline {
        Some(at) if at.to_string() == FAR => Ok(()),
        None if matches!(kept.value, Value::Hash(_)) => Ok(()),
        _ => Err("has another deadline"),
    }
}
