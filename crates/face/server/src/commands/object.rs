//! OBJECT: how a value is stored.

use crate::call::{Call, string};
use crate::collection::hash::Hash;
use crate::collection::list::List;
use crate::collection::map::Map;
use crate::failure::Outcome;
use crate::number::parse_i64;
use crate::store::{Encoding, EvictionOrder, Store};
use crate::stored::{Stored, Type};

/// Tells the encoding that Redis would choose for such a value, or that the last command left, if it differs.
pub(super) fn encoding(call: &mut Call<'_>) -> Outcome {
    let encoding = encoding_of(call, call.arg(2))?;
    call.reply().bulk_or_null(encoding.map(str::as_bytes));
    Ok(())
}

/// The encoding of the value of a key, if it has one.
pub(super) fn encoding_of(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<&'static str>> {
    let (store, db) = (&mut call.service.store, call.client.db);
    let value = store.get(db, key)?;
    let of = value.as_ref().map_or(Ok(Type::String), Stored::value_type)?;
    if of != Type::String {
        return encoding_of_collection(store, db, key, of).map(Some);
    }
    let value = string(value)?;
    let noted = store.encoding(db, key);
    Ok(value.map(|value| match value.len() {
        _ if noted == Some(Encoding::Raw) => "raw",
        ..=20 if noted.is_none() && parse_i64(&value).is_some() => "int",
        ..=EMBEDDED_LEN_MAX => "embstr",
        _ => "raw",
    }))
}

/// The encoding that Redis would choose for a collection, which is there.
fn encoding_of_collection(
    store: &mut Store,
    db: usize,
    key: &[u8],
    of: Type,
) -> Outcome<&'static str> {
    let names = |is_packed, packed, larger| if is_packed { packed } else { larger };
    Ok(match of {
        Type::String | Type::Stream => of.name(),
        Type::List => {
            let list = List::find(store, db, key)?;
            names(list.is_some_and(|list| list.is_packed()), "listpack", "quicklist")
        }
        Type::Set => match Map::find(store, db, key, of)? {
            Some(set) if set.is_intset() => "intset",
            set => names(set.is_some_and(|set| set.is_packed()), "listpack", "hashtable"),
        },
        Type::SortedSet => {
            let set = Map::find(store, db, key, of)?;
            names(set.is_some_and(|set| set.is_packed()), "listpack", "skiplist")
        }
        Type::Hash => match Hash::find(store, db, key)? {
            Some(hash) if hash.is_packed() && hash.has_deadlines() => "listpackex",
            hash => names(hash.is_some_and(|hash| hash.is_packed()), "listpack", "hashtable"),
        },
    })
}

/// The longest text that Redis embeds in an object, in bytes.
pub(super) const EMBEDDED_LEN_MAX: usize = 44;

/// The largest integer that Redis keeps once for all keys, and the number of references that it tells for such a one.
const SHARED: (i64, i64) = (9999, i32::MAX as i64);

/// A value has one key. Small integers are told as those are which Redis shares.
pub(super) fn refcount(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(2));
    // With the policies that look at uses, Redis shares none.
    let shares = call.service.settings.eviction.policy.order() != EvictionOrder::ByUsage;
    let store = &mut call.service.store;
    let value = store.get(db, key)?.and_then(|value| value.into_string().ok());
    let number = value.filter(|_| store.encoding(db, key).is_none());
    let number = number.and_then(|value| parse_i64(&value));
    let is_shared = shares && number.is_some_and(|number| (0..=SHARED.0).contains(&number));
    tell(call, if is_shared { SHARED.1 } else { 1 })
}

/// Tells the seconds since the last use, unless it is counted how often keys are used.
pub(super) fn idletime(call: &mut Call<'_>) -> Outcome {
    if call.service.settings.eviction.policy.is_lfu() && call.contains(call.arg(2))? {
        return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. \
                    Please note that when switching between policies at runtime LRU and LFU data \
                    will take some time to adjust."
            .into());
    }
    let idle_ms = call.service.store.idle_ms(call.client.db, call.arg(2));
    tell(call, (idle_ms / 1000) as i64)
}

pub(super) fn freq(call: &mut Call<'_>) -> Outcome {
    if call.service.settings.eviction.policy.is_lfu() {
        let frequency = call.service.store.frequency(call.client.db, call.arg(2));
        return tell(call, frequency.into());
    }
    if call.contains(call.arg(2))? {
        return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                    Please note that when switching between policies at runtime LRU and LFU data \
                    will take some time to adjust."
            .into());
    }
    call.reply().null();
    Ok(())
}

fn tell(call: &mut Call<'_>, number: i64) -> Outcome {
    match call.contains(call.arg(2))? {
        true => call.reply().integer(number),
        false => call.reply().null(),
    }
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Tells the encoding of the value, as Redis would choose it.",
        "FREQ <key>",
        "    Tells how often the key is used, under an LFU policy of eviction.",
        "IDLETIME <key>",
        "    Tells the seconds since the last use, but under an LFU policy of eviction.",
        "REFCOUNT <key>",
        "    Tells 1, and of a small integer how Redis counts one that is shared.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
