//! Messages: subscribing to channels, and publishing.

use std::sync::Arc;

use crate::call::Call;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::glob;
use crate::pubsub::Kind;
use crate::service::Service;

pub(super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    subscribe_to(call, Kind::Channel, b"subscribe")
}

pub(super) fn psubscribe(call: &mut Call<'_>) -> Outcome {
    subscribe_to(call, Kind::Pattern, b"psubscribe")
}

pub(super) fn ssubscribe(call: &mut Call<'_>) -> Outcome {
    subscribe_to(call, Kind::Shard, b"ssubscribe")
}

/// Replies with a message for each name.
fn subscribe_to(call: &mut Call<'_>, kind: Kind, word: &[u8]) -> Outcome {
    for name in call.args.from(1) {
        call.check_ending()?;
        let subscriptions = call.client.subscriptions.get_or_insert_default();
        call.service.subscribers.subscribe(subscriptions, call.client.place, kind, name);
        confirm(call, word, kind, Some(name));
    }
    Ok(())
}

pub(super) fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    unsubscribe_from(call, Kind::Channel, b"unsubscribe")
}

pub(super) fn punsubscribe(call: &mut Call<'_>) -> Outcome {
    unsubscribe_from(call, Kind::Pattern, b"punsubscribe")
}

pub(super) fn sunsubscribe(call: &mut Call<'_>) -> Outcome {
    unsubscribe_from(call, Kind::Shard, b"sunsubscribe")
}

/// Replies with a message for each name; without names, all subscriptions of this kind end.
fn unsubscribe_from(call: &mut Call<'_>, kind: Kind, word: &[u8]) -> Outcome {
    for name in call.args.from(1) {
        call.check_ending()?;
        end(call.service, call.client, kind, name);
        confirm(call, word, kind, Some(name));
    }
    if call.args.len() > 1 {
        return Ok(());
    }
    let names = call.client.subscriptions.as_ref().map_or(Vec::new(), |all| all.names(kind));
    for name in &names {
        end(call.service, call.client, kind, name);
        confirm(call, word, kind, Some(name));
    }
    if names.is_empty() {
        confirm(call, word, kind, None);
    }
    Ok(())
}

/// Ends a subscription of a client.
fn end(service: &mut Service, client: &mut Client, kind: Kind, name: &[u8]) {
    let Some(subscriptions) = &mut client.subscriptions else { return };
    service.subscribers.unsubscribe(subscriptions, client.place, kind, name);
    if subscriptions.is_empty() {
        client.subscriptions = None;
    }
}

/// Writes that a subscription has begun or ended, and how many are left.
fn confirm(call: &mut Call<'_>, word: &[u8], kind: Kind, name: Option<&[u8]>) {
    let left = call.client.subscriptions.as_ref().map_or(0, |all| all.told(kind));
    let mut reply = call.reply();
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.integer(left as i64);
}

/// Ends all subscriptions of a client.
pub(crate) fn leave(service: &mut Service, client: &mut Client) {
    if let Some(subscriptions) = client.subscriptions.take() {
        service.subscribers.leave(*subscriptions, client.place);
    }
}

pub(super) fn publish(call: &mut Call<'_>) -> Outcome {
    send(call, false)
}

pub(super) fn spublish(call: &mut Call<'_>) -> Outcome {
    send(call, true)
}

fn send(call: &mut Call<'_>, is_shard: bool) -> Outcome {
    let (channel, payload) = (call.arg(1), call.arg(2));
    let store = &mut call.service.store;
    let ending = Arc::clone(&store.ending);
    let count = store.outbox.publish(is_shard, channel, payload, || !ending.breaks_off());
    call.check_ending()?;
    call.reply().integer(count as i64);
    Ok(())
}

pub(super) fn channels(call: &mut Call<'_>) -> Outcome {
    list(call, Kind::Channel)
}

pub(super) fn shardchannels(call: &mut Call<'_>) -> Outcome {
    list(call, Kind::Shard)
}

/// Replies with the names that have subscribers, all or those that match a pattern.
fn list(call: &mut Call<'_>, kind: Kind) -> Outcome {
    if call.args.len() > 3 {
        return Err(wrong_subcommand(call));
    }
    let mut names = call.service.shared.registry.names(kind);
    if let Some(pattern) = call.args.get(2) {
        names.retain(|name| glob::matches(pattern, name, || call.check_ending().is_ok()));
        call.check_ending()?;
    }
    let start = call.out.len();
    call.reply().array(names.len());
    for name in &names {
        call.reply().bulk(name);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// The reply to too many words.
fn wrong_subcommand(call: &Call<'_>) -> Failure {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    Failure::quoting(before, call.arg(1), "'. Try PUBSUB HELP.")
}

pub(super) fn numsub(call: &mut Call<'_>) -> Outcome {
    count(call, Kind::Channel)
}

pub(super) fn shardnumsub(call: &mut Call<'_>) -> Outcome {
    count(call, Kind::Shard)
}

/// Replies with each name, and how many subscribers it has.
fn count(call: &mut Call<'_>, kind: Kind) -> Outcome {
    let (names, start) = (call.args.from(2), call.out.len());
    call.reply().array(2 * names.len());
    for name in names {
        let count = call.service.shared.registry.count_of(kind, name);
        let mut reply = call.reply();
        reply.bulk(name);
        reply.integer(count as i64);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn numpat(call: &mut Call<'_>) -> Outcome {
    let count = call.service.shared.registry.len(Kind::Pattern);
    call.reply().integer(count as i64);
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Lists the channels that have subscribers, or those that match.",
        "NUMPAT",
        "    Counts the patterns that have subscribers.",
        "NUMSUB [<channel> ...]",
        "    Counts the subscribers of channels, those of patterns left out.",
        "SHARDCHANNELS [<pattern>]",
        "    Lists the channels of shards that have subscribers, or those that match.",
        "SHARDNUMSUB [<channel> ...]",
        "    Counts the subscribers of channels of shards.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
