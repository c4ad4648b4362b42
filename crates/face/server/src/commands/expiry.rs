//! When keys expire.

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome};
use crate::notifications::EventClass;

use super::options::Clock;

const SECONDS: Clock = Clock { seconds: true, relative: true };
const MILLISECONDS: Clock = Clock { seconds: false, relative: true };
const SECOND: Clock = Clock { seconds: true, relative: false };
const MILLISECOND: Clock = Clock { seconds: false, relative: false };

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    set(call, SECONDS, "expire")
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Outcome {
    set(call, MILLISECONDS, "pexpire")
}

pub(super) fn expireat(call: &mut Call<'_>) -> Outcome {
    set(call, SECOND, "expireat")
}

pub(super) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    set(call, MILLISECOND, "pexpireat")
}

/// On which condition a deadline is set.
#[derive(Default)]
struct Condition {
    if_absent: bool,
    if_present: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Condition {
    fn parse(call: &Call<'_>) -> Outcome<Self> {
        let mut condition = Self::default();
        for word in call.args.from(3) {
            match () {
                () if is(word, "NX") => condition.if_absent = true,
                () if is(word, "XX") => condition.if_present = true,
                () if is(word, "GT") => condition.if_later = true,
                () if is(word, "LT") => condition.if_earlier = true,
                () => {
                    return Err(Failure::quoting("ERR Unsupported option ", word, ""));
                }
            }
        }
        let Self { if_absent, if_present, if_later, if_earlier } = condition;
        if if_absent && (if_present || if_later || if_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(text.into());
        }
        if if_later && if_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// Whether `new` may follow `old`; no deadline is later than all others.
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let old_ms = old.map_or(i128::MAX, i128::from);
        let new_ms = i128::from(new);
        !(self.if_absent && old.is_some()
            || self.if_present && old.is_none()
            || self.if_later && new_ms <= old_ms
            || self.if_earlier && new_ms >= old_ms)
    }
}

fn set(call: &mut Call<'_>, clock: Clock, command: &str) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let condition = Condition::parse(call)?;
    let time = call.integer(2)?;
    let store = &mut call.service.store;
    let invalid = || Failure::from(format!("ERR invalid expire time in '{command}' command"));
    let new = clock.deadline(time, store.now_ms).ok_or_else(invalid)?;
    let done = store.contains(db, key)? && condition.allows(store.deadline(db, key)?, new);
    if done {
        match u64::try_from(new) {
            Ok(new) if new > store.now_ms => {
                store.set_deadline(db, key, Some(new))?;
                store.notify(EventClass::Generic, "expire", db, key);
            }
            _ => {
                store.remove(db, key)?;
                store.notify(EventClass::Generic, "del", db, key);
            }
        }
    }
    call.reply().flag(done);
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let store = &mut call.service.store;
    let expires = store.contains(db, key)? && store.deadline(db, key)?.is_some();
    if expires {
        store.set_deadline(db, key, None)?;
        store.notify(EventClass::Generic, "persist", db, key);
    }
    call.reply().flag(expires);
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> Outcome {
    tell(call, SECONDS)
}

pub(super) fn pttl(call: &mut Call<'_>) -> Outcome {
    tell(call, MILLISECONDS)
}

pub(super) fn expiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, SECOND)
}

pub(super) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, MILLISECOND)
}

/// Replies with the deadline; -1 for a key without one, -2 for a key that does not exist.
fn tell(call: &mut Call<'_>, clock: Clock) -> Outcome {
    let key = call.arg(1);
    let exists = call.read_any(key)?.is_some();
    let deadline = call.service.store.deadline(call.client.db, key)?;
    let now_ms = call.service.store.now_ms;
    let answer = match deadline {
        _ if !exists => -2,
        None => -1,
        Some(at) => {
            let ms = if clock.relative { at.saturating_sub(now_ms) } else { at };
            let time = if clock.seconds { ms.saturating_add(500) / 1000 } else { ms };
            time as i64
        }
    };
    call.reply().integer(answer);
    Ok(())
}
