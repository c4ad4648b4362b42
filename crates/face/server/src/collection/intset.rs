//! Small sets whose members are all integers: Redis' `intset`, which gives its members in the order of their numbers.
//!
//! In Redis a set that has had another member is a `listpack` also when that one has gone. So is one here: a mark tells it,
//! which is in the length of the first member's value ([`Packed::mark`]). The members of an intset are stored in the order
//! in which they came, and are brought into theirs where it is seen: when they are visited, and when the set becomes a
//! listpack.

use super::map::is_integer;
use super::packed::Packed;
use crate::number::parse_i64;
use crate::stored::Type;

/// Whether a set is an intset; one without members is.
pub(super) fn is_one(set: &Packed) -> bool {
    !set.is_marked() && members(set).all(is_integer)
}

/// The members of an intset in order; `None` if they are stored in it, or if the set is none.
pub(super) fn in_order(set: &Packed) -> Option<Vec<&[u8]>> {
    if set.is_marked() {
        return None;
    }
    let mut numbers = Vec::new();
    for member in members(set) {
        numbers.push((parse_i64(member).filter(|_| is_integer(member))?, member));
    }
    if numbers.is_sorted() {
        return None;
    }
    numbers.sort_unstable();
    Some(numbers.into_iter().map(|(_, member)| member).collect())
}

/// Brings the stored members of an intset into order.
pub(super) fn sort(set: &mut Packed) {
    let Some(sorted) = in_order(set) else { return };
    let mut ordered = Packed::new(Type::Set);
    for member in sorted {
        ordered.push(member);
        ordered.push(b"");
    }
    *set = ordered;
}

fn members(set: &Packed) -> impl Iterator<Item = &[u8]> {
    set.iter().step_by(2).map(|(_, member)| member)
}
