//! Whether two replies are the same.

use crate::wire::item_len;

/// How the replies to a pattern are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    /// As bytes.
    Exact,
    /// Integers, also those of an array, may differ by so many: times that are left.
    About(i64),
    /// The items of an array, a set or a map may come in any order, fields of a map apart from their values.
    Unordered,
    /// Both are of the same type, or the same error: what they say depends on the server.
    Kind,
}

impl Compare {
    pub(crate) fn is_same(self, ours: &[u8], theirs: &[u8]) -> bool {
        ours == theirs
            || match self {
                Self::Exact => false,
                Self::About(difference) => is_about(ours, theirs, difference),
                Self::Unordered => sorted(ours) == sorted(theirs),
                Self::Kind => ours.first() == theirs.first() && ours.first() != Some(&b'-'),
            }
    }
}

fn is_about(ours: &[u8], theirs: &[u8], difference: i64) -> bool {
    let is_same_head = ours.first() == theirs.first();
    if let (Some(ours), Some(theirs)) = (items(ours), items(theirs)) {
        let is_about =
            |(ours, theirs): (&&[u8], &&[u8])| ours == theirs || is_about(ours, theirs, difference);
        return is_same_head
            && ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(is_about);
    }
    let number = |reply: &[u8]| {
        std::str::from_utf8(reply.strip_prefix(b":")?).ok()?.trim_end().parse::<i64>().ok()
    };
    let both = number(ours).zip(number(theirs));
    // Negative numbers are answers of their own.
    both.is_some_and(|(a, b)| a >= 0 && b >= 0 && a.abs_diff(b) <= difference.unsigned_abs())
}

/// The items of an array, or of a set; the fields and the values of a map.
pub(crate) fn items(reply: &[u8]) -> Option<Vec<&[u8]>> {
    if !matches!(reply.first(), Some(b'*' | b'~' | b'%')) {
        return None;
    }
    let mut at = reply.iter().position(|byte| *byte == b'\n').map_or(reply.len(), |at| at + 1);
    let mut items = Vec::new();
    while at < reply.len() {
        let end = reply.len().min(at + item_len(&reply[at..]).max(1));
        items.push(&reply[at..end]);
        at = end;
    }
    Some(items)
}

/// A reply whose arrays have their items in order, at any depth.
fn sorted(reply: &[u8]) -> Vec<u8> {
    let Some(items) = items(reply) else { return reply.to_vec() };
    let head = &reply[..reply.len() - items.iter().map(|item| item.len()).sum::<usize>()];
    let mut items: Vec<_> = items.iter().map(|item| sorted(item)).collect();
    items.sort_unstable();
    [head.to_vec(), items.concat()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_same_in_their_way() {
        assert!(Compare::About(2).is_same(b":10\r\n", b":12\r\n"));
        assert!(!Compare::About(2).is_same(b":-1\r\n", b":-2\r\n"));
        assert!(!Compare::About(2).is_same(b":10\r\n", b"+OK\r\n"));
        assert!(Compare::About(2).is_same(b"*2\r\n:-1\r\n:9\r\n", b"*2\r\n:-1\r\n:8\r\n"));
        assert!(!Compare::About(2).is_same(b"*2\r\n:-1\r\n:9\r\n", b"*2\r\n:-2\r\n:9\r\n"));
        let (ab, ba) = (b"*2\r\n$1\r\na\r\n:1\r\n", b"*2\r\n:1\r\n$1\r\na\r\n");
        assert!(Compare::Unordered.is_same(ab, ba) && !Compare::Exact.is_same(ab, ba));
        assert!(!Compare::Unordered.is_same(ab, b"*2\r\n:1\r\n$1\r\nb\r\n"));
        let (ab, ba) = (b"%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", b"%2\r\n:3\r\n:4\r\n:1\r\n:2\r\n");
        assert!(Compare::Unordered.is_same(ab, ba) && !Compare::Exact.is_same(ab, ba));
        assert!(Compare::Kind.is_same(b"$1\r\na\r\n", b"$1\r\nb\r\n"));
        assert!(!Compare::Kind.is_same(b"-ERR a\r\n", b"-ERR b\r\n"));
    }
}
