//! The options of XADD and XTRIM.

use crate::call::{Call, is};
use crate::collection::stream::{Exactness, Keep};
use crate::failure::{Outcome, SYNTAX};
use crate::stream_id::NewId;

use super::{INVALID_ID, id};

/// Entries that an approximate trim removes at most, unless the request says it, or blocks are short.
const REMOVED_MAX: u64 = 1_000_000;

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) trim: Option<(Keep, Exactness)>,
    /// Whether a stream that is not there is not made.
    pub(super) no_make: bool,
    /// The id of the entry.
    pub(super) id: NewId,
    /// The index of the word behind the id.
    pub(super) next: usize,
}

impl Options {
    /// Reads the options from the third word on: of XADD up to the id, or of XTRIM up to the end.
    pub(super) fn parse(call: &Call<'_>, is_add: bool) -> Outcome<Self> {
        let mut options = Self { trim: None, no_make: false, id: NewId::Auto, next: 0 };
        let (mut keep, mut is_about, mut limit) = (None, false, None);
        let words = call.args.len();
        let mut index = 2;
        while index < words {
            let (word, is_last) = (call.arg(index), index + 1 == words);
            match () {
                () if is_add && word == b"*" => break,
                () if !is_last && (is(word, "MAXLEN") || is(word, "MINID")) => {
                    if keep.is_some() {
                        return Err("ERR syntax error, MAXLEN and MINID options at the same time are not compatible".into());
                    }
                    index += 1;
                    let has_mark = index + 1 < words && matches!(call.arg(index), b"~" | b"=");
                    is_about = has_mark && call.arg(index) == b"~";
                    index += usize::from(has_mark);
                    keep = Some(if is(word, "MAXLEN") {
                        let count = u64::try_from(call.integer(index)?);
                        Keep::Last(count.map_err(|_| "ERR The MAXLEN argument must be >= 0.")?)
                    } else {
                        Keep::From(id(call.arg(index))?)
                    });
                }
                () if !is_last && is(word, "LIMIT") => {
                    index += 1;
                    let count = u64::try_from(call.integer(index)?);
                    limit = Some(count.map_err(|_| "ERR The LIMIT argument must be >= 0.")?);
                }
                () if is_add && is(word, "NOMKSTREAM") => options.no_make = true,
                () if is_add => {
                    options.id = NewId::parse(word).ok_or(INVALID_ID)?;
                    break;
                }
                () => return Err(SYNTAX.into()),
            }
            index += 1;
        }
        options.next = index + 1;
        if limit.is_some_and(|limit| limit > 0) && keep.is_none() {
            return Err(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                    .into(),
            );
        }
        if !is_add && keep.is_none() {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if limit.is_some() && !is_about {
            return Err(
                "ERR syntax error, LIMIT cannot be used without the special ~ option".into()
            );
        }
        options.trim = keep.map(|keep| (keep, exactness(call, is_about, limit)));
        Ok(options)
    }
}

fn exactness(call: &Call<'_>, is_about: bool, limit: Option<u64>) -> Exactness {
    if !is_about {
        return Exactness::Exact;
    }
    let len = match call.service.settings.stream_node_entries {
        0 => 100,
        entries => entries,
    };
    let usual = len.saturating_mul(100).min(REMOVED_MAX);
    Exactness::Blocks { len, limit: limit.unwrap_or(usual) }
}
