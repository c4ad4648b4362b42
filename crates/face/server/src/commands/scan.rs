//! Looking for keys, SCAN and KEYS, and for elements of collections: the options and the reply of HSCAN and SSCAN.
//!
//! SCAN goes through the partitions one after the other. A cursor is a position in a partition, times the number
//! of partitions, plus that of the partition; position 0 is the partition's beginning, so cursor 0 is that of all.
//! Where the keys have an order, a position is a number for which the partition's [`Cursors`](crate::cursors::Cursors)
//! keep a key. Where they have none, it is the place in the table itself: no state is kept, and as with Redis any
//! number is a valid cursor at any time.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::call::{Call, is};
use crate::collection::hash;
use crate::ending::Ending;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::glob;
use crate::number::Decimal;
use crate::partition_set::PartitionSet;
use crate::reply::{Protocol, Reply};

pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let bytes_max = call.service.settings.reply_len_max();
    let options =
        Options { count: usize::MAX, bytes_max, pattern: call.arg(1), ..Options::new(call) };
    expire_some(call);
    let mut page = Page::default();
    let stopped_at = walk(call, None, None, &options, &mut page)?;
    call.check_ending()?;
    if stopped_at.is_some() {
        let why =
            format!("ERR the keys take more than {bytes_max} bytes; SCAN returns them in pages");
        return Err(why.into());
    }
    let found = page.found;
    let mut reply = call.reply();
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// A word as the cursor of a scan of elements, as C's `strtoul` reads it: an empty one is 0, and a sign is taken.
pub(super) fn element_cursor(word: &[u8]) -> Outcome<u64> {
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if word.is_empty() {
        return Ok(0);
    }
    let cursor = cursor(digits)?;
    Ok(if is_negative { cursor.wrapping_neg() } else { cursor })
}

/// A word as a cursor.
fn cursor(word: &[u8]) -> Outcome<u64> {
    let cursor = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'));
    cursor.and_then(|text| text.parse().ok()).ok_or_else(|| "ERR invalid cursor".into())
}

/// The keys that have a type.
fn of_type(
    call: &mut Call<'_>,
    keys: Vec<Box<[u8]>>,
    name: Option<&[u8]>,
) -> Outcome<Vec<Box<[u8]>>> {
    let Some(name) = name else { return Ok(keys) };
    let mut found = Vec::new();
    for key in keys {
        call.check_ending()?;
        let value = call.service.store.get(call.client.db, &key)?;
        let of = value.and_then(|value| value.value_type().ok());
        if of.is_some_and(|of| is(name, of.name())) {
            found.push(key);
        }
    }
    Ok(found)
}

/// The options of SCAN.
struct Options<'a> {
    count: usize,
    /// Bytes that the keys may take that are found.
    bytes_max: usize,
    pattern: &'a [u8],
    /// The name of the type that the keys must have.
    of_type: Option<&'a [u8]>,
    /// The end of the server, at which it looks no further.
    ending: Arc<Ending>,
}

impl Options<'_> {
    fn new(call: &Call<'_>) -> Self {
        let ending = Arc::clone(&call.service.store.ending);
        // The last key may be one too many.
        let bytes_max = call.service.settings.reply_len_max() / 2;
        Self { count: 10, bytes_max, pattern: b"*", of_type: None, ending }
    }
}

pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.arg(1))?;
    let options = options(call)?;
    let partitions = call.service.store.partitions() as u64;
    let (mut at, mut position) = ((cursor % partitions) as usize, cursor / partitions);
    let begun_at = at;
    expire_some(call);
    let mut page = Page::default();
    let next = loop {
        match go_on(call, at, position, &options, &mut page) {
            Ok(0) => {}
            Ok(next) => break next * partitions + at as u64,
            // The keys that were found before the error are returned first.
            Err(_) if at > begun_at => break at as u64,
            Err(failure) => return Err(failure),
        }
        (at, position) = (at + 1, 0);
        if at as u64 == partitions {
            break 0;
        }
        // The next partition is left to another request, unless its part is here; so is one that refuses requests.
        let next = PartitionSet::only(at);
        let store = &call.service.store;
        if !next.is_within(store.here()) || store.broken(next).is_some() {
            break at as u64;
        }
    };
    call.check_ending()?;
    let found = of_type(call, page.found, options.of_type)?;
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(Decimal::unsigned(next).as_bytes());
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn options<'a>(call: &Call<'a>) -> Outcome<Options<'a>> {
    let mut options = Options::new(call);
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
            () if is(word, "TYPE") => options.of_type = Some(value),
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

/// Expired keys that a scan removes at most.
const EXPIRED_MAX: usize = 128;

/// Hashes with expired fields that it looks at.
const HASHES_DUE_MAX: usize = 16;

/// Bytes that a key takes beside its own, about: of the allocator, and in the reply.
const BESIDE_KEY: usize = 48;

/// Some keys, in the order of their partitions.
#[derive(Default)]
struct Page {
    /// The keys that match.
    found: Vec<Box<[u8]>>,
    /// The number of keys that were looked at.
    looked_at: usize,
    /// Bytes that those take.
    bytes: usize,
}

impl Page {
    fn look_at(&mut self, key: &[u8], options: &Options<'_>) {
        if glob::matches(options.pattern, key, || !options.ending.breaks_off()) {
            self.bytes += key.len() + BESIDE_KEY;
            self.found.push(key.into());
        }
        self.looked_at += 1;
    }

    /// Whether it has as many keys as requested, or as one reply may have. At the end of the server the result need not
    /// be complete.
    fn is_full(&self, options: &Options<'_>) -> bool {
        self.looked_at >= options.count
            || self.bytes > options.bytes_max
            || options.ending.breaks_off()
    }
}

/// Removes some keys that have expired, so that later scans need not pass over them as this one does.
fn expire_some(call: &mut Call<'_>) {
    if !call.service.store.in_transaction() {
        call.service.store.expire_due(EXPIRED_MAX);
        hash::remove_due(&mut call.service.store, HASHES_DUE_MAX);
    }
}

/// Looks at the keys of a partition from a position on, until the page is full. Returns the next position, or 0
/// behind the last.
fn go_on(
    call: &mut Call<'_>,
    partition: usize,
    position: u64,
    options: &Options<'_>,
    page: &mut Page,
) -> Outcome<u64> {
    if let Some(next) = visit(call, partition, position, options, page)? {
        return Ok(next);
    }
    let db = call.client.db;
    let (mut before, mut after) = (None, None);
    if position > 0 {
        let key = call.service.store.part_mut(partition).cursors.use_again(db, position).ok_or(
            "ERR unknown cursor: it is too old, or of another database or an earlier run of the \
             server; begin again with 0",
        )?;
        (before, after) = (Some(position), Some(key));
    }
    let last = walk(call, Some(partition), after.as_deref(), options, page)?;
    let cursors = &mut call.service.store.part_mut(partition).cursors;
    if let Some(key) = last {
        return Ok(cursors.issue(db, &key, before));
    }
    before.into_iter().for_each(|cursor| cursors.pass(cursor));
    Ok(0)
}

/// Looks at keys behind `after`, in their order, of one partition or of all, until the page is full. Returns the
/// last one, if there may be more.
fn walk(
    call: &mut Call<'_>,
    partition: Option<usize>,
    after: Option<&[u8]>,
    options: &Options<'_>,
    page: &mut Page,
) -> Outcome<Option<Box<[u8]>>> {
    let prefix = glob::literal_prefix(options.pattern);
    let mut last = None;
    call.service.store.walk(call.client.db, partition, prefix, after, |key| {
        page.look_at(key, options);
        if !page.is_full(options) {
            return ControlFlow::Continue(());
        }
        last = Some(key.into());
        ControlFlow::Break(())
    })?;
    Ok(last)
}

/// Keys that are visited at once: between them, the bytes of the page are looked at.
const VISITED_AT_ONCE: usize = 1000;
/// Low bits of a place in a table that a position leaves out. Tables tell places apart by fewer than the 47
/// bits that are left: with six for the partition, a cursor is exact as a floating-point number too.
const UNUSED_BITS: u32 = 17;

/// [`go_on`] in a partition whose keys have no order; `None` if they have one.
fn visit(
    call: &mut Call<'_>,
    partition: usize,
    position: u64,
    options: &Options<'_>,
    page: &mut Page,
) -> Outcome<Option<u64>> {
    let db = call.client.db;
    let mut place = position << UNUSED_BITS;
    loop {
        let room = options.bytes_max.saturating_sub(page.bytes) / halite::KEY_LEN_MAX;
        let wanted = options.count.saturating_sub(page.looked_at);
        let step = wanted.min(room).clamp(1, VISITED_AT_ONCE);
        let visit = |key: &[u8]| page.look_at(key, options);
        place = match call.service.store.visit(db, partition, place, step, visit)? {
            None => return Ok(None),
            Some(0) => return Ok(Some(0)),
            Some(next) => next,
        };
        if page.is_full(options) {
            return Ok(Some(place >> UNUSED_BITS));
        }
    }
}

/// The options of a scan of a collection's elements.
pub(super) struct ElementOptions<'a> {
    pub(super) count: u64,
    pattern: &'a [u8],
    /// Only fields are requested, without their values.
    pub(super) no_values: bool,
}

impl<'a> ElementOptions<'a> {
    /// Reads the options, from the third argument on.
    pub(super) fn parse(call: &Call<'a>, has_values: bool) -> Outcome<Self> {
        let mut options = Self { count: 10, pattern: b"*", no_values: false };
        let mut words = call.args.from(3).iter();
        while let Some(word) = words.next() {
            match () {
                () if has_values && is(word, "NOVALUES") => options.no_values = true,
                () if is(word, "COUNT") => {
                    let count = words.next().ok_or(SYNTAX)?;
                    let count = crate::number::parse_i64(count).ok_or(NOT_AN_INTEGER)?;
                    options.count =
                        u64::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
                }
                () if is(word, "MATCH") => options.pattern = words.next().ok_or(SYNTAX)?,
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }
}

/// The reply to a scan of a collection's elements.
pub(super) struct ElementPage<'a> {
    /// The elements as they are replied.
    elements: Vec<u8>,
    count: usize,
    bytes_max: usize,
    pattern: &'a [u8],
    protocol: Protocol,
    ending: Arc<Ending>,
}

impl<'a> ElementPage<'a> {
    pub(super) fn new(call: &Call<'_>, options: &ElementOptions<'a>) -> Self {
        Self {
            elements: Vec::new(),
            count: 0,
            bytes_max: call.service.settings.reply_len_max(),
            pattern: options.pattern,
            protocol: call.client.protocol,
            ending: Arc::clone(&call.service.store.ending),
        }
    }

    /// Adds an element, and its value if that is requested, if it matches. Of a page that is too long for its client the
    /// rest is not needed.
    pub(super) fn look_at(&mut self, element: &[u8], value: Option<&[u8]>) -> Outcome {
        if self.ending.breaks_off() {
            return Err(Failure::Interrupted);
        }
        let is_wanted = self.elements.len() <= self.bytes_max
            && glob::matches(self.pattern, element, || !self.ending.breaks_off());
        if is_wanted {
            let mut reply = Reply { out: &mut self.elements, protocol: self.protocol };
            reply.bulk(element);
            value.into_iter().for_each(|value| reply.bulk(value));
            self.count += 1 + usize::from(value.is_some());
        }
        Ok(())
    }

    /// Replies with the elements, and where to go on.
    pub(super) fn reply(self, call: &mut Call<'_>, next: u64) {
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(Decimal::unsigned(next).as_bytes());
        reply.array(self.count);
        reply.out.extend_from_slice(&self.elements);
    }
}

/// The reply to a scan of a collection that is not there.
pub(super) fn reply_none(call: &mut Call<'_>) {
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}
