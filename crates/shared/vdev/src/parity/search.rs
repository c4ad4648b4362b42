//! The search for the leaves that are wrong, where it is not known which ones are.
//!
//! A choice says which data columns are wrong and which parity columns are relied on instead, as many. Choices with
//! fewer wrong columns come first, and those that rely on current leaves only before those that rely on stale or
//! faulted ones. Every choice that the parity allows is tried: at most `sum over k of C(data columns, k) * C(parity,
//! k)`, each for the price of a reconstruction.

use super::code;
use super::loaded::{Loaded, Part};

/// Finds data columns that `accept` takes. Returns the numbers of those that were reconstructed.
pub(crate) fn search(
    loaded: &Loaded<'_>,
    mut accept: impl FnMut(&[&[u8]]) -> bool,
) -> Option<Vec<usize>> {
    let parts = || loaded.data.iter().chain(&loaded.parity).flatten();
    let has_others = parts().any(|part| !part.is_current);
    let mut attempt = |only_current: bool| {
        let usable = |part: &&Part| part.is_current || !only_current;
        let data: Vec<Option<&Part>> =
            loaded.data.iter().map(|part| part.as_ref().filter(usable)).collect();
        let parity: Vec<(usize, &[u8])> = loaded
            .parity
            .iter()
            .enumerate()
            .filter_map(|(number, part)| Some((number, &part.as_ref().filter(usable)?.bytes[..])))
            .collect();
        among(loaded, &data, &parity, &mut accept)
    };
    attempt(has_others).or_else(|| has_others.then(|| attempt(false)).flatten())
}

/// Tries every choice among columns that can be used.
fn among(
    loaded: &Loaded<'_>,
    data: &[Option<&Part>],
    parity: &[(usize, &[u8])],
    accept: &mut impl FnMut(&[&[u8]]) -> bool,
) -> Option<Vec<usize>> {
    let missing: Vec<_> = (0..data.len()).filter(|&number| data[number].is_none()).collect();
    let there: Vec<_> = (0..data.len()).filter(|&number| data[number].is_some()).collect();
    let absent: Vec<Vec<u8>> = (0..data.len())
        .map(|number| vec![0; if data[number].is_none() { loaded.len(number) } else { 0 }])
        .collect();
    let columns: Vec<&[u8]> = (0..data.len())
        .map(|number| data[number].map_or(&absent[number][..], |part| &part.bytes[..]))
        .collect();
    for more in 0..=parity.len().checked_sub(missing.len())? {
        for wrong in subsets(there.len(), more) {
            let mut lost: Vec<_> =
                wrong.iter().map(|&at| there[at]).chain(missing.iter().copied()).collect();
            lost.sort_unstable();
            // A choice that changes no byte of the range was tried with fewer columns.
            if more > 0 && !lost.iter().any(|lost| loaded.touched.contains(lost)) {
                continue;
            }
            for with in subsets(parity.len(), lost.len()) {
                let with: Vec<_> = with.iter().map(|&at| parity[at]).collect();
                let found = code::reconstruct(&columns, &lost, &with);
                let mut columns = columns.clone();
                lost.iter().zip(&found).for_each(|(&lost, found)| columns[lost] = found);
                if accept(&columns) {
                    return Some(lost);
                }
            }
        }
    }
    None
}

/// All choices of `count` numbers below `of`, ascending each.
fn subsets(of: usize, count: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next = (count <= of).then(|| (0..count).collect::<Vec<_>>());
    std::iter::from_fn(move || {
        let now = next.take()?;
        // The last number that can still grow does, and those behind it follow closely.
        let grows = (0..count).rev().find(|&at| now[at] < of - count + at);
        next = grows.map(|grows| {
            let mut then = now.clone();
            (grows..count).for_each(|at| then[at] = now[grows] + 1 + at - grows);
            then
        });
        Some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_subsets_as_there_should_be_and_none_twice() {
        for of in 0..8_usize {
            for count in 0..10 {
                let all: Vec<_> = subsets(of, count).collect();
                let expected =
                    (0..count).fold(1, |product, at| product * of.saturating_sub(at) / (at + 1));
                assert_eq!(all.len(), expected, "{count} of {of}");
                let distinct: std::collections::BTreeSet<_> = all.iter().collect();
                assert_eq!(distinct.len(), all.len());
                assert!(
                    all.iter().all(|subset| subset.is_sorted() && subset.iter().all(|&at| at < of))
                );
            }
        }
    }
}
