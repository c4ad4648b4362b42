//! DUMP and RESTORE: values in the payloads of Redis.
//!
//! A payload comes from a client, and is not trusted: it is read whole, and within limits, before anything is changed. What
//! RESTORE changes is one transaction, as large as one may be.

use halite_rdb::{Limits, RestoreError, Value, Why, dump_string};

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::notifications::EventClass;
use crate::rdb::{self, Budget};
use crate::stored::{STRING_LEN_MAX, Type};

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let found = match call.read_any(key)? {
        None => None,
        Some(stored) if stored.value_type()? == Type::String => {
            Some(dump_string(&stored.into_string()?))
        }
        Some(_) => {
            let mut budget = budget(call);
            payload(call, db, key, &mut budget)?
        }
    };
    call.reply().bulk_or_null(found.as_deref());
    Ok(())
}

/// The memory that the values of one command may take.
pub(super) fn budget(call: &Call<'_>) -> Budget {
    let settings = &call.service.settings;
    let limit = settings.limits.transaction_len_max.min(settings.reply_len_max());
    Budget::new(&call.service.store, limit)
}

/// The payload of the value of a key; `None` if there is none.
pub(super) fn payload(
    call: &mut Call<'_>,
    db: usize,
    key: &[u8],
    budget: &mut Budget,
) -> Outcome<Option<Vec<u8>>> {
    let Some(value) = rdb::read(&mut call.service.store, db, key, budget)? else {
        return Ok(None);
    };
    let payload = halite_rdb::dump(&value);
    payload.map(Some).map_err(|why| format!("ERR the value cannot be dumped: {why}").into())
}

/// The options of RESTORE.
#[derive(Debug, Default)]
struct Options {
    replace: bool,
    absolute: bool,
    /// Seconds for which the key counts as idle.
    idle_s: Option<u64>,
    /// How often it counts as used.
    frequency: Option<u8>,
}

impl Options {
    fn parse(call: &Call<'_>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut index = 4;
        while let Some(word) = call.args.get(index) {
            let has_more = index + 1 < call.args.len();
            match () {
                () if is(word, "REPLACE") => options.replace = true,
                () if is(word, "ABSTTL") => options.absolute = true,
                () if is(word, "IDLETIME") && has_more && options.frequency.is_none() => {
                    index += 1;
                    let idle_s = u64::try_from(call.integer(index)?);
                    let wrong = |_| "ERR Invalid IDLETIME value, must be >= 0";
                    options.idle_s = Some(idle_s.map_err(wrong)?);
                }
                () if is(word, "FREQ") && has_more && options.idle_s.is_none() => {
                    index += 1;
                    let frequency = u8::try_from(call.integer(index)?);
                    let wrong = |_| "ERR Invalid FREQ value, must be >= 0 and <= 255";
                    options.frequency = Some(frequency.map_err(wrong)?);
                }
                () => return Err(SYNTAX.into()),
            }
            index += 1;
        }
        Ok(options)
    }
}

pub(super) fn restore(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let options = Options::parse(call)?;
    if !options.replace && call.contains(key)? {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = u64::try_from(call.integer(2)?);
    let ttl = ttl.map_err(|_| Failure::from("ERR Invalid TTL value, must be >= 0"))?;
    let value = value(call, call.arg(3))?;
    let store = &mut call.service.store;
    let now_ms = store.now_ms;
    let deadline = match (ttl, options.absolute) {
        (0, _) => None,
        (at, true) => Some(at),
        (ttl, false) => Some(now_ms.saturating_add(ttl)),
    };
    let is_over = deadline.is_some_and(|at| at <= now_ms);
    match rdb::without_expired(value, now_ms).filter(|_| !is_over) {
        Some(value) => {
            rdb::put(store, db, key, value, deadline)?;
            if let Some(idle_s) = options.idle_s {
                store.set_idle(db, key, idle_s.saturating_mul(1000));
            }
            if let Some(frequency) = options.frequency {
                store.set_frequency(db, key, frequency);
            }
            call.notify(EventClass::Generic, "restore", key);
        }
        None if store.remove(db, key)? => call.notify(EventClass::Generic, "del", key),
        None => {}
    }
    call.reply().ok();
    Ok(())
}

/// The value of a payload.
fn value(call: &Call<'_>, payload: &[u8]) -> Outcome<Value> {
    const BAD: &str = "ERR Bad data format";
    let room = call.service.settings.limits.transaction_len_max;
    let limits = Limits::default().string_len_max(STRING_LEN_MAX).value_bytes_max(room as u64);
    match halite_rdb::restore(payload, limits) {
        Ok(value) if rdb::can_be_put(&value) => Ok(value),
        Err(
            RestoreError::TooShort { .. } | RestoreError::Version { .. } | RestoreError::Checksum,
        ) => Err("ERR DUMP payload version or checksum are wrong".into()),
        Err(RestoreError::Value(error)) if is_too_large(&error.why, room) => {
            Err(format!("OOM the value takes more than {room} bytes of memory").into())
        }
        _ => Err(BAD.into()),
    }
}

/// Whether a value is refused for all that it takes, and not for one string.
fn is_too_large(why: &Why, room: usize) -> bool {
    matches!(why, Why::TooLong { limit, .. } if *limit == room as u64)
}
