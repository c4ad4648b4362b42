//! MIGRATE: keys go to another server, and are removed here once it has them.
//!
//! The keys are sent by a thread of their own ([`crate::migration`]), while others are served; the request waits meanwhile, and
//! is executed a second time when the thread has ended. Then each key that the target has is removed, if it still has the
//! value that was sent. Within a transaction or a script nothing may come between, and other clients wait: the request of a
//! script is executed again by the script, which looks meanwhile whether it has to end.

use std::sync::Arc;
use std::time::Duration;

use halite_resp_client::encode;
use xxhash_rust::xxh3::xxh3_128;

use crate::call::{Call, is};
use crate::client::Client;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::migration::{Job, Migration, Sent, SentKey};
use crate::notifications::EventClass;

use super::dump::{budget, payload};

/// The patience of a client that has none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// No target is waited for longer: the client may have gone meanwhile.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Some key has changed since it was sent.
const CHANGED: &str =
    "ERR a key was changed while it was sent, and stays here; the target has what it was before";

/// The words of a request.
#[derive(Debug)]
struct Options<'a> {
    copy: bool,
    replace: bool,
    /// The words of AUTH, without its name.
    auth: Vec<&'a [u8]>,
    /// The index of the first key, and of the word behind the last.
    keys: (usize, usize),
    database: i64,
    timeout: Duration,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a>) -> Outcome<Self> {
        let (mut copy, mut replace, mut auth, mut keys) = (false, false, Vec::new(), (3, 4));
        let mut index = 6;
        while let Some(word) = call.args.get(index) {
            let more = call.args.len() - 1 - index;
            match () {
                () if is(word, "COPY") => copy = true,
                () if is(word, "REPLACE") => replace = true,
                () if is(word, "AUTH") && more >= 1 => {
                    auth = vec![call.arg(index + 1)];
                    index += 1;
                }
                () if is(word, "AUTH2") && more >= 2 => {
                    auth = vec![call.arg(index + 1), call.arg(index + 2)];
                    index += 2;
                }
                () if is(word, "KEYS") => {
                    if !call.arg(3).is_empty() {
                        let why = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
                        return Err(why.into());
                    }
                    keys = (index + 1, call.args.len());
                    break;
                }
                () => return Err(SYNTAX.into()),
            }
            index += 1;
        }
        let timeout = u64::try_from(call.integer(5)?).unwrap_or(0);
        let database = call.integer(4)?;
        let timeout = match timeout {
            0 => DEFAULT_TIMEOUT,
            ms => Duration::from_millis(ms).min(TIMEOUT_MAX),
        };
        Ok(Self { copy, replace, auth, keys, database, timeout })
    }
}

pub(super) fn migrate(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call)?;
    if let Some(migration) = call.client.migration.take() {
        let Some(sent) = migration.ended() else {
            call.client.migration = Some(migration);
            return Err(Failure::Waits);
        };
        return finish(call, &options, migration.into_keys(), sent);
    }
    let (keys, restores) = requests(call, &options)?;
    if keys.is_empty() {
        call.reply().simple("NOKEY");
        return Ok(());
    }
    let job = job(call, &options, restores)?;
    if !call.service.may_wait && call.client.id != Client::GUEST {
        let shared = Arc::clone(&call.service.shared);
        let sent = job.run(|| shared.ending.has_begun());
        return finish(call, &options, keys, sent);
    }
    let begun = Migration::begin(job, keys, &call.service.shared, call.service.thread);
    call.client.migration = Some(begun.map_err(|why| format!("ERR {why}"))?);
    Err(Failure::Waits)
}

/// The keys that there are, and the request that restores each.
fn requests(call: &mut Call<'_>, options: &Options<'_>) -> Outcome<(Vec<SentKey>, Vec<Vec<u8>>)> {
    let (db, mut budget) = (call.client.db, budget(call));
    let (mut keys, mut requests) = (Vec::new(), Vec::new());
    for index in options.keys.0..options.keys.1 {
        let key = call.arg(index);
        let Some(payload) = payload(call, db, key, &mut budget)? else { continue };
        let store = &call.service.store;
        let deadline = store.deadline(db, key)?;
        let ttl = deadline.map_or(0, |at| at.saturating_sub(store.now_ms).max(1));
        keys.push(SentKey { key: key.to_vec(), digest: xxh3_128(&payload), deadline });
        let ttl = ttl.to_string();
        let mut words = vec![&b"RESTORE"[..], key, ttl.as_bytes(), &payload];
        if options.replace {
            words.push(b"REPLACE");
        }
        let mut request = Vec::new();
        encode(&mut request, &words);
        requests.push(request);
    }
    Ok((keys, requests))
}

fn job(call: &Call<'_>, options: &Options<'_>, restores: Vec<Vec<u8>>) -> Outcome<Job> {
    let mut opening = Vec::new();
    if !options.auth.is_empty() {
        let mut request = Vec::new();
        encode(&mut request, &[&[&b"AUTH"[..]][..], &options.auth[..]].concat());
        opening.push(request);
    }
    let mut select = Vec::new();
    encode(&mut select, &["SELECT", &options.database.to_string()]);
    opening.push(select);
    let host = String::from_utf8_lossy(call.arg(1)).into_owned();
    let port = std::str::from_utf8(call.arg(2)).ok().and_then(|port| port.parse().ok());
    // As a port that nothing listens on.
    let port = port.unwrap_or(0);
    Ok(Job { host, port, timeout: options.timeout, opening, restores })
}

/// Removes the keys that the target has, and replies.
fn finish(call: &mut Call<'_>, options: &Options<'_>, keys: Vec<SentKey>, sent: Sent) -> Outcome {
    let mut has_changed = false;
    let db = call.client.db;
    if !options.copy {
        let mut budget = budget(call);
        let arrived = keys.into_iter().zip(sent.arrived).filter(|(_, has_arrived)| *has_arrived);
        for (sent, _) in arrived {
            let now = payload(call, db, &sent.key, &mut budget)?;
            let Some(now) = now else { continue };
            let store = &mut call.service.store;
            if xxh3_128(&now) != sent.digest || store.deadline(db, &sent.key)? != sent.deadline {
                has_changed = true;
                continue;
            }
            store.remove(db, &sent.key)?;
            call.notify(EventClass::Generic, "del", &sent.key);
        }
    }
    match sent.failure {
        Some(failure) => Err(failure.into()),
        None if has_changed => Err(CHANGED.into()),
        None => {
            call.reply().ok();
            Ok(())
        }
    }
}
