//! Commands on HyperLogLogs, which are strings: [`crate::hyperloglog`] has their form.

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome};
use crate::hyperloglog::{Corrupted, HyperLogLog, REGISTERS, Ranks, View, count};
use crate::notifications::EventClass;
use crate::store::NewDeadline;

use super::strings::note_raw;

const NO_HYPERLOGLOG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

impl From<Corrupted> for Failure {
    fn from(corrupted: Corrupted) -> Self {
        corrupted.to_string().into()
    }
}

/// A string as a HyperLogLog.
fn view(string: &[u8]) -> Outcome<View<'_>> {
    View::of(string).ok_or_else(|| NO_HYPERLOGLOG.into())
}

/// The HyperLogLog at a key, to be changed; an empty one if there is none. Returns whether there was one.
fn get(call: &mut Call<'_>, key: &[u8]) -> Outcome<(HyperLogLog, bool)> {
    let sparse_len_max = call.service.settings.hll_sparse_len_max;
    Ok(match call.get(key)? {
        Some(string) => (HyperLogLog::copied(view(&string)?, sparse_len_max), true),
        None => (HyperLogLog::new(sparse_len_max), false),
    })
}

/// Sets the value of a key, whose deadline stays.
fn put(call: &mut Call<'_>, key: &[u8], hyperloglog: &HyperLogLog) -> Outcome {
    let (db, bytes) = (call.client.db, hyperloglog.bytes());
    call.service.store.put(db, key, bytes, NewDeadline::Keep)?;
    note_raw(call, key, bytes.len());
    Ok(())
}

pub(super) fn pfadd(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(1);
    let (mut hyperloglog, existed) = get(call, key)?;
    let mut changed = !existed;
    for element in call.args.from(2) {
        changed |= hyperloglog.add(element)?;
    }
    if changed {
        hyperloglog.forget_cached();
        put(call, key, &hyperloglog)?;
        call.notify(EventClass::String, "pfadd", key);
    }
    call.reply().flag(changed);
    Ok(())
}

pub(super) fn pfcount(call: &mut Call<'_>) -> Outcome {
    let number = match call.args.len() {
        2 => count_one(call, call.arg(1))?,
        _ => {
            let mut ranks = [0; REGISTERS];
            merge(call, 1, &mut ranks)?;
            count(&ranks)
        }
    };
    call.reply().integer(number as i64);
    Ok(())
}

/// The number of elements at a key. An estimate is kept with the HyperLogLog, if there is room for it.
fn count_one(call: &mut Call<'_>, key: &[u8]) -> Outcome<u64> {
    let Some(string) = call.read(key)? else { return Ok(0) };
    let stored = view(&string)?;
    if let Some(number) = stored.cached() {
        return Ok(number);
    }
    let number = stored.count()?;
    let may_write = !call.service.store.is_paused && call.service.check_durable().is_ok();
    if may_write {
        let mut hyperloglog = HyperLogLog::copied(stored, 0);
        hyperloglog.cache(number);
        // The next command estimates again.
        let _ = put(call, key, &hyperloglog);
    }
    Ok(number)
}

/// Raises `ranks` to those at all keys from a word on. Returns whether some of them is dense.
fn merge(call: &mut Call<'_>, first: usize, ranks: &mut Ranks) -> Outcome<bool> {
    let mut some_dense = false;
    for key in call.args.from(first) {
        call.check_ending()?;
        if let Some(string) = call.read(key)? {
            let stored = view(&string)?;
            stored.merge_into(ranks)?;
            some_dense |= !stored.is_sparse();
        }
    }
    Ok(some_dense)
}

pub(super) fn pfmerge(call: &mut Call<'_>) -> Outcome {
    let (key, mut ranks) = (call.arg(1), [0; REGISTERS]);
    let some_dense = merge(call, 1, &mut ranks)?;
    let (mut hyperloglog, _) = get(call, key)?;
    if some_dense {
        hyperloglog.make_dense()?;
    }
    hyperloglog.raise_all(&ranks)?;
    hyperloglog.forget_cached();
    put(call, key, &hyperloglog)?;
    // As in Redis, a merge is told as an addition.
    call.notify(EventClass::String, "pfadd", key);
    call.reply().ok();
    Ok(())
}

pub(super) fn pfdebug(call: &mut Call<'_>) -> Outcome {
    let (word, key) = (call.arg(1), call.arg(2));
    if is(word, "SIMD") && call.args.len() == 3 {
        // There is one way to merge: any choice holds.
        call.reply().ok();
        return Ok(());
    }
    let string = call.get(key)?.ok_or("ERR The specified key does not exist")?;
    let stored = view(&string)?;
    let known = ["GETREG", "DECODE", "ENCODING", "TODENSE"];
    if !known.iter().any(|name| is(word, name)) {
        return Err(Failure::quoting("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    if call.args.len() != 3 {
        let before = "ERR Wrong number of arguments for the '";
        return Err(Failure::quoting(before, word, "' subcommand"));
    }
    match () {
        () if is(word, "DECODE") => {
            if !stored.is_sparse() {
                return Err("ERR HLL encoding is not sparse".into());
            }
            let runs = stored.describe_runs()?;
            call.reply().bulk(runs.as_bytes());
        }
        () if is(word, "ENCODING") => {
            call.reply().simple(if stored.is_sparse() { "sparse" } else { "dense" });
        }
        () => {
            let was_sparse = stored.is_sparse();
            if was_sparse {
                let mut hyperloglog = HyperLogLog::copied(stored, 0);
                hyperloglog.make_dense()?;
                put(call, key, &hyperloglog)?;
            }
            if is(word, "TODENSE") {
                call.reply().flag(was_sparse);
            } else {
                let mut ranks = [0; REGISTERS];
                stored.merge_into(&mut ranks)?;
                let mut reply = call.reply();
                reply.array(ranks.len());
                ranks.iter().for_each(|rank| reply.integer(i64::from(*rank)));
            }
        }
    }
    Ok(())
}

/// Both encodings are tested beside their code, so that there is no more to test here.
pub(super) fn pfselftest(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    Ok(())
}
