//! The key spaces that each database number means, as SWAPDB left them.

use halite::{EngineError, Result};

use super::SPACE;

/// The key that holds the order.
pub(crate) const KEY: &[u8] = b"databases";

/// Encodes the order: for each database the number of its key spaces, in 4 big-endian bytes.
pub(crate) fn encode(order: &[usize]) -> Vec<u8> {
    order.iter().flat_map(|&place| (place as u32).to_be_bytes()).collect()
}

/// The order of the databases, at least `count`: those that the record does not know follow it.
pub(crate) fn decode(record: &[u8], count: usize) -> Result<Vec<usize>> {
    let (places, rest) = record.as_chunks::<4>();
    let mut order: Vec<_> =
        places.iter().map(|&place| u32::from_be_bytes(place) as usize).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !rest.is_empty() || !sorted.iter().copied().eq(0..sorted.len()) {
        return Err(EngineError::Damaged {
            what: "the record `databases` in the key space `server:1`".to_owned(),
            why: "it does not name each database once".to_owned(),
        }
        .into());
    }
    order.extend(order.len()..count);
    Ok(order)
}

/// For each database the number N of its key space `db<N>`, for a program that looks into a database without a server.
/// Databases beyond them have their own numbers.
///
/// # Errors
/// Those of the database, and damage of the record.
pub fn places(db: &halite::Database) -> Result<Vec<usize>> {
    let Some(settings) = db.find_key_space(SPACE)? else { return Ok(Vec::new()) };
    match settings.get(KEY)? {
        Some(record) => decode(&record, 0),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_none_is_damage() {
        assert_eq!(decode(&encode(&[2, 0, 1]), 5).unwrap(), [2, 0, 1, 3, 4]);
        for record in [&b"abc"[..], &encode(&[0, 0]), &encode(&[1, 2])] {
            assert!(matches!(
                decode(record, 2),
                Err(halite::Error::Engine(EngineError::Damaged { .. }))
            ));
        }
    }

    #[test]
    fn a_program_without_a_server_knows_the_order() {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        assert!(places(&db).unwrap().is_empty());
        let settings = db.key_space(SPACE).unwrap();
        assert!(places(&db).unwrap().is_empty());
        settings.put(KEY, encode(&[2, 0, 1])).unwrap();
        assert_eq!(places(&db).unwrap(), [2, 0, 1]);
    }
}
