//! The words of requests that no list or log shows.

use crate::resp::Args;

/// Whether a word is the name or the password of a user: behind AUTH, alone, in HELLO or in MIGRATE, behind
/// `requirepass`, and in the commands of ACL on single users, with all their rules.
pub(crate) fn is_secret(args: Args<'_>, index: usize) -> bool {
    let is = |at: Option<usize>, word: &str| {
        at.and_then(|at| args.get(at))
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    let (first, before, before_that) = (Some(0), index.checked_sub(1), index.checked_sub(2));
    index > 0 && is(first, "auth")
        || is(first, "hello") && (is(before, "auth") || is(before_that, "auth"))
        || index > 1
            && is(first, "acl")
            && ["setuser", "getuser", "deluser"].iter().any(|part| is(Some(1), part))
        || is(first, "config") && is(before, "requirepass")
        || is(first, "migrate")
            && (is(before, "auth") || is(before, "auth2") || is(before_that, "auth2"))
}
