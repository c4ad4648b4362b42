//! Differences that are meant to be, each with its reason.

use crate::compare::{Compare, items};
use crate::wire::Request;

/// A difference that is meant to be.
pub(crate) struct Known {
    /// The reason.
    pub(crate) why: &'static str,
    /// Whether the servers store different things behind it, so that their replies cannot be compared any more.
    pub(crate) parts: bool,
    /// Whether the replies to a request, Halite's and that of Redis, are this difference.
    is: fn(&Request, &[u8], &[u8]) -> bool,
}

/// The known difference that two replies have.
pub(crate) fn find(request: &Request, ours: &[u8], theirs: &[u8]) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is)(request, ours, theirs))
}

/// Whether a request is one of these commands.
fn names(request: &Request, commands: &[&str]) -> bool {
    commands.iter().any(|name| request[0].eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether two replies are the same but for the digits of numbers, and so for the lengths of texts.
fn are_same_numbers(ours: &[u8], theirs: &[u8]) -> bool {
    let is_same = |(ours, theirs): (&[u8], &[u8])| {
        let number = |line: &[u8]| {
            let line = line.strip_prefix(b",").unwrap_or(line);
            std::str::from_utf8(line).ok()?.trim_end().parse::<f64>().ok()
        };
        let are_lengths = ours.starts_with(b"$") && theirs.starts_with(b"$");
        ours == theirs
            || are_lengths
            || number(ours).is_some_and(|ours| number(theirs) == Some(ours))
    };
    let lines = |reply: &[u8]| reply.split(|byte| *byte == b'\n').count();
    let pairs = || ours.split(|byte| *byte == b'\n').zip(theirs.split(|byte| *byte == b'\n'));
    lines(ours) == lines(theirs) && pairs().all(is_same)
}

/// The items of a reply in order, with numbers printed in one way.
fn with_plain_numbers(reply: &[u8]) -> Vec<Vec<u8>> {
    if let Some(items) = items(reply) {
        let plain = items.into_iter().map(|item| with_plain_numbers(item).join(&b' '));
        let mut plain: Vec<_> = plain.collect();
        plain.sort_unstable();
        return plain;
    }
    let text = match reply.first() {
        Some(b'$') => reply.split(|byte| *byte == b'\n').nth(1),
        _ => reply.strip_prefix(b","),
    };
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    let number = text.and_then(|text| text.trim_end().parse::<f64>().ok());
    vec![number.map_or(reply.to_vec(), |number| format!("{number:?}").into_bytes())]
}

/// The items of a reply in order, at any depth, without the signs of zeros.
fn with_zeros(reply: &[u8]) -> Vec<Vec<u8>> {
    if let Some(items) = items(reply) {
        let mut plain: Vec<_> =
            items.into_iter().map(|item| with_zeros(item).join(&b' ')).collect();
        plain.sort_unstable();
        return plain;
    }
    let is_zero = [&b"$2\r\n-0\r\n"[..], b"$1\r\n0\r\n", b",-0\r\n", b",0\r\n"].contains(&reply);
    vec![if is_zero { b"0".to_vec() } else { reply.to_vec() }]
}

static KNOWN: &[Known] = &[
    Known {
        why: "BITCOUNT and BITPOS refuse malformed ranges also of keys that do not exist or are no strings, as from Redis 7.2 on",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["BITCOUNT", "BITPOS"])
                && ours.starts_with(b"-ERR ")
                && (theirs == b":0\r\n"
                    || theirs == b":-1\r\n"
                    || theirs.starts_with(b"-WRONGTYPE "))
        },
    },
    Known {
        why: "OBJECT ENCODING is that of the elements: Redis keeps what earlier elements or SORT have made, and its 7.0 does not pack lists and sets",
        parts: false,
        is: |request, ours, theirs| {
            let ends = |reply: &[u8], names: &[&str]| {
                names.iter().any(|name| reply.ends_with(format!("\n{name}\r\n").as_bytes()))
            };
            names(request, &["OBJECT"])
                && ends(ours, &["listpack", "intset"])
                && ends(theirs, &["quicklist", "hashtable", "listpack", "listpackex", "skiplist"])
        },
    },
    Known {
        why: "a string that Redis has copied to change it in place, without a change, stays embedded here",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["OBJECT"]) && ours == b"$6\r\nembstr\r\n" && theirs == b"$3\r\nraw\r\n"
        },
    },
    Known {
        why: "the form of a large collection, kept when it shrinks, is forgotten by Redis when it loads",
        parts: false,
        is: |request, ours, theirs| {
            let ends = |reply: &[u8], names: &[&str]| {
                names.iter().any(|name| reply.ends_with(format!("\n{name}\r\n").as_bytes()))
            };
            names(request, &["OBJECT"])
                && ends(ours, &["quicklist", "hashtable", "skiplist"])
                && ends(theirs, &["listpack", "listpackex", "intset"])
                || names(request, &["OBJECT"])
                    && ends(ours, &["listpack"])
                    && ends(theirs, &["intset"])
        },
    },
    Known {
        why: "places of scores that are none: C leaves open which bits a negative score has",
        parts: true,
        is: |request, ours, theirs| {
            matches!(request[0].get(..3), Some(b"GEO" | b"geo"))
                && matches!(ours.first(), Some(b'*' | b'$' | b'_'))
                && matches!(theirs.first(), Some(b'*' | b'$' | b'_'))
                && request[1].starts_with(b"key")
        },
    },
    Known {
        why: "ranges by bytes over members with different scores have no order",
        parts: true,
        is: |request, ours, theirs| {
            let is_by_bytes = request[0].to_ascii_uppercase().windows(3).any(|part| part == b"LEX")
                || request.iter().any(|word| word.eq_ignore_ascii_case(b"BYLEX"));
            is_by_bytes
                && request[1..]
                    .iter()
                    .any(|word| word.starts_with(b"key") || word.starts_with(b"zset"))
                && matches!(ours.first(), Some(b'*' | b':'))
                && ours.first() == theirs.first()
        },
    },
    Known {
        why: "Redis' SORT does not reset errno, and takes the range error of an earlier number for its own",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["SORT", "SORT_RO"])
                && matches!(ours.first(), Some(b'*' | b':'))
                && theirs == b"-ERR One or more scores can't be converted into double\r\n"
        },
    },
    Known {
        why: "SORT BY nosort with a limit takes those members of a set that come first",
        parts: false,
        is: |request, ours, theirs| {
            // Any pattern without a star is one.
            let is_nosort =
                |pair: &[Vec<u8>]| pair[0].eq_ignore_ascii_case(b"by") && !pair[1].contains(&b'*');
            let count = |reply| items(reply).map(|items| items.len());
            names(request, &["SORT", "SORT_RO"])
                && request.windows(2).any(is_nosort)
                && ours.first() == Some(&b'*')
                && count(ours) == count(theirs)
        },
    },
    Known {
        why: "XSETID refuses an ID below the greatest one deleted, as from Redis 7.2 on",
        parts: true,
        is: |request, ours, _| {
            let text =
                b"-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
            names(request, &["XSETID"]) && ours.starts_with(text)
        },
    },
    Known {
        why: "scans of collections that are no one record issue other cursors, and refuse others",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["HSCAN", "SSCAN", "ZSCAN"])
                && (ours.starts_with(b"*2")
                    || ours.starts_with(b"-ERR invalid cursor")
                    || ours.starts_with(b"-WRONGTYPE ") && theirs.starts_with(b"-ERR invalid"))
                && (theirs.starts_with(b"*2") || theirs.starts_with(b"-ERR invalid cursor"))
                && (ours.first() != theirs.first()
                    || request.get(2).is_some_and(|cursor| cursor != b"0")
                    || request.iter().filter(|word| word.eq_ignore_ascii_case(b"COUNT")).count()
                        != 1
                    || !request
                        .windows(2)
                        .any(|pair| pair[0].eq_ignore_ascii_case(b"COUNT") && pair[1] == b"1000"))
        },
    },
    Known {
        why: "XREAD and XREADGROUP without enough IDs are refused in the words of Redis 7.2",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["XREAD", "XREADGROUP"])
                && ours.starts_with(b"-ERR Unbalanced '")
                && theirs.starts_with(b"-ERR Unbalanced XREAD")
        },
    },
    Known {
        why: "ZRANK and ZREVRANK know WITHSCORE, as from Redis 7.2 on: in a transaction that Redis 7.0 discards",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["ZRANK", "ZREVRANK"])
                && request.len() == 4
                && theirs.starts_with(b"-ERR wrong number")
                && ours == b"+QUEUED\r\n"
        },
    },
    Known {
        why: "ZRANK and ZREVRANK know WITHSCORE, as from Redis 7.2 on",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["ZRANK", "ZREVRANK"])
                && request.len() == 4
                && theirs.starts_with(b"-ERR wrong number")
                && !ours.starts_with(b"-ERR wrong number")
        },
    },
    Known {
        why: "times that overflow are refused, as from Redis 7.2 on",
        parts: false,
        is: |request, ours, _| {
            names(request, &["WAIT", "WAITAOF"]) && ours == b"-ERR timeout is out of range\r\n"
        },
    },
    Known {
        why: "PFDEBUG refuses a HyperLogLog whose bytes are not one any more: Redis shows what it makes of them",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["PFDEBUG"])
                && ours.starts_with(b"-INVALIDOBJ ")
                && !theirs.starts_with(b"-WRONGTYPE")
        },
    },
    Known {
        why: "LREM and LPOS refuse the least integer, as from Redis 7.2 on",
        parts: true,
        is: |request, ours, _| {
            names(request, &["LREM", "LPOS"])
                && ours.starts_with(
                    b"-ERR value is out of range, value must between -9223372036854775807",
                )
        },
    },
    Known {
        why: "the members of small sets of integers come in the order in which they were added",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["SORT"]) && Compare::Unordered.is_same(ours, theirs)
        },
    },
    Known {
        why: "Valkey 8: nested MULTI and WATCH, COMMAND GETKEYS, BITCOUNT with a start alone, LSET and ROLE differ from Redis 7.2",
        parts: true,
        is: |request, ours, theirs| {
            let is_start = names(request, &["BITCOUNT"])
                && request.len() == 3
                && ours == b"-ERR syntax error\r\n";
            is_start
                || theirs == b"-ERR Command not allowed inside a transaction\r\n"
                || names(request, &["COMMAND"])
                    && theirs == b"-ERR The command has no key arguments\r\n"
                || names(request, &["LSET"]) && ours == b"-ERR index out of range\r\n"
                || names(request, &["ROLE"]) && ours.first() == theirs.first()
        },
    },
    Known {
        why: "scores are printed with as few digits as tell them apart, as from Redis 7.2 on",
        parts: false,
        is: |request, ours, theirs| {
            matches!(request[0].first(), Some(b'Z' | b'z' | b'B' | b'b' | b'G' | b'g'))
                && are_same_numbers(ours, theirs)
                || names(request, &["ZRANDMEMBER", "ZSCAN"])
                    && with_plain_numbers(ours) == with_plain_numbers(theirs)
        },
    },
    Known {
        why: "the same of scores that scripts return, and of their doubles",
        parts: false,
        is: |request, ours, theirs| {
            let is_of_doubles = |script: &[u8]| {
                ["ZSCORE", "ZADD", "double"]
                    .iter()
                    .any(|word| script.windows(word.len()).any(|part| part == word.as_bytes()))
            };
            names(request, &["EVAL", "EVAL_RO"])
                && request.get(1).is_some_and(|script| is_of_doubles(script))
                && are_same_numbers(ours, theirs)
        },
    },
    Known {
        why: "a random member is another one",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"])
                && ((ours.first(), theirs.first()) == (Some(&b'$'), Some(&b'$'))
                    || request.get(2).is_some_and(|count| count != b"1000")
                        && items(ours).map(|items| items.len())
                            == items(theirs).map(|items| items.len()))
        },
    },
    Known {
        why: "BITFIELD saturates the least integer downwards: Redis' test for that overflows",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["BITFIELD"])
                && request.iter().any(|word| word == b"-9223372036854775808")
                && ours.first() == theirs.first()
        },
    },
    Known {
        why: "OBJECT REFCOUNT tells by the value whether it is shared: Redis shares small integers that SET made, no copies of them, and values with the queue of a transaction",
        parts: false,
        is: |request, ours, theirs| {
            let counts = [&b":1\r\n"[..], b":2\r\n", b":2147483647\r\n"];
            let is_count = |reply| counts.contains(&reply);
            names(request, &["OBJECT"]) && is_count(ours) && is_count(theirs)
        },
    },
    Known {
        why: "a sorted set that was larger once keeps the sign of zeros in Redis, as it is not packed again",
        parts: true,
        is: |_, ours, theirs| ours != theirs && with_zeros(ours) == with_zeros(theirs),
    },
    Known {
        why: "the same beside scores that are printed with as few digits as tell them apart",
        parts: true,
        is: |request, ours, theirs| {
            let unsigned = |reply: &[u8]| {
                let mut plain = with_plain_numbers(reply);
                for item in &mut plain {
                    // Members have letters, digits and dots, and no signs.
                    *item = String::from_utf8_lossy(item).replace("-0.0", "0.0").into_bytes();
                }
                plain
            };
            names(request, &["ZRANDMEMBER", "ZSCAN"]) && unsigned(ours) == unsigned(theirs)
        },
    },
    Known {
        why: "COMMAND GETKEYS of a name alone is refused in the words of Redis 7.2",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["COMMAND"])
                && request.len() == 3
                && request[1].to_ascii_uppercase().starts_with(b"GETKEYS")
                && ours.starts_with(b"-ERR ")
                && theirs.starts_with(b"-ERR wrong number of arguments")
        },
    },
    Known {
        why: "the same in a transaction, which Redis 7.0 discards",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["COMMAND"])
                && request.len() == 3
                && ours == b"+QUEUED\r\n"
                && theirs.starts_with(b"-ERR wrong number of arguments")
        },
    },
    Known {
        why: "Redis 8: a module of vectors, and words of XREAD's refusal",
        parts: false,
        is: |request, ours, theirs| {
            let has = |text: &[u8]| theirs.windows(text.len()).any(|part| part == text);
            names(request, &["MODULE", "EXEC"]) && has(b"\nvectorset\r\n")
                || names(request, &["XREAD", "XREADGROUP"])
                    && ours.starts_with(b"-ERR Unbalanced '")
                    && has(b"an ID, '+', or '$' must be")
        },
    },
    Known {
        why: "Redis 8: the limits of scores are decimal numbers without spaces in front",
        parts: true,
        is: |request, _, theirs| {
            let is_other = |word: &Vec<u8>| {
                let word = word.strip_prefix(b"(").unwrap_or(word);
                word.first().is_some_and(u8::is_ascii_whitespace)
                    || word.to_ascii_lowercase().windows(2).any(|part| part == b"0x")
            };
            matches!(request[0].first(), Some(b'Z' | b'z'))
                && theirs == b"-ERR min or max is not a float\r\n"
                && request.iter().any(is_other)
        },
    },
    Known {
        why: "a function of the sandbox that stands for one of Lua's, called in the place of its caller, does not know where that was",
        parts: false,
        is: |request, ours, theirs| {
            let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|at| at == part);
            names(request, &["EVAL", "EVAL_RO", "EVALSHA"])
                && ours.starts_with(b"-ERR bad argument #")
                && theirs.starts_with(b"-ERR user_script:")
                && has(
                    theirs,
                    ours.trim_ascii_end().trim_ascii_start().strip_prefix(b"-ERR ").unwrap_or(b"?"),
                )
        },
    },
    Known {
        why: "line breaks in the errors of scripts are spaces: Redis sends them, and its next reply is not understood",
        parts: true,
        is: |request, ours, theirs| {
            let spaced = |text: &[u8]| -> Vec<u8> {
                text.iter().map(|&byte| if byte == b'\r' { b' ' } else { byte }).collect()
            };
            // The line ends at a break, or has breaks of one byte within it.
            let ended = spaced(theirs.strip_suffix(b"\n").unwrap_or(theirs));
            let whole = theirs.strip_suffix(b"\r\n").map(spaced);
            names(request, &["EVAL", "EVAL_RO", "FUNCTION", "EXEC", "FCALL", "SCRIPT"])
                && theirs.first() == Some(&b'-')
                && (ours.strip_prefix(&ended[..]).is_some_and(|rest| rest.starts_with(b" "))
                    || ours
                        .strip_prefix(ended.trim_ascii_end())
                        .is_some_and(|rest| rest.starts_with(b"  "))
                    || whole.is_some_and(|whole| ours.strip_suffix(b"\r\n") == Some(&whole[..])))
        },
    },
    Known {
        why: "bytes behind the last register of a HyperLogLog are damage, as from Redis' mending of CVE-2025-32023 on",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["PFCOUNT", "PFMERGE", "PFADD"])
                && ours.starts_with(b"-INVALIDOBJ ")
                && !theirs.starts_with(b"-")
        },
    },
    Known {
        why: "Redis reckons with room for as many entries as XAUTOCLAIM may claim, and may have none",
        parts: true,
        is: |request, _, theirs| {
            names(request, &["XAUTOCLAIM"]) && theirs.starts_with(b"-ERR Insufficient memory")
        },
    },
    Known {
        why: "a client's name has no zero byte: Redis looks at the bytes before it",
        parts: true,
        is: |request, ours, _| {
            names(request, &["CLIENT"])
                && request.last().is_some_and(|word| word.contains(&0))
                && ours.starts_with(b"-ERR Client names cannot contain")
        },
    },
    Known {
        why: "SORT ALPHA compares all bytes: Redis those before a zero byte",
        parts: true,
        is: |request, ours, theirs| {
            names(request, &["SORT", "SORT_RO"])
                && request.iter().any(|word| word.eq_ignore_ascii_case(b"ALPHA"))
                && (ours.contains(&0) || theirs.contains(&0))
        },
    },
    Known {
        why: "Redis 8: a negative offset of a range by scores counts from the end",
        parts: true,
        is: |request, _, _| {
            let is_negative = |pair: &[Vec<u8>]| {
                pair[0].eq_ignore_ascii_case(b"LIMIT") && pair[1].starts_with(b"-")
            };
            matches!(request[0].first(), Some(b'Z' | b'z')) && request.windows(2).any(is_negative)
        },
    },
    Known {
        why: "WAITAOF tells that writes are durable here, which always holds",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["WAITAOF"])
                && ours == b"*2\r\n:1\r\n:0\r\n"
                && (theirs == b"*2\r\n:0\r\n:0\r\n"
                    || theirs.starts_with(b"-ERR WAITAOF cannot be used when numlocal is set"))
        },
    },
    Known {
        why: "the last second of time: Redis' sum overflows",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["EXPIRETIME", "HEXPIRETIME"])
                && ours == b":9223372036854776\r\n"
                && theirs == b":-9223372036854775\r\n"
        },
    },
    Known {
        why: "Redis 8: places with as few digits as tell them apart",
        parts: false,
        is: |request, ours, theirs| {
            let texts = |reply: &[u8]| -> Vec<String> {
                reply
                    .split(|byte| *byte == b'\n')
                    .map(|line| String::from_utf8_lossy(line).into_owned())
                    .collect()
            };
            let number = |line: &str| line.trim_end().trim_start_matches(',').parse::<f64>().ok();
            let is_close = |(ours, theirs): (&String, &String)| {
                ours == theirs
                    || ours.starts_with('$') && theirs.starts_with('$')
                    || number(ours).zip(number(theirs)).is_some_and(|(a, b)| (a - b).abs() < 1e-15)
            };
            let (ours, theirs) = (texts(ours), texts(theirs));
            matches!(request[0].get(..3), Some(b"GEO" | b"geo"))
                && ours.len() == theirs.len()
                && ours.iter().zip(&theirs).all(is_close)
        },
    },
    Known {
        why: "COMMAND has other commands, and no notes on keys; DEBUG DIGEST and DEBUG OBJECT say other things",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["COMMAND", "DEBUG"])
                && ours.first() == theirs.first()
                && matches!(ours.first(), Some(b'*' | b'+'))
        },
    },
    Known {
        why: "SCAN visits keys in another order, and refuses cursors that it has not issued",
        parts: false,
        is: |request, ours, _| {
            let known = [&b"-ERR invalid cursor"[..], b"-ERR unknown cursor", b"*2"];
            names(request, &["SCAN"]) && known.iter().any(|text| ours.starts_with(text))
        },
    },
    Known {
        why: "DBSIZE counts keys that have expired until they are removed",
        parts: false,
        is: |request, ours, theirs| {
            names(request, &["DBSIZE"]) && ours.starts_with(b":") && theirs.starts_with(b":")
        },
    },
    Known {
        why: "DEBUG ERROR leaves out line breaks at the end of a text",
        parts: false,
        is: |request, ours, theirs| {
            let text = |reply: &[u8]| reply.trim_ascii_end().to_vec();
            names(request, &["DEBUG"]) && text(ours) == text(theirs)
        },
    },
];
