//! Groups of consumers, and acknowledgements.

use crate::call::{Call, is};
use crate::collection::stream::Stream;
use crate::failure::{Outcome, SYNTAX};
use crate::store::Store;
use crate::stream_id::StreamId;

use super::{find, id, look_up, no_group_of, wrong_subcommand};

/// The options of XGROUP CREATE and XGROUP SETID.
#[derive(Debug, Default)]
struct Options {
    make_stream: bool,
    entries_read: Option<i64>,
}

impl Options {
    fn parse(call: &Call<'_>, may_make: bool) -> Outcome<Self> {
        let (mut options, mut index) = (Self::default(), 5);
        while let Some(word) = call.args.get(index) {
            if may_make && is(word, "MKSTREAM") {
                options.make_stream = true;
                index += 1;
            } else if is(word, "ENTRIESREAD") && index + 1 < call.args.len() {
                let read = call.integer(index + 1)?;
                if read < -1 {
                    return Err("ERR value for ENTRIESREAD must be positive or -1".into());
                }
                options.entries_read = Some(read).filter(|read| *read >= 0);
                index += 2;
            } else {
                return Err(wrong_subcommand(call, "XGROUP"));
            }
        }
        Ok(options)
    }
}

/// The event of a consumer that is made, by any command.
pub(super) const CONSUMER_MADE: &str = "xgroup-createconsumer";

/// The stream of a subcommand that needs one.
fn needed(stream: Option<Stream>) -> Outcome<Stream> {
    stream.ok_or_else(|| {
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
         use the MKSTREAM option to create an empty stream automatically."
            .into()
    })
}

/// The stream of a subcommand that needs one with the group.
fn with_group(call: &mut Call<'_>) -> Outcome<Stream> {
    let (key, name) = (call.arg(2), call.arg(3));
    let stream = needed(find(call, key)?)?;
    match stream.group(&mut call.service.store, name)? {
        Some(_) => Ok(stream),
        None => Err(no_group_of(key, name)),
    }
}

pub(in crate::commands) fn xgroup_create(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, true)?;
    let (db, key, name) = (call.client.db, call.arg(2), call.arg(3));
    let mut stream = find(call, key)?;
    if !options.make_stream {
        stream = Some(needed(stream)?);
    }
    if call.args.len() > 8 {
        return Err(wrong_subcommand(call, "XGROUP"));
    }
    let store = &mut call.service.store;
    let last = match (call.args.get(4).unwrap_or_default(), &stream) {
        (b"$", Some(stream)) => stream.state(store)?.last,
        (b"$", None) => StreamId::MIN,
        (word, _) => id(word)?,
    };
    let was_there = stream.is_some();
    let mut stream = match stream {
        Some(stream) => stream,
        None => Stream::create(store, db, key)?,
    };
    if !stream.create_group(store, name, last, options.entries_read)? {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    match was_there {
        true => stream.save_groups(store, ["xgroup-create"])?,
        false => stream.save(store, ["xgroup-create"])?,
    }
    call.reply().ok();
    Ok(())
}

pub(in crate::commands) fn xgroup_setid(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, false)?;
    let mut stream = with_group(call)?;
    if !matches!(call.args.len(), 5 | 7) {
        return Err(wrong_subcommand(call, "XGROUP"));
    }
    let (name, word) = (call.arg(3), call.arg(4));
    let store = &mut call.service.store;
    let last = match word {
        b"$" => stream.state(store)?.last,
        _ => StreamId::parse_bound(word, 0).ok_or(super::INVALID_ID)?,
    };
    stream.set_group(store, name, last, options.entries_read)?;
    stream.save_groups(store, ["xgroup-setid"])?;
    call.reply().ok();
    Ok(())
}

pub(in crate::commands) fn xgroup_destroy(call: &mut Call<'_>) -> Outcome {
    let mut stream = needed(find(call, call.arg(2))?)?;
    let name = call.arg(3);
    let was_there = stream.destroy_group(&mut call.service.store, name)?;
    stream.save_groups(&mut call.service.store, was_there.then_some("xgroup-destroy"))?;
    call.reply().flag(was_there);
    Ok(())
}

pub(in crate::commands) fn xgroup_createconsumer(call: &mut Call<'_>) -> Outcome {
    let mut stream = with_group(call)?;
    let (group, name) = (call.arg(3), call.arg(4));
    let store = &mut call.service.store;
    let now_ms = store.now_ms;
    let (_, is_new) = stream.find_or_make_consumer(store, group, name, now_ms)?;
    stream.save_groups(store, is_new.then_some(CONSUMER_MADE))?;
    call.reply().flag(is_new);
    Ok(())
}

pub(in crate::commands) fn xgroup_delconsumer(call: &mut Call<'_>) -> Outcome {
    let mut stream = with_group(call)?;
    let (group, name) = (call.arg(3), call.arg(4));
    let pending = stream.remove_consumer(&mut call.service.store, group, name)?;
    stream.save_groups(&mut call.service.store, pending.map(|_| "xgroup-delconsumer"))?;
    call.reply().integer(pending.unwrap_or(0) as i64);
    Ok(())
}

/// The stream of an acknowledgement, if it has the group.
fn acknowledged(call: &mut Call<'_>) -> Outcome<Option<Stream>> {
    let Some(stream) = look_up(call, call.arg(1))? else { return Ok(None) };
    let group = call.arg(2);
    let has_group = stream.group(&mut call.service.store, group)?.is_some();
    Ok(Some(stream).filter(|_| has_group))
}

pub(in crate::commands) fn xack(call: &mut Call<'_>) -> Outcome {
    let Some(mut stream) = acknowledged(call)? else {
        call.reply().integer(0);
        return Ok(());
    };
    let ids = call.args.from(3).iter().map(id).collect::<Outcome<Vec<_>>>()?;
    let (group, mut count) = (call.arg(2), 0);
    for id in ids {
        call.check_ending()?;
        count += i64::from(stream.acknowledge(&mut call.service.store, group, id)?);
    }
    stream.save_groups(&mut call.service.store, None)?;
    call.reply().integer(count);
    Ok(())
}

/// Acknowledges entries, and removes them, as XDELEX does.
pub(in crate::commands) fn xackdel(call: &mut Call<'_>) -> Outcome {
    let Deletion { references, ids } = Deletion::parse(call, 3)?;
    let (mut stream, group) = (acknowledged(call)?, call.arg(2));
    let mut is_changed = false;
    call.reply().array(ids.len());
    for id in ids {
        call.check_ending()?;
        let store = &mut call.service.store;
        let done = match &mut stream {
            Some(stream) => match stream.acknowledge(store, group, id)? {
                // An entry that was removed before is as good as removed now.
                true => {
                    let done = references.delete(store, stream, id)?;
                    is_changed |= done == References::DELETED;
                    done.max(References::DELETED)
                }
                false => References::ABSENT,
            },
            None => References::ABSENT,
        };
        call.reply().integer(done);
    }
    let store = &mut call.service.store;
    match stream {
        Some(stream) if is_changed => stream.save(store, ["xdel"]),
        Some(stream) => stream.save_groups(store, None),
        None => Ok(()),
    }
}

/// The treatment of references to an entry that is removed: of groups in which it is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    Keep,
    Delete,
    /// An entry that a group wants is not removed.
    Respect,
}

impl References {
    pub(super) const ABSENT: i64 = -1;
    pub(super) const DELETED: i64 = 1;
    pub(super) const KEPT: i64 = 2;

    fn parse(word: &[u8]) -> Option<Self> {
        match () {
            () if is(word, "KEEPREF") => Some(Self::Keep),
            () if is(word, "DELREF") => Some(Self::Delete),
            () if is(word, "ACKED") => Some(Self::Respect),
            () => None,
        }
    }

    /// Removes an entry; returns the number that says what was done.
    pub(super) fn delete(
        self,
        store: &mut Store,
        stream: &mut Stream,
        id: StreamId,
    ) -> Outcome<i64> {
        if self == Self::Delete {
            stream.acknowledge_everywhere(store, id)?;
        }
        if stream.get(store, id)?.is_none() {
            return Ok(Self::ABSENT);
        }
        if self == Self::Respect && stream.is_wanted(store, id)? {
            return Ok(Self::KEPT);
        }
        stream.remove(store, id)?;
        Ok(Self::DELETED)
    }
}

/// The words of XDELEX and XACKDEL behind the key, or the group.
#[derive(Debug)]
pub(super) struct Deletion {
    pub(super) references: References,
    pub(super) ids: Vec<StreamId>,
}

impl Deletion {
    pub(super) fn parse(call: &Call<'_>, from: usize) -> Outcome<Self> {
        let (mut references, mut words, mut index) = (None, None, from);
        while let Some(word) = call.args.get(index) {
            match References::parse(word) {
                Some(wanted) if references.is_none() => {
                    references = Some(wanted);
                    index += 1;
                }
                None if is(word, "IDS") && index + 1 < call.args.len() && words.is_none() => {
                    let count = call.integer(index + 1).ok().and_then(|n| usize::try_from(n).ok());
                    let count = count.filter(|count| *count > 0);
                    let count = count.ok_or("ERR Number of IDs must be a positive integer")?;
                    let left = call.args.len() - index - 2;
                    if count > left {
                        return Err(
                            "ERR The `numids` parameter must match the number of arguments".into(),
                        );
                    }
                    words = Some(index + 2..index + 2 + count);
                    index += 2 + count;
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        let words = words.ok_or(SYNTAX)?;
        let ids = words.map(|index| id(call.arg(index))).collect::<Outcome<_>>()?;
        Ok(Self { references: references.unwrap_or(References::Keep), ids })
    }
}

pub(in crate::commands) fn xgroup_help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
        "    Makes a group that reads entries behind an id.",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Makes a consumer.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Removes a consumer, and tells how much was pending with it.",
        "DESTROY <key> <groupname>",
        "    Removes a group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD <count>]",
        "    Sets the id behind which a group reads on.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
