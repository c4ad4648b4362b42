//! Keys in order, and their values, of a server. The server returns keys in an order of its own, and may return some
//! twice, so all that are wanted are collected before the first is printed.

use std::collections::BTreeSet;

use halite::KeyRange;
use halite_resp_client::Reply;

use super::Server;
use crate::Result;
use crate::interrupt::Interrupt;

/// Keys that the server looks at for one request.
const LOOKS: &[u8] = b"1000";
/// Keys whose values are fetched with one request.
const VALUES: usize = 64;

/// The keys that are wanted.
pub(crate) struct Wanted {
    pub(crate) range: KeyRange,
    /// All of them begin with this.
    pub(crate) prefix: Vec<u8>,
    /// From the largest on.
    pub(crate) reverse: bool,
    pub(crate) limit: usize,
}

impl Wanted {
    fn has(&self, key: &[u8]) -> bool {
        key >= self.range.start() && self.range.end().is_none_or(|end| key < end)
    }

    /// A pattern of the server's that matches all that begin so.
    fn pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::new();
        for &byte in &self.prefix {
            if b"*?[]\\^-".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        pattern
    }
}

impl Server {
    /// The keys that are wanted, in order.
    pub(crate) fn scan(&mut self, wanted: &Wanted, interrupt: &Interrupt) -> Result<Vec<Vec<u8>>> {
        let (mut keys, mut cursor) = (BTreeSet::new(), b"0".to_vec());
        let pattern = wanted.pattern();
        loop {
            interrupt.check()?;
            let words: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", LOOKS];
            let (next, page) = match self.client.ask(&words)? {
                Reply::Array(parts) => match <[Reply; 2]>::try_from(parts) {
                    Ok([Reply::Bulk(next), Reply::Array(page)]) => (next, page),
                    _ => return Err(self.client.unexpected()),
                },
                _ => return Err(self.client.unexpected()),
            };
            for key in page {
                let Reply::Bulk(key) = key else { return Err(self.client.unexpected()) };
                if wanted.has(&key) {
                    keys.insert(key);
                }
                if keys.len() > wanted.limit {
                    match wanted.reverse {
                        true => drop(keys.pop_first()),
                        false => drop(keys.pop_last()),
                    }
                }
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
        Ok(match wanted.reverse {
            true => keys.into_iter().rev().collect(),
            false => keys.into_iter().collect(),
        })
    }

    /// Calls `with` for each of `keys` that has a string, with that; returns how many have none.
    pub(crate) fn values(
        &mut self,
        keys: &[Vec<u8>],
        mut with: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let mut others = 0;
        for some in keys.chunks(VALUES) {
            let mut words = vec![&b"MGET"[..]];
            words.extend(some.iter().map(Vec::as_slice));
            let Reply::Array(values) = self.client.ask(&words)? else {
                return Err(self.client.unexpected());
            };
            for (key, value) in some.iter().zip(values) {
                match value {
                    Reply::Bulk(value) => with(key, &value)?,
                    _ => others += 1,
                }
            }
        }
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_pattern_of_itself() {
        let wanted = |prefix: &[u8]| Wanted {
            range: KeyRange::prefix(prefix),
            prefix: prefix.to_vec(),
            reverse: false,
            limit: 1,
        };
        assert_eq!(wanted(b"user:").pattern(), b"user:*");
        assert_eq!(wanted(b"a*[b]\\?").pattern(), b"a\\*\\[b\\]\\\\\\?*");
        assert!(wanted(b"ab").has(b"ab") && wanted(b"ab").has(b"abc") && !wanted(b"ab").has(b"ac"));
    }
}
