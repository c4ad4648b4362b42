//! The keys of the two datasets of an object store.
//!
//! ```text
//! chunks     id u64, chunk u32, big-endian   the bytes of a chunk, without zeros at the end that were never written
//!
//! metadata   0, name                         the id, u64 little-endian
//!            1, id u64 big-endian, 0         the fixed metadata (`metadata`)
//!            1, id u64 big-endian, 1, key    custom metadata
//!            2                               the id that the next object gets, u64 little-endian
//! ```
//!
//! The metadata is by id, not by name, so that a rename moves none of it, and a handle writes without knowing the name.

use halite_contract::KeyRange;

const NAME: u8 = 0;

const OF_ID: u8 = 1;

/// The key of the next id.
pub(super) const NEXT_ID: [u8; 1] = [2];

const FIXED: u8 = 0;

const CUSTOM: u8 = 1;

/// The key of a name.
pub(super) fn name_key(name: &[u8]) -> Vec<u8> {
    [&[NAME], name].concat()
}

/// The name of a key.
pub(super) fn name_of(key: &[u8]) -> &[u8] {
    key.get(1..).unwrap_or_default()
}

/// The keys of the names that begin with a prefix.
pub(super) fn names(prefix: &[u8]) -> KeyRange {
    KeyRange::prefix(&name_key(prefix))
}

fn of_id(id: u64, kind: u8) -> [u8; 10] {
    let mut key = [0; 10];
    key[0] = OF_ID;
    key[1..9].copy_from_slice(&id.to_be_bytes());
    key[9] = kind;
    key
}

/// The key of fixed metadata.
pub(super) fn fixed_key(id: u64) -> [u8; 10] {
    of_id(id, FIXED)
}

/// The key of custom metadata.
pub(super) fn custom_key(id: u64, key: &[u8]) -> Vec<u8> {
    [&of_id(id, CUSTOM)[..], key].concat()
}

/// The keys of all custom metadata of an object.
pub(super) fn customs(id: u64) -> KeyRange {
    KeyRange::prefix(&of_id(id, CUSTOM))
}

/// The key of custom metadata without what is before it.
pub(super) fn custom_of(key: &[u8]) -> &[u8] {
    key.get(10..).unwrap_or_default()
}

/// The keys of all metadata of an object. Ids are less than the largest number.
pub(super) fn metadata_of(id: u64) -> KeyRange {
    KeyRange::prefix(&of_id(id, FIXED)[..9])
}

/// The key of a chunk.
pub(super) fn chunk_key(id: u64, chunk: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&id.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// The number of the chunk of a key.
pub(super) fn chunk_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(8..)?.try_into().ok()?))
}

/// The keys of an object's chunks from one on.
pub(super) fn chunks_from(id: u64, first: u32) -> KeyRange {
    KeyRange::new(chunk_key(id, first), Some((id + 1).to_be_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_exactly_the_keys_of_their_object() {
        for id in [1, 0xff, 0xffff, u64::MAX - 1] {
            assert!(chunks_from(id, 0).contains(&chunk_key(id, u32::MAX)));
            assert!(!chunks_from(id, 7).contains(&chunk_key(id, 6)));
            assert!(!chunks_from(id, 0).contains(&chunk_key(id + 1, 0)));
            assert!(metadata_of(id).contains(&fixed_key(id)));
            assert!(metadata_of(id).contains(&custom_key(id, &[0xff; 9])));
            assert!(!metadata_of(id).contains(&fixed_key(id + 1)));
            assert!(!metadata_of(id).contains(&fixed_key(id - 1)));
            assert!(
                !customs(id).contains(&fixed_key(id)) && customs(id).contains(&custom_key(id, b""))
            );
            assert_eq!(custom_of(&custom_key(id, b"key")), b"key");
            assert_eq!(chunk_of(&chunk_key(id, 7)), Some(7));
        }
        assert!(names(b"").contains(&name_key(&[0xff; 3])) && !names(b"").contains(&fixed_key(0)));
        assert!(!names(b"").contains(&NEXT_ID) && !metadata_of(u64::MAX - 1).contains(&NEXT_ID));
        assert_eq!(name_of(&name_key(b"name")), b"name");
    }
}
