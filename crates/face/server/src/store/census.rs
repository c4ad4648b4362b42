//! A count of the elements of collections, against the collections that they belong to.
//!
//! Each record in the key spaces of elements has to be of a collection whose key has its number, in the partition of that
//! key; or of one that was dropped, as a note says, whose elements go; or a note itself. A sorted set whose order is stored
//! has to have a record of the order for each member, and no other. [`census`] looks at all of them, in a database
//! without writers.

use std::collections::HashMap;

use halite::{Database as Halite, KeySpace, ROUTED};
use xxhash_rust::xxh3::xxh3_128;

use super::elements::{DROPPED, EXPIRING, Elements};
use super::{Result, deadline_records};
use crate::stored::{Type, collection_id, has_order, is_of_order, order, read_element};

/// Faults that are told.
const FAULTS_MAX: usize = 16;

/// The elements of collections, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Collections whose elements are records of their own.
    pub collections: u64,
    /// Their elements.
    pub elements: u64,
    /// Records of the orders of sorted sets, where these are stored.
    pub ordered: u64,
    /// Notes that collections were dropped.
    pub dropped: u64,
    /// Elements of these, which have yet to go.
    pub leaving: u64,
    /// Hashes with fields that expire, by the records that find them.
    pub expiring: u64,
    /// The first of the records that should not be there, or not so.
    pub faults: Vec<String>,
}

impl Census {
    fn fault(&mut self, what: impl FnOnce() -> String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what());
        }
    }
}

/// A collection with elements, by its record.
struct Owner {
    key: Vec<u8>,
    partition: usize,
    /// A stream may be empty.
    may_be_empty: bool,
    /// The sum of the members of a sorted set whose order is stored, without those of the order: 0 if both have the same.
    order: Option<u128>,
    elements: u64,
    ordered: u64,
}

impl Owner {
    /// Counts an element, as far as it is one of a collection like this.
    fn count(&mut self, element: &[u8], value: &[u8]) -> bool {
        let Some(sum) = &mut self.order else {
            self.elements += 1;
            return true;
        };
        let digest = |record: &[u8], value: &[u8]| xxh3_128(&[record, &[0], value].concat());
        if is_of_order(element) {
            self.ordered += 1;
            *sum = sum.wrapping_sub(digest(element, value));
            return true;
        }
        self.elements += 1;
        let score = read_element(element, value)
            .and_then(|(_, member, score)| Some((member, order::read_score(score)?)));
        if let Some((member, score)) = score {
            let record = order::record_of(score, member);
            *sum = sum.wrapping_add(digest(&record, order::value_of(score)));
        }
        score.is_some()
    }
}

/// Counts the elements of all collections of a server's databases, and finds those that belong to none.
///
/// # Errors
/// The errors of reading.
pub fn census(db: &Halite) -> Result<Census> {
    let mut census = Census::default();
    let spaces = db.key_spaces()?;
    let find = |name: &str| spaces.iter().find(|space| space.name() == name);
    for elements in &spaces {
        let name = elements.name().strip_suffix(":elements");
        let Some(values) = name.and_then(find) else { continue };
        count(db, values, elements, &mut census)?;
    }
    Ok(census)
}

fn count(db: &Halite, values: &KeySpace, elements: &KeySpace, census: &mut Census) -> Result<()> {
    let space = values.name();
    let mut owners: HashMap<u64, Owner> = HashMap::new();
    for pair in values.iter()? {
        let (key, stored) = pair?;
        let Some(id) = collection_id(&stored) else { continue };
        let partition = db.partition_of(&key);
        if !(Elements { partition, place: 0, id }).are_home(db.partitions()) {
            census.fault(|| format!("{space}: `{}` has elements elsewhere", key.escape_ascii()));
        }
        let may_be_empty = stored.first() == Some(&Type::Stream.tag());
        let is_sorted_set = stored.first() == Some(&Type::SortedSet.tag());
        let has_order = if is_sorted_set { has_order(&stored) } else { Some(false) };
        if has_order.is_none() {
            census.fault(|| format!("{space}: `{}` has an unknown form", key.escape_ascii()));
        }
        let order = (has_order == Some(true)).then_some(0);
        let key = key.to_vec();
        let owner = Owner { key, partition, may_be_empty, order, elements: 0, ordered: 0 };
        if let Some(other) = owners.insert(id, owner) {
            let (one, other) = (owners[&id].key.escape_ascii(), other.key.escape_ascii());
            census.fault(|| format!("{space}: `{one}` and `{other}` have the same elements"));
        }
    }
    let mut dropped: HashMap<u64, usize> = HashMap::new();
    let mut others = Vec::new();
    for pair in elements.iter()? {
        let (key, value) = pair?;
        let number = ROUTED.len();
        let (Some(&partition), Some(&id)) =
            (key.get(number), key.get(number + 1..).and_then(<[u8]>::first_chunk))
        else {
            census.fault(|| format!("{space}: `{}` is no element", key.escape_ascii()));
            continue;
        };
        let rest = &key[number + 9..];
        match u64::from_be_bytes(id) {
            DROPPED => match <[u8; 8]>::try_from(rest) {
                Ok(id) => {
                    dropped.insert(u64::from_be_bytes(id), usize::from(partition));
                }
                Err(_) => census.fault(|| format!("{space}: `{}` is no note", key.escape_ascii())),
            },
            EXPIRING => {
                census.expiring += 1;
                check_expiring(db, values, (usize::from(partition), rest), &value, census)?;
            }
            id => match owners.get_mut(&id) {
                Some(owner) => {
                    if !owner.count(rest, &value) {
                        let key = owner.key.escape_ascii();
                        census.fault(|| format!("{space}: `{key}` has an element without a score"));
                    }
                }
                None => others.push(id),
            },
        }
    }
    census.dropped += dropped.len() as u64;
    for (&id, &partition) in &dropped {
        if let Some(owner) = owners.get(&id) {
            let key = owner.key.escape_ascii();
            census.fault(|| format!("{space}: the elements of `{key}` are noted as dropped"));
        }
        if !(Elements { partition, place: 0, id }).are_home(db.partitions()) {
            census.fault(|| format!("{space}: the note that {id:x} was dropped is elsewhere"));
        }
    }
    for id in others {
        match dropped.contains_key(&id) {
            true => census.leaving += 1,
            false => census.fault(|| format!("{space}: an element of {id:x} belongs to no key")),
        }
    }
    for owner in owners.values() {
        census.collections += 1;
        census.elements += owner.elements;
        census.ordered += owner.ordered;
        if owner.order.is_some_and(|sum| sum != 0 || owner.ordered != owner.elements) {
            let (key, ordered, elements) =
                (owner.key.escape_ascii(), owner.ordered, owner.elements);
            census.fault(|| {
                format!("{space}: the order of `{key}`, {ordered} records, is not that of its {elements} members")
            });
        }
        if owner.elements == 0 && !owner.may_be_empty {
            let (key, partition) = (owner.key.escape_ascii(), owner.partition);
            census.fault(|| format!("{space}: `{key}`, in {partition}, has no elements"));
        }
    }
    Ok(())
}

/// Checks the record that finds a hash with fields that expire.
fn check_expiring(
    db: &Halite,
    values: &KeySpace,
    (partition, digest): (usize, &[u8]),
    record: &[u8],
    census: &mut Census,
) -> Result<()> {
    let space = values.name();
    let Some(key) = deadline_records::key_of(record) else {
        census.fault(|| format!("{space}: the deadline of a hash's field has no key"));
        return Ok(());
    };
    let shown = key.escape_ascii();
    let is_hash = values.get(key)?.is_some_and(|stored| stored.first() == Some(&Type::Hash.tag()));
    if !is_hash {
        census.fault(|| format!("{space}: fields of `{shown}` have a deadline, and it is no hash"));
    }
    if digest != deadline_records::digest(key) || partition != db.partition_of(key) {
        census.fault(|| format!("{space}: the deadline of `{shown}`'s fields is elsewhere"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::store_on;
    use super::*;
    use crate::store::NewDeadline;

    fn database() -> Halite {
        Halite::builder().max_size(64 << 20).in_memory().unwrap()
    }

    #[test]
    fn elements_are_of_their_keys_until_these_are_dropped_and_then_go() {
        let db = database();
        let mut store = store_on(&db);
        store.begin();
        let of = store.new_elements(0, b"k").unwrap();
        for element in [b"a", b"b"] {
            store.put_element(&of, element, b"v").unwrap();
        }
        let record = [&[Type::Set.tag(), 1][..], &of.id.to_be_bytes()].concat();
        store.put_stored(0, b"k", &record, NewDeadline::Clear).unwrap();
        store.commit().unwrap();
        let whole = Census { collections: 1, elements: 2, ..Census::default() };
        assert_eq!(census(&db).unwrap(), whole);
        store.remove(0, b"k").unwrap();
        let leaving = Census { dropped: 1, leaving: 2, ..Census::default() };
        assert_eq!(census(&db).unwrap(), leaving);
        while store.reclaim() {}
        assert_eq!(census(&db).unwrap(), Census::default());
    }

    #[test]
    fn an_element_without_a_key_is_told() {
        let db = database();
        let _store = store_on(&db);
        let elements = db.key_space("db1:elements").unwrap();
        let of = Elements { partition: 0, place: 1, id: 7 };
        elements.put(of.key(b"lost"), b"v").unwrap();
        elements.put(of.dropped_key().split_last().unwrap().1, b"").unwrap();
        let found = census(&db).unwrap();
        assert_eq!(found.faults.len(), 2, "{found:?}");
    }
}
