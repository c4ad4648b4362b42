//! Looking for keys: SCAN and KEYS.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::glob;
use crate::number::Decimal;

pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = call.arg(1);
    let found = find(call, pattern, None, usize::MAX)?.found;
    let mut reply = call.reply();
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// What SCAN looks for.
struct Options<'a> {
    count: usize,
    pattern: &'a [u8],
    /// Whether keys of other types than strings are asked for: there are none.
    other_type: bool,
}

pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let db = call.client.db;
    let cursor: u64 = std::str::from_utf8(call.arg(1))
        .ok()
        .filter(|text| !text.starts_with('+'))
        .and_then(|text| text.parse().ok())
        .ok_or("ERR invalid cursor")?;
    let options = options(call)?;
    let after = match cursor {
        0 => None,
        _ => Some(call.service.cursors.key(db, cursor).ok_or(
            "ERR unknown cursor: it is too old, or of another database or an earlier run of the \
             server; begin again with 0",
        )?),
    };
    let after = after.map(<[u8]>::to_vec);
    let page = find(call, options.pattern, after.as_deref(), options.count)?;
    let next = page.last.map_or(0, |key| call.service.cursors.issue(db, &key));
    let found = if options.other_type { Vec::new() } else { page.found };
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(Decimal::unsigned(next).as_bytes());
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn options<'a>(call: &Call<'a>) -> Outcome<Options<'a>> {
    let mut options = Options { count: 10, pattern: b"*", other_type: false };
    let mut words = call.args.from(2).iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        match () {
            () if is(word, "COUNT") => {
                let count = crate::number::parse_i64(value).ok_or(NOT_AN_INTEGER)?;
                options.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
            }
            () if is(word, "MATCH") => options.pattern = value,
            () if is(word, "TYPE") => options.other_type = !is(value, "string"),
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

/// Expired keys that a scan removes at most.
const EXPIRED_MAX: usize = 128;

/// Some keys, in order.
struct Page {
    /// Those that match.
    found: Vec<Box<[u8]>>,
    /// The last one that was looked at, if there may be more.
    last: Option<Box<[u8]>>,
}

/// Looks at up to `count` keys behind `after` that can match `pattern`.
fn find(call: &mut Call<'_>, pattern: &[u8], after: Option<&[u8]>, count: usize) -> Outcome<Page> {
    // Keys that have expired are passed over; some are removed, so that later scans need not. If
    // that fails, this scan finds the same.
    if !call.service.store.in_transaction() {
        let _ = call.service.store.expire_due(EXPIRED_MAX);
    }
    let mut page = Page { found: Vec::new(), last: None };
    let (mut looked_at, mut bytes) = (0, 0);
    let prefix = glob::literal_prefix(pattern);
    let bytes_max = call.service.settings.limits.output_buffer_len_max;
    call.service.store.walk(call.client.db, prefix, after, |key| {
        if glob::matches(pattern, key) {
            bytes += key.len();
            page.found.push(key.into());
        }
        looked_at += 1;
        // A reply beyond the limit is not sent, so it need not be complete.
        if looked_at < count && bytes <= bytes_max {
            return ControlFlow::Continue(());
        }
        page.last = Some(key.into());
        ControlFlow::Break(())
    })?;
    Ok(page)
}
