//! Streams.
//!
//! ```text
//! nodes | (id, 16 | listpack)... | entries | last id | in the second form: first id, highest deleted id, entries
//! added | groups | group...
//!
//! A group:      name | last id | in the second form: entries read | pending | (id, 16 | ms, 8 | deliveries)... |
//!               consumers | consumer...
//! A consumer:   name | ms seen, 8 | in the third form: ms active, 8 | pending | (id, 16)...
//! ```
//!
//! Numbers are lengths, ids are two of them; those of 16 bytes have the highest byte first, and are in ascending order.
//! The entries of a node are in its listpack (`encode::stream` has its layout); deleted ones are passed over.

use std::io::BufRead;

use super::{reserved, unique};
use crate::codes::{entry_flags, types};
use crate::error::{Defect, Error, Result};
use crate::packed::{Item, Listpack};
use crate::source::Source;
use crate::stream::{Consumer, Entry, Group, Id, Pending, Stream};

type Checked<T> = std::result::Result<T, Defect>;

const PART: &str = "a stream";
const NODE: &str = "a node of a stream";
const GROUP: &str = "a group of a stream";
const PENDING: &str = "the pending entries of a group of a stream";
const CONSUMER: &str = "a consumer of a stream";

/// How a consumer is marked that never got an entry, and a group whose number of read entries is not known.
const NONE: i64 = -1;

/// The stream whose type has the code `code`.
pub(super) fn stream<R: BufRead>(source: &mut Source<R>, code: u8) -> Result<Stream> {
    let begin = source.offset();
    let mut stream = Stream::default();
    let nodes = source.length(PART)?;
    for _ in 0..nodes {
        node(source, &mut stream.entries)?;
    }
    let len = source.length(PART)?;
    if len != stream.entries.len() as u64 {
        let why = format!("it says that it has {len} entries, and has {}", stream.entries.len());
        return source.refuse(PART, begin, Defect::from_text(why));
    }
    stream.last_id = id(source)?;
    if stream.entries.last().is_some_and(|entry| entry.id > stream.last_id) {
        return source.refuse(
            PART,
            begin,
            Defect::new("its last id is lower than that of an entry"),
        );
    }
    if code == types::STREAM {
        stream.entries_added = len;
    } else {
        // The id of the first entry, which the entry has itself.
        id(source)?;
        stream.max_deleted_id = id(source)?;
        stream.entries_added = source.length(PART)?;
    }
    let groups = source.length(PART)?;
    for _ in 0..groups {
        let group = group(source, code, &stream)?;
        stream.groups.push(group);
    }
    let names = stream.groups.iter().map(|group| group.name.as_slice());
    unique(names).map_err(|why| Error::new(begin, "the groups of a stream", why))?;
    Ok(stream)
}

fn id<R: BufRead>(source: &mut Source<R>) -> Result<Id> {
    Ok(Id {
        ms: source.length("an id of a stream")?,
        sequence: source.length("an id of a stream")?,
    })
}

/// Appends the entries of a node.
fn node<R: BufRead>(source: &mut Source<R>, entries: &mut Vec<Entry>) -> Result<()> {
    let begin = source.offset();
    let refused = |why| Error::new(begin, NODE, why);
    let first = source.string(NODE)?;
    let first = first.try_into().map(Id::from_bytes);
    let first =
        first.or_else(|_| source.refuse(NODE, begin, Defect::new("its id is not of 16 bytes")))?;
    let array = source.string(NODE)?;
    let mut node = Node::new(&array, first).map_err(refused)?;
    while let Some(entry) = node.next().map_err(refused)? {
        let len = |(name, value): (Item<'_>, Item<'_>)| [name.text().len(), value.text().len()];
        source.count(NODE, 0)?;
        for len in entry.fields.iter().copied().flat_map(len) {
            source.count(NODE, len as u64)?;
        }
        if entries.last().is_some_and(|last| last.id >= entry.id) {
            return source.refuse(
                NODE,
                begin,
                Defect::new("its entries are not in ascending order"),
            );
        }
        let owned = |(name, value): (Item<'_>, Item<'_>)| (name.into_vec(), value.into_vec());
        let fields = entry.fields.into_iter().map(owned).collect();
        entries.push(Entry { id: entry.id, fields });
    }
    Ok(())
}

/// The entries in the listpack of a node.
struct Node<'a> {
    items: Listpack<'a>,
    first: Id,
    /// The fields' names of the node's first entry.
    names: Vec<Item<'a>>,
    /// Entries to come.
    left: u64,
    /// Those of them that are deleted.
    deleted: u64,
}

/// An entry in a listpack.
struct Packed<'a> {
    id: Id,
    fields: Vec<(Item<'a>, Item<'a>)>,
}

impl<'a> Node<'a> {
    fn new(array: &'a [u8], first: Id) -> Checked<Self> {
        let mut node =
            Self { items: Listpack::new(array)?, first, names: Vec::new(), left: 0, deleted: 0 };
        let live = node.number()?;
        node.deleted = node.number()?;
        node.left = live.checked_add(node.deleted).ok_or(Defect::new("it has too many entries"))?;
        let names = node.number()?;
        for _ in 0..names {
            let name = node.item()?;
            node.names.push(name);
        }
        match node.number()? {
            0 => Ok(node),
            _ => Err(Defect::new("its first entry has no end")),
        }
    }

    /// The next entry that is not deleted.
    fn next(&mut self) -> Checked<Option<Packed<'a>>> {
        while self.left > 0 {
            self.left -= 1;
            let flags = self.number()?;
            let (ms, sequence) = (self.integer()?, self.integer()?);
            let Id { ms: first_ms, sequence: first_sequence } = self.first;
            let id = Id {
                ms: first_ms.wrapping_add_signed(ms),
                sequence: first_sequence.wrapping_add_signed(sequence),
            };
            let (fields, items) = self.fields(flags)?;
            if self.number()? != items {
                return Err(Defect::new("an entry does not have as many items as it says"));
            }
            if flags & entry_flags::DELETED == 0 {
                return Ok(Some(Packed { id, fields }));
            }
            self.deleted = match self.deleted.checked_sub(1) {
                Some(deleted) => deleted,
                None => return Err(Defect::new("more of its entries are deleted than it says")),
            };
        }
        match self.items.next() {
            None if self.deleted == 0 => Ok(None),
            None => Err(Defect::new("fewer of its entries are deleted than it says")),
            Some(item) => {
                item?;
                Err(Defect::new("it goes on behind its last entry"))
            }
        }
    }

    /// The fields of an entry, and the number of items that the entry has with them.
    fn fields(&mut self, flags: u64) -> Checked<(Vec<(Item<'a>, Item<'a>)>, u64)> {
        let mut fields = Vec::new();
        if flags & entry_flags::SAME_FIELDS != 0 {
            for at in 0..self.names.len() {
                fields.push((self.names[at], self.item()?));
            }
            return Ok((fields, self.names.len() as u64 + 3));
        }
        let count = self.number()?;
        for _ in 0..count {
            fields.push((self.item()?, self.item()?));
        }
        Ok((fields, 2 * fields_len(count)? + 4))
    }

    fn item(&mut self) -> Checked<Item<'a>> {
        self.items.next().unwrap_or(Err(Defect::new("its last entry is not whole")))
    }

    fn integer(&mut self) -> Checked<i64> {
        self.item()?.integer()
    }

    /// An integer that cannot be negative.
    fn number(&mut self) -> Checked<u64> {
        let number = u64::try_from(self.integer()?);
        number.or(Err(Defect::new("a number of it is negative")))
    }
}

/// The number of fields, if twice as many items are possible.
fn fields_len(count: u64) -> Checked<u64> {
    match count < 1 << 32 {
        true => Ok(count),
        false => Err(Defect::new("an entry has too many fields")),
    }
}

fn group<R: BufRead>(source: &mut Source<R>, code: u8, stream: &Stream) -> Result<Group> {
    let begin = source.offset();
    let mut group = Group { name: source.string(GROUP)?, ..Group::default() };
    group.last_id = id(source)?;
    group.entries_read = match code {
        types::STREAM => estimated_read(stream, group.last_id),
        _ => u64::try_from(source.length(GROUP)?.cast_signed()).ok(),
    };
    let count = source.length(GROUP)?;
    group.pending = reserved(count);
    for _ in 0..count {
        source.count(PENDING, 0)?;
        let at = source.offset();
        let pending = Pending {
            id: Id::from_bytes(source.array(PENDING)?),
            consumer: usize::MAX,
            delivered_ms: i64::from_le_bytes(source.array(PENDING)?),
            deliveries: source.length(PENDING)?,
        };
        if group.pending.last().is_some_and(|last| last.id >= pending.id) {
            return source.refuse(PENDING, at, Defect::new("they are not in ascending order"));
        }
        group.pending.push(pending);
    }
    let consumers = source.length(GROUP)?;
    for _ in 0..consumers {
        consumer(source, code, &mut group)?;
    }
    if group.pending.iter().any(|pending| pending.consumer == usize::MAX) {
        return source.refuse(GROUP, begin, Defect::new("a pending entry has no consumer"));
    }
    let names = group.consumers.iter().map(|consumer| consumer.name.as_slice());
    unique(names).map_err(|why| Error::new(begin, "the consumers of a stream", why))?;
    Ok(group)
}

/// Appends a consumer, and gives it its pending entries.
fn consumer<R: BufRead>(source: &mut Source<R>, code: u8, group: &mut Group) -> Result<()> {
    let number = group.consumers.len();
    let name = source.string(CONSUMER)?;
    let seen_ms = i64::from_le_bytes(source.array(CONSUMER)?);
    // Before there was a time of activity, Redis takes the other for it.
    let active_ms = match code {
        types::STREAM_3 => i64::from_le_bytes(source.array(CONSUMER)?),
        _ => seen_ms,
    };
    let active_ms = (active_ms != NONE).then_some(active_ms);
    group.consumers.push(Consumer { name, seen_ms, active_ms });
    let count = source.length(CONSUMER)?;
    for _ in 0..count {
        let at = source.offset();
        let id = Id::from_bytes(source.array(CONSUMER)?);
        let found = group.pending.binary_search_by_key(&id, |pending| pending.id);
        match found.map(|found| &mut group.pending[found].consumer) {
            Ok(consumer) if *consumer == usize::MAX => *consumer = number,
            Ok(_) => {
                return source.refuse(CONSUMER, at, Defect::new("its pending entry is another's"));
            }
            Err(_) => {
                let why = Defect::new("its pending entry is not one of the group's");
                return source.refuse(CONSUMER, at, why);
            }
        }
    }
    Ok(())
}

/// The number of entries up to `last_id` that were added to a stream that does not count them and of which none is
/// known to be deleted, where that is certain.
fn estimated_read(stream: &Stream, last_id: Id) -> Option<u64> {
    let first = stream.entries.first().map(|entry| entry.id);
    match first {
        None => Some(0),
        Some(_) if last_id == stream.last_id => Some(stream.entries_added),
        Some(_) if last_id > stream.last_id => None,
        Some(first) if last_id < first => Some(0),
        Some(first) if last_id == first => Some(1),
        Some(_) => None,
    }
}
