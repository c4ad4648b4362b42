//! DIGEST and DELEX: the digest of a value, which is its XXH3 of 64 bits in hexadecimal, and a removal on a condition.

use xxhash_rust::xxh3::xxh3_64;

use crate::call::{Call, string};
use crate::failure::Outcome;
use crate::notifications::EventClass;
use crate::stored::Type;

use super::condition::Condition;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// The digest of a value.
pub(super) fn of(value: &[u8]) -> u64 {
    xxh3_64(value)
}

/// The digest that a word is the hexadecimal form of.
pub(super) fn parse(word: &[u8]) -> Outcome<u64> {
    let is_whole = word.len() == DIGITS && word.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(word).ok().filter(|_| is_whole);
    let digest = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digest.ok_or_else(|| format!("ERR must be exactly {DIGITS} hexadecimal characters").into())
}

pub(super) fn digest(call: &mut Call<'_>) -> Outcome {
    let value = call.read(call.arg(1))?;
    let digest = value.map(|value| format!("{:016x}", of(&value)));
    call.reply().bulk_or_null(digest.as_deref().map(str::as_bytes));
    Ok(())
}

pub(super) fn delex(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    if call.args.len() != 2 && call.args.len() != 4 {
        return Err("ERR wrong number of arguments for 'delex' command".into());
    }
    let removes = match call.service.store.get(db, key)? {
        None => false,
        Some(_) if call.args.len() == 2 => true,
        Some(stored) if stored.value_type()? != Type::String => {
            return Err("ERR Key should be of string type if conditions are specified".into());
        }
        stored => {
            let compares = Condition::comparison(call.arg(2));
            let condition = compares
                .ok_or("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")?(
                call.arg(3)
            );
            condition.holds(string(stored)?.as_deref())?
        }
    };
    if removes {
        call.service.store.remove(db, key)?;
        call.notify(EventClass::Generic, "del", key);
    }
    call.reply().flag(removes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_redis_and_has_one_form() {
        // From the documentation of DIGEST.
        assert_eq!(of(b"Hello world"), 0xb6ac_b9d8_4a38_ff74);
        assert_eq!(parse(b"b6acb9d84a38ff74").unwrap(), of(b"Hello world"));
        assert_eq!(parse(b"B6ACB9D84A38FF74").unwrap(), of(b"Hello world"));
        for word in ["", "1234567890", "+6acb9d84a38ff74", "b6acb9d84a38ff745", "g6acb9d84a38ff74"]
        {
            assert!(parse(word.as_bytes()).is_err(), "{word}");
        }
    }
}
