//! Differences that are meant to be, each with its reason.

use crate::wire::Request;

/// A difference that is meant to be.
pub(crate) struct Known {
    /// The reason.
    pub(crate) why: &'static str,
    /// Whether the replies to a request, Halite's and that of Redis, are this difference.
    is: fn(&Request, &[u8], &[u8]) -> bool,
}

/// The known difference that two replies have.
pub(crate) fn find(request: &Request, ours: &[u8], theirs: &[u8]) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is)(request, ours, theirs))
}

/// Whether a request is one of these commands.
fn names(request: &Request, commands: &[&str]) -> bool {
    commands.iter().any(|name| request[0].eq_ignore_ascii_case(name.as_bytes()))
}

static KNOWN: &[Known] = &[
    Known {
        why: "BITCOUNT and BITPOS refuse malformed ranges also of keys that do not exist, as from Redis 7.2 on",
        is: |request, ours, theirs| {
            names(request, &["BITCOUNT", "BITPOS"])
                && ours.starts_with(b"-ERR ")
                && (theirs == b":0\r\n" || theirs == b":-1\r\n")
        },
    },
    Known {
        why: "OBJECT REFCOUNT is 1 also of values that Redis shares",
        is: |request, ours, theirs| {
            names(request, &["OBJECT"]) && ours == b":1\r\n" && theirs.starts_with(b":")
        },
    },
    Known {
        why: "COMMAND has other commands, and no notes on keys; DEBUG DIGEST and DEBUG OBJECT say other things",
        is: |request, ours, theirs| {
            names(request, &["COMMAND", "DEBUG"])
                && ours.first() == theirs.first()
                && matches!(ours.first(), Some(b'*' | b'+'))
        },
    },
    Known {
        why: "SCAN visits keys in another order, and refuses cursors that it has not issued",
        is: |request, ours, _| {
            let known = [&b"-ERR invalid cursor"[..], b"-ERR unknown cursor", b"*2"];
            names(request, &["SCAN"]) && known.iter().any(|text| ours.starts_with(text))
        },
    },
    Known {
        why: "DBSIZE counts keys that have expired until they are removed",
        is: |request, ours, theirs| {
            names(request, &["DBSIZE"]) && ours.starts_with(b":") && theirs.starts_with(b":")
        },
    },
    Known {
        why: "DEBUG ERROR leaves out line breaks at the end of a text",
        is: |request, ours, theirs| {
            let text = |reply: &[u8]| reply.trim_ascii_end().to_vec();
            names(request, &["DEBUG"]) && text(ours) == text(theirs)
        },
    },
];
