//! LCS: the longest common subsequence of two values.
//!
//! The classic table: cell `(i, j)` is the length for the first `i` bytes of one value and the first
//! `j` of the other. Its cells take memory in the product of both lengths, which is bounded. Read
//! backwards from its last cell, it gives the subsequence, and the ranges that both values share.

use std::ops::RangeInclusive;

use crate::call::{Call, is};
use crate::failure::{Outcome, SYNTAX};
use crate::stored::{Stored, StringValue, Unreadable};

#[derive(Default)]
struct Options {
    /// Returns the length only.
    len: bool,
    /// Returns where the common ranges are.
    idx: bool,
    /// Leaves out shorter ranges.
    min_match_len: usize,
    with_match_len: bool,
}

/// The string at a key; a value of another type is refused by a text of its own.
fn read(call: &mut Call<'_>, index: usize) -> Outcome<Option<StringValue>> {
    match call.read_any(call.arg(index))?.map(Stored::into_string) {
        Some(Err(Unreadable::NoString { .. })) => {
            Err("ERR The specified keys must contain string values".into())
        }
        string => Ok(string.transpose()?),
    }
}

pub(super) fn lcs(call: &mut Call<'_>) -> Outcome {
    let a = read(call, 1)?;
    let b = read(call, 2)?;
    let (a, b) = (a.as_deref().unwrap_or_default(), b.as_deref().unwrap_or_default());
    let options = options(call)?;
    if options.len && options.idx {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let cells = (a.len() as u64 + 1) * (b.len() as u64 + 1);
    if cells * size_of::<u32>() as u64 > call.service.settings.limits.bulk_len_max as u64 {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(text.into());
    }
    let table = Table::new(a, b, || call.check_ending())?;
    let mut reply = call.reply();
    if options.len {
        reply.integer(i64::from(table.len(a.len(), b.len())));
    } else if options.idx {
        let matches = table.matches(a, b);
        let kept = |found: &&Match| found.len() >= options.min_match_len;
        reply.map(2);
        reply.bulk(b"matches");
        reply.array(matches.iter().filter(kept).count());
        for found in matches.iter().filter(kept) {
            reply.array(2 + usize::from(options.with_match_len));
            for range in [&found.a, &found.b] {
                reply.array(2);
                reply.integer(*range.start() as i64);
                reply.integer(*range.end() as i64);
            }
            if options.with_match_len {
                reply.integer(found.len() as i64);
            }
        }
        reply.bulk(b"len");
        reply.integer(i64::from(table.len(a.len(), b.len())));
    } else {
        let common: Vec<u8> = table
            .matches(a, b)
            .iter()
            .rev()
            .flat_map(|found| &a[found.a.clone()])
            .copied()
            .collect();
        reply.bulk(&common);
    }
    Ok(())
}

fn options(call: &Call<'_>) -> Outcome<Options> {
    let mut options = Options::default();
    let mut index = 3;
    while let Some(word) = call.args.get(index) {
        index += 1;
        match () {
            () if is(word, "IDX") => options.idx = true,
            () if is(word, "LEN") => options.len = true,
            () if is(word, "WITHMATCHLEN") => options.with_match_len = true,
            () if is(word, "MINMATCHLEN") && index < call.args.len() => {
                options.min_match_len = usize::try_from(call.integer(index)?).unwrap_or(0);
                index += 1;
            }
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

/// A range that both values share, positions included.
#[derive(Debug, PartialEq, Eq)]
struct Match {
    a: RangeInclusive<usize>,
    b: RangeInclusive<usize>,
}

impl Match {
    fn len(&self) -> usize {
        self.a.end() - self.a.start() + 1
    }
}

struct Table {
    cells: Vec<u32>,
    width: usize,
}

impl Table {
    /// Fails as soon as `go_on` does, which is called for each row.
    fn new(a: &[u8], b: &[u8], go_on: impl Fn() -> Outcome) -> Outcome<Self> {
        let width = b.len() + 1;
        let mut table = Self { cells: vec![0; (a.len() + 1) * width], width };
        for (i, byte_a) in a.iter().enumerate() {
            go_on()?;
            let (done, row) = table.cells.split_at_mut((i + 1) * width);
            let above = &done[i * width..];
            for (j, byte_b) in b.iter().enumerate() {
                row[j + 1] = if byte_a == byte_b { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Ok(table)
    }

    /// The length for the first `i` bytes of one value and the first `j` of the other.
    fn len(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }

    /// The common ranges, from the last to the first.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                match matches.last_mut() {
                    Some(last) if *last.a.start() == i + 1 && *last.b.start() == j + 1 => {
                        (last.a, last.b) = (i..=*last.a.end(), j..=*last.b.end());
                    }
                    _ => matches.push(Match { a: i..=i, b: j..=j }),
                }
            } else if self.len(i - 1, j) > self.len(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        matches
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether `part` is `whole` with some bytes left out.
    fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
        let mut rest = whole.iter();
        part.iter().all(|byte| rest.any(|other| other == byte))
    }

    proptest! {
        #[test]
        fn the_matches_are_a_common_subsequence_of_the_length(a in "[abc]{0,20}", b in "[abc]{0,20}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let table = Table::new(a, b, || Ok(())).unwrap();
            let matches = table.matches(a, b);
            let common: Vec<u8> =
                matches.iter().rev().flat_map(|found| a[found.a.clone()].to_vec()).collect();
            prop_assert_eq!(common.len(), table.len(a.len(), b.len()) as usize);
            prop_assert!(is_subsequence(&common, a) && is_subsequence(&common, b));
            for found in matches {
                prop_assert_eq!(&a[found.a], &b[found.b]);
            }
        }

        #[test]
        fn no_common_subsequence_is_longer(a in "[ab]{0,8}", b in "[ab]{0,8}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let longest = (0..1usize << a.len())
                .map(|set| (0..a.len()).filter(|i| set >> i & 1 == 1).map(|i| a[i]).collect::<Vec<_>>())
                .filter(|part| is_subsequence(part, b))
                .map(|part| part.len())
                .max();
            prop_assert_eq!(longest, Some(Table::new(a, b, || Ok(())).unwrap().len(a.len(), b.len()) as usize));
        }
    }
}
