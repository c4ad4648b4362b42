//! SORT: the elements of a list, a set or a sorted set, in order, or what keys have whose names are made from them.
//!
//! A pattern has the element in the place of its first `*`. The key that it names has a string; or, behind `->`, follows the
//! name of a field of the hash there. Such keys may be in any partition: a request with patterns has all of them here.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::check_ending;
use crate::collection::hash::Hash;
use crate::collection::list::{End, List};
use crate::collection::map::Map;
use crate::collection::sorted_set::{Scores, SortedSet};
use crate::double;
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX, WRONG_TYPE};
use crate::number::parse_i64;
use crate::resp::Args;
use crate::stored::Type;

/// Whether a request may read keys that its words describe by patterns.
pub(crate) fn reads_patterns(args: Args<'_>) -> bool {
    args.from(2).iter().any(|word| word.contains(&b'*'))
}

/// The option of a request that reads keys which its words do not name, so that its client must be allowed to read any:
/// BY with a pattern, or GET.
pub(crate) fn reads_any_key(args: Args<'_>) -> Option<&'static str> {
    let mut words = args.from(2).iter();
    while let Some(word) = words.next() {
        match () {
            () if is(word, "LIMIT") => {
                words.next();
                words.next();
            }
            () if is(word, "STORE") => {
                words.next();
            }
            () if is(word, "BY") && words.next().is_some_and(|by| by.contains(&b'*')) => {
                return Some("BY");
            }
            () if is(word, "GET") && words.next().is_some() => return Some("GET"),
            () => {}
        }
    }
    None
}

/// The options.
#[derive(Debug)]
struct Options<'a> {
    is_descending: bool,
    /// As texts, and not as numbers.
    is_alphabetic: bool,
    /// The number of elements that are passed over, and of those that are wanted; negative: all.
    limit: Option<(i64, i64)>,
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    target: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a>, may_store: bool) -> Outcome<Self> {
        let mut options = Self {
            is_descending: false,
            is_alphabetic: false,
            limit: None,
            by: None,
            get: Vec::new(),
            target: None,
        };
        let mut words = call.args.from(2).iter();
        while let Some(word) = words.next() {
            match () {
                () if is(word, "ASC") => options.is_descending = false,
                () if is(word, "DESC") => options.is_descending = true,
                () if is(word, "ALPHA") => options.is_alphabetic = true,
                () if is(word, "LIMIT") && words.len() >= 2 => {
                    let mut number = || words.next().and_then(parse_i64).ok_or(NOT_AN_INTEGER);
                    options.limit = Some((number()?, number()?));
                }
                () if is(word, "STORE") && may_store => {
                    options.target = Some(words.next().ok_or(SYNTAX)?);
                }
                () if is(word, "BY") => options.by = Some(words.next().ok_or(SYNTAX)?),
                () if is(word, "GET") => options.get.push(words.next().ok_or(SYNTAX)?),
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }

    /// Whether the elements stay in their order: BY names no key by them.
    fn is_unsorted(&self) -> bool {
        self.by.is_some_and(|by| !by.contains(&b'*'))
    }

    /// The elements that are wanted of so many.
    fn wanted(&self, len: usize) -> std::ops::Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let start = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

pub(super) fn sort(call: &mut Call<'_>) -> Outcome {
    run(call, true)
}

pub(super) fn sort_ro(call: &mut Call<'_>) -> Outcome {
    run(call, false)
}

fn run(call: &mut Call<'_>, may_store: bool) -> Outcome {
    let mut options = Options::parse(call, may_store)?;
    let (elements, of) = read_all(call, call.arg(1), &options)?;
    let mut is_unsorted = options.is_unsorted();
    // A set without an order is sorted nevertheless before it is stored, or for a script, so that the list is always the
    // same.
    let is_repeatable = options.target.is_some() || call.client.script_began.is_some();
    if is_unsorted && of == Some(Type::Set) && is_repeatable {
        is_unsorted = false;
        options.by = None;
        options.is_alphabetic = true;
    }
    let sorted = match is_unsorted {
        true => elements,
        false => sort_elements(call, elements, &options)?,
    };
    let wanted = &sorted[options.wanted(sorted.len())];
    match options.target {
        Some(target) => store_result(call, target, wanted, &options),
        None => reply(call, wanted, &options),
    }
}

/// The elements of a collection, in its order, or the other way round if that is asked for; and its type.
fn read_all(
    call: &mut Call<'_>,
    key: &[u8],
    options: &Options<'_>,
) -> Outcome<(Vec<Vec<u8>>, Option<Type>)> {
    let Some(value) = call.read_any(key)? else { return Ok((Vec::new(), None)) };
    let (of, db) = (value.value_type()?, call.client.db);
    let store = &mut call.service.store;
    let mut all: Vec<Vec<u8>> = Vec::new();
    match of {
        Type::List => {
            if let Some(list) = List::find(store, db, key)? {
                list.visit(store, 0, |_, element| {
                    all.push(element.to_vec());
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        Type::Set => {
            if let Some(set) = Map::find(store, db, key, of)? {
                set.visit(store, |member, _| {
                    all.push(member.to_vec());
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        Type::SortedSet => {
            if let Some(set) = SortedSet::find(store, db, key)? {
                set.visit_in(store, &[Scores::ALL], |_, member| {
                    all.push(member.to_vec());
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        _ => return Err(WRONG_TYPE.into()),
    }
    if of != Type::Set && options.is_unsorted() && options.is_descending {
        all.reverse();
    }
    Ok((all, Some(of)))
}

/// The weight that an element is sorted by.
enum Weight {
    Number(f64),
    Text(Vec<u8>),
    /// Its key, or field, is not there.
    Absent,
    /// The element itself, as a text.
    Own,
}

fn sort_elements(
    call: &mut Call<'_>,
    elements: Vec<Vec<u8>>,
    options: &Options<'_>,
) -> Outcome<Vec<Vec<u8>>> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        call.check_ending()?;
        let weight = weigh(call, &element, options)?;
        weighed.push((weight, element));
    }
    weighed.sort_by(|one, other| {
        let order = compare(one, other);
        if options.is_descending { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

fn weigh(call: &mut Call<'_>, element: &[u8], options: &Options<'_>) -> Outcome<Weight> {
    let named = match options.by {
        Some(by) => Some(look_up(call, by, element)?),
        None => None,
    };
    if options.is_alphabetic {
        return Ok(match named {
            None => Weight::Own,
            Some(Some(text)) => Weight::Text(text),
            Some(None) => Weight::Absent,
        });
    }
    let text = match &named {
        None => element,
        Some(Some(text)) => text,
        Some(None) => return Ok(Weight::Number(0.0)),
    };
    let number = double::parse_weight(text)
        .ok_or("ERR One or more scores can't be converted into double")?;
    Ok(Weight::Number(number))
}

fn compare(one: &(Weight, Vec<u8>), other: &(Weight, Vec<u8>)) -> Ordering {
    match (&one.0, &other.0) {
        (Weight::Number(first), Weight::Number(second)) => {
            // Zeros of both signs are equal, and none is NaN.
            first.partial_cmp(second).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(&other.1))
        }
        (Weight::Text(first), Weight::Text(second)) => first.cmp(second),
        (Weight::Absent, Weight::Absent) => Ordering::Equal,
        (Weight::Absent, _) => Ordering::Less,
        (_, Weight::Absent) => Ordering::Greater,
        _ => one.1.cmp(&other.1),
    }
}

/// The value of the key, or of the field, that a pattern names for an element.
fn look_up(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->");
    let (behind, field) = match arrow {
        Some(at) if at + 2 < behind.len() => (&behind[..at], Some(&behind[at + 2..])),
        _ => (behind, None),
    };
    let key = [before, element, behind].concat();
    let Some(value) = call.read_any(&key)? else { return Ok(None) };
    let (store, db) = (&mut call.service.store, call.client.db);
    match (value.value_type()?, field) {
        (Type::Hash, Some(field)) => {
            let Some(mut hash) = Hash::find(store, db, &key)? else { return Ok(None) };
            let found = hash.get(store, field)?;
            hash.close(store)?;
            Ok(found.map(|field| field.value().to_vec()))
        }
        (Type::String, None) => Ok(Some(value.into_string()?.to_vec())),
        _ => Ok(None),
    }
}

fn reply(call: &mut Call<'_>, wanted: &[Vec<u8>], options: &Options<'_>) -> Outcome {
    let start = call.out.len();
    call.reply().array(wanted.len() * options.get.len().max(1));
    for element in wanted {
        if options.get.is_empty() {
            call.reply().bulk(element);
        }
        for pattern in &options.get {
            let found = look_up(call, pattern, element)?;
            call.reply().bulk_or_null(found.as_deref());
        }
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// Stores what would be replied, as a list.
fn store_result(
    call: &mut Call<'_>,
    target: &[u8],
    wanted: &[Vec<u8>],
    options: &Options<'_>,
) -> Outcome {
    // A key that cannot be read refuses the command before it changes anything.
    let mut found = Vec::new();
    for element in wanted {
        call.check_ending()?;
        for pattern in &options.get {
            found.push(look_up(call, pattern, element)?.unwrap_or_default());
        }
    }
    let (db, store) = (call.client.db, &mut call.service.store);
    let mut list = List::new(db, target);
    for element in if options.get.is_empty() { wanted } else { &found } {
        check_ending(store)?;
        list.push(store, End::Right, element)?;
    }
    list.save_new(store, "sortstore")?;
    call.reply().integer((wanted.len() * options.get.len().max(1)) as i64);
    Ok(())
}
