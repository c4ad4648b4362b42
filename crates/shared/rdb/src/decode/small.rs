//! Values that are packed into one string (`packed`), and lists, which are packed into some.
//!
//! An array is walked twice: once to check it and to count the memory of its elements, and then to take them.

use std::io::BufRead;

use super::{checked_hash, in_order, unique};
use crate::Value;
use crate::codes::{nodes, types};
use crate::error::{Defect, Error, Result};
use crate::packed::{Intset, Item, Listpack, Ziplist, Zipmap};
use crate::source::Source;
use crate::value::HashField;

type Checked<T> = std::result::Result<T, Defect>;
type Items<'a> = Box<dyn Iterator<Item = Checked<Item<'a>>> + 'a>;

/// The value whose type has the code `code`.
pub(super) fn value<R: BufRead>(source: &mut Source<R>, code: u8) -> Result<Value> {
    match code {
        types::LIST_QUICKLIST => return quicklist(source, |_| Ok(nodes::PACKED), ziplist),
        types::LIST_QUICKLIST_2 => {
            let kind = |source: &mut Source<R>| source.length("a node of a list");
            return quicklist(source, kind, listpack);
        }
        // Its earliest expiry is that of a field.
        types::HASH_LISTPACK_EXPIRING => source.skip("the earliest expiry of a hash", 8)?,
        _ => {}
    }
    let part = match code {
        types::LIST_ZIPLIST => "a list as a ziplist",
        types::SET_INTSET => "a set as an intset",
        types::SET_LISTPACK => "a set as a listpack",
        types::SORTED_SET_ZIPLIST => "a sorted set as a ziplist",
        types::SORTED_SET_LISTPACK => "a sorted set as a listpack",
        types::HASH_ZIPMAP => "a hash as a zipmap",
        types::HASH_ZIPLIST => "a hash as a ziplist",
        types::HASH_LISTPACK => "a hash as a listpack",
        _ => "a hash with expiring fields as a listpack",
    };
    let form = match code {
        types::LIST_ZIPLIST | types::SORTED_SET_ZIPLIST | types::HASH_ZIPLIST => ziplist,
        types::SET_INTSET => intset,
        types::HASH_ZIPMAP => zipmap,
        _ => listpack,
    };
    let begin = source.offset();
    let array = source.string(part)?;
    count(source, part, begin, form(&array))?;
    let value = form(&array).and_then(|items| match code {
        types::LIST_ZIPLIST => strings(items).map(Value::List),
        types::SET_INTSET | types::SET_LISTPACK => set(items),
        types::SORTED_SET_ZIPLIST | types::SORTED_SET_LISTPACK => sorted_set(items),
        types::HASH_ZIPMAP | types::HASH_ZIPLIST | types::HASH_LISTPACK => hash(items),
        _ => expiring_hash(items),
    });
    value.map_err(|why| Error::new(begin, part, why))
}

/// A list of nodes. `kind` reads what a node is.
fn quicklist<R: BufRead>(
    source: &mut Source<R>,
    mut kind: impl FnMut(&mut Source<R>) -> Result<u64>,
    form: for<'a> fn(&'a [u8]) -> Checked<Items<'a>>,
) -> Result<Value> {
    const PART: &str = "a node of a list";
    let count_of_nodes = source.length("a list")?;
    let mut elements = Vec::new();
    for _ in 0..count_of_nodes {
        let begin = source.offset();
        let kind = kind(source)?;
        let node = source.string(PART)?;
        match kind {
            nodes::PLAIN => elements.push(node),
            nodes::PACKED => {
                count(source, PART, begin, form(&node))?;
                let packed = form(&node).and_then(strings);
                elements.extend(packed.map_err(|why| Error::new(begin, PART, why))?);
            }
            _ => {
                return source.refuse(PART, begin, Defect::new("it is of no kind that there is"));
            }
        }
    }
    Ok(Value::List(elements))
}

/// Checks an array, and counts the memory of its elements.
fn count<R: BufRead>(
    source: &mut Source<R>,
    part: &'static str,
    begin: u64,
    items: Checked<Items<'_>>,
) -> Result<()> {
    let refused = |why| Error::new(begin, part, why);
    for item in items.map_err(refused)? {
        let item = item.map_err(refused)?;
        source.count(part, item.text().len() as u64)?;
    }
    Ok(())
}

fn listpack(array: &[u8]) -> Checked<Items<'_>> {
    Ok(Box::new(Listpack::new(array)?))
}

fn ziplist(array: &[u8]) -> Checked<Items<'_>> {
    Ok(Box::new(Ziplist::new(array)?))
}

fn zipmap(array: &[u8]) -> Checked<Items<'_>> {
    Ok(Box::new(Zipmap::new(array)?))
}

fn intset(array: &[u8]) -> Checked<Items<'_>> {
    Ok(Box::new(Intset::new(array)?))
}

fn strings(items: Items<'_>) -> Checked<Vec<Vec<u8>>> {
    items.map(|item| item.map(Item::into_vec)).collect()
}

fn set(items: Items<'_>) -> Checked<Value> {
    let members = strings(items)?;
    unique(members.iter().map(Vec::as_slice))?;
    Ok(Value::Set(members))
}

fn sorted_set(mut items: Items<'_>) -> Checked<Value> {
    let mut members = Vec::new();
    while let Some([member, score]) = group(&mut items)? {
        members.push((member.into_vec(), score.score()?));
    }
    in_order(members)
}

fn hash(mut items: Items<'_>) -> Checked<Value> {
    let mut fields = Vec::new();
    while let Some([name, value]) = group(&mut items)? {
        let (name, value) = (name.into_vec(), value.into_vec());
        fields.push(HashField { name, value, expires_ms: None });
    }
    checked_hash(fields)
}

fn expiring_hash(mut items: Items<'_>) -> Checked<Value> {
    let mut fields = Vec::new();
    while let Some([name, value, expires_ms]) = group(&mut items)? {
        let expires_ms = u64::try_from(expires_ms.integer()?);
        let expires_ms = expires_ms.or(Err(Defect::new("a field expires before 1970")))?;
        let (name, value) = (name.into_vec(), value.into_vec());
        fields.push(HashField { name, value, expires_ms: Some(expires_ms) });
    }
    checked_hash(fields)
}

/// The next `N` items, which make an element; `None` at the end.
fn group<'a, const N: usize>(items: &mut Items<'a>) -> Checked<Option<[Item<'a>; N]>> {
    let mut group = [Item::Integer(0); N];
    for (at, place) in group.iter_mut().enumerate() {
        match items.next() {
            Some(item) => *place = item?,
            None if at == 0 => return Ok(None),
            None => return Err(Defect::new("its last element is not whole")),
        }
    }
    Ok(Some(group))
}
