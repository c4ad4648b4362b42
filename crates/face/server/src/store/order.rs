//! The key spaces that each database number means, as SWAPDB left them.

use halite::EngineError;

use super::Result;

/// The key that holds the order.
pub(super) const KEY: &[u8] = b"databases";

/// Encodes the order: for each database the number of its key spaces, in 4 big-endian bytes.
pub(super) fn encode(order: &[usize]) -> Vec<u8> {
    order.iter().flat_map(|&place| (place as u32).to_be_bytes()).collect()
}

/// The order of the databases, at least `count`: those that the record does not know follow it.
pub(super) fn decode(record: &[u8], count: usize) -> Result<Vec<usize>> {
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
}
