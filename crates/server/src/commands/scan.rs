//! Looking for keys: SCAN and KEYS.
//!
//! SCAN goes through the partitions one after the other. A cursor is the number of a position in
//! the partition's [`Cursors`](crate::cursors::Cursors), times the number of partitions, plus that
//! of the partition; position 0 is the partition's beginning, so cursor 0 is that of all. Where the keys
//! have no order, what stands at such a position is one in the table instead of a key.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::glob;
use crate::number::Decimal;
use crate::partition_set::PartitionSet;

pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let pattern = call.arg(1);
    let mut page = Page::default();
    find(call, None, pattern, None, usize::MAX, &mut page)?;
    let found = page.found;
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
    let partitions = call.service.store.partitions() as u64;
    let (mut at, position) = ((cursor % partitions) as usize, cursor / partitions);
    let mut after = match position {
        0 => None,
        _ => Some(call.service.store.part_mut(at).cursors.key(db, position).ok_or(
            "ERR unknown cursor: it is too old, or of another database or an earlier run of the \
             server; begin again with 0",
        )?),
    }
    .map(<[u8]>::to_vec);
    let mut page = Page::default();
    let next = loop {
        let after = std::mem::take(&mut after);
        find(call, Some(at), options.pattern, after.as_deref(), options.count, &mut page)?;
        if let Some(key) = &page.last {
            break call.service.store.part_mut(at).cursors.issue(db, key) * partitions + at as u64;
        }
        at += 1;
        if at as u64 == partitions {
            break 0;
        }
        // The next partition is another request, unless it is at hand.
        if !PartitionSet::only(at).is_within(call.service.store.here()) {
            break at as u64;
        }
    };
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

/// Some keys, in the order of their partitions.
#[derive(Default)]
struct Page {
    /// Those that match.
    found: Vec<Box<[u8]>>,
    /// The number of keys that were looked at.
    looked_at: usize,
    /// Bytes of those that match.
    bytes: usize,
    /// The last one that was looked at, or the position in the table that comes next, if there may be more in
    /// its partition.
    last: Option<Box<[u8]>>,
}

/// Looks at keys behind `after` that can match `pattern`, of one partition or of all, until `count`
/// are on the page.
fn find(
    call: &mut Call<'_>,
    partition: Option<usize>,
    pattern: &[u8],
    after: Option<&[u8]>,
    count: usize,
    page: &mut Page,
) -> Outcome {
    // Keys that have expired are passed over; some are removed, so that later scans need not. If
    // that fails, this scan finds the same.
    if !call.service.store.in_transaction() {
        let _ = call.service.store.expire_due(EXPIRED_MAX);
    }
    let bytes_max = call.service.settings.limits.output_buffer_len_max;
    if let Some(partition) = partition
        && visit(call, partition, pattern, after, count, page, bytes_max)?
    {
        return Ok(());
    }
    let prefix = glob::literal_prefix(pattern);
    call.service.store.walk(call.client.db, partition, prefix, after, |key| {
        if glob::matches(pattern, key) {
            page.bytes += key.len();
            page.found.push(key.into());
        }
        page.looked_at += 1;
        // A reply beyond the limit is not sent, so it need not be complete.
        if page.looked_at < count && page.bytes <= bytes_max {
            return ControlFlow::Continue(());
        }
        page.last = Some(key.into());
        ControlFlow::Break(())
    })?;
    Ok(())
}

/// Keys that are visited at once: between them, the bytes of the page are looked at.
const VISITED_AT_ONCE: usize = 1000;

/// [`find`] in a partition whose keys have no order; returns whether it is one.
fn visit(
    call: &mut Call<'_>,
    partition: usize,
    pattern: &[u8],
    after: Option<&[u8]>,
    count: usize,
    page: &mut Page,
    bytes_max: usize,
) -> Outcome<bool> {
    let mut position = after.and_then(|after| after.try_into().ok()).map_or(0, u64::from_be_bytes);
    loop {
        let step = count.saturating_sub(page.looked_at).clamp(1, VISITED_AT_ONCE);
        let db = call.client.db;
        let next = call.service.store.visit(db, partition, position, step, |key| {
            if glob::matches(pattern, key) {
                page.bytes += key.len();
                page.found.push(key.into());
            }
            page.looked_at += 1;
        })?;
        position = match next {
            None => return Ok(false),
            Some(0) => return Ok(true),
            Some(next) => next,
        };
        if page.looked_at >= count || page.bytes > bytes_max {
            page.last = Some(position.to_be_bytes().into());
            return Ok(true);
        }
    }
}
