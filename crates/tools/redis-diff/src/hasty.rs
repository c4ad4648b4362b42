//! Requests that are not sent: their replies depend on the time at which they arrive, or Redis would not answer.

use crate::wire::Request;

/// The shortest time to live that does not pass while a stream lasts, in the unit of the request.
const TIME_MIN: i64 = 500_000;

/// Whether a request is left out.
pub(crate) fn is_hasty(request: &Request) -> bool {
    let name = request[0].to_ascii_uppercase();
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    let passes = |word: Option<&Vec<u8>>| {
        word.and_then(number).is_some_and(|time| (1..TIME_MIN).contains(&time))
    };
    match &name[..] {
        b"SETEX" | b"PSETEX" | b"EXPIRE" | b"PEXPIRE" | b"HEXPIRE" | b"HPEXPIRE" => {
            passes(request.get(2))
        }
        // Redis 8.0 ends without that word.
        b"HSETEX" if !request.iter().any(|word| word.eq_ignore_ascii_case(b"FIELDS")) => true,
        b"SET" | b"GETEX" | b"HSETEX" | b"HGETEX" => request.windows(2).any(|pair| {
            (pair[0].eq_ignore_ascii_case(b"EX") || pair[0].eq_ignore_ascii_case(b"PX"))
                && passes(pair.get(1))
        }),
        // It would wait, or time would pass.
        b"BLPOP" | b"BRPOP" | b"BZPOPMIN" | b"BZPOPMAX" | b"BLMOVE" => {
            request.last().is_none_or(|word| word != b"0.001")
        }
        b"BLMPOP" | b"BZMPOP" => request.get(1).is_none_or(|word| word != b"0.001"),
        b"XREAD" | b"XREADGROUP" => {
            request.windows(2).any(|pair| pair[0].eq_ignore_ascii_case(b"BLOCK") && pair[1] != b"1")
        }
        // It would take some of the members, and others than Redis.
        b"SPOP" => request.len() < 3 || number(&request[2]).is_some_and(|n| (1..500).contains(&n)),
        // The reply would take gigabytes.
        b"SRANDMEMBER" | b"HRANDFIELD" | b"ZRANDMEMBER" => {
            request.get(2).and_then(number).is_some_and(|count| count < -10_000)
        }
        // Redis' test for saturation overflows there, and stores another number.
        b"BITFIELD" => request.iter().any(|word| word == b"-9223372036854775808"),
        // A script would store it, and Redis does not print it with as few digits as tell it apart.
        b"EVAL" => request.iter().any(|word| word == b"99999999999999999999999"),
        // It would wait for a replica, for ever.
        b"WAIT" => {
            let waits = |time| time == 0 || time > 1000;
            let asks = request.get(1).and_then(number).is_some_and(|count| count > 0);
            asks && request.get(2).and_then(number).is_some_and(waits)
        }
        b"WAITAOF" => {
            let asks = request.get(2).and_then(number).is_some_and(|count| count > 0);
            asks && request.get(3).and_then(number) == Some(0)
        }
        // Redis would forget how values were encoded.
        b"DEBUG" if request.iter().any(|word| word.eq_ignore_ascii_case(b"RELOAD")) => {
            request.len() == 2
        }
        // An empty size is 0 for Redis, and refused here.
        b"CONFIG" => request.iter().any(Vec::is_empty),
        // Redis would make keys of the bytes before.
        b"DEBUG" if request.iter().any(|word| word.contains(&0)) => true,
        // It would take for ever.
        b"DEBUG" => request.iter().any(|word| number(word).is_some_and(|count| count > 1000)),
        // It would become a replica.
        b"REPLICAOF" | b"SLAVEOF" => !request[1..].join(&b' ').eq_ignore_ascii_case(b"NO ONE"),
        // It would end, or send what is no reply.
        b"SYNC" | b"PSYNC" | b"SHUTDOWN" | b"MONITOR" => true,
        _ => false,
    }
}
