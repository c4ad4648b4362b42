//! The server without its network: requests of one client, executed where they are made.
//!
//! The crash lab drives the server's commands and its store with it, on a medium that the lab has, and fuzzers and other
//! tests may. Here nothing happens by itself: durability ([`InProcess::settle`]), the removal of what has expired, the
//! reclaiming of dropped collections and the time come when they are asked for, so that a run can be repeated.

use std::net::SocketAddr;
use std::sync::Arc;

use mio::{Poll, Token, Waker};

use crate::address::Address;
use crate::admission::admit;
use crate::client::Client;
use crate::collection::hash;
use crate::dispatch::answer;
use crate::loading::Loading;
use crate::partition_set::PartitionSet;
use crate::random;
use crate::reply::{Protocol, Reply};
use crate::resp::Args;
use crate::service::{Service, new_run_id};
use crate::settings::Settings;
use crate::shard::bell::Bell;
use crate::shared::Shared;
use crate::store::Store;
use crate::{Config, Error};

/// Expired keys, and hashes with expired fields, that are removed at once.
const EXPIRED_MAX: usize = 64;

/// A server of one client and one thread.
pub struct InProcess {
    service: Service,
    client: Client,
    /// The bell of a thread needs it.
    _poll: Poll,
}

impl InProcess {
    /// Opens the databases, as a server does before it serves. The choices that a server makes at random follow from
    /// `seed`, here and wherever else this thread makes them from now on.
    ///
    /// # Errors
    /// The errors of the database.
    pub fn open(db: halite::Database, config: &Config, seed: u64) -> Result<Self, Error> {
        random::seed(seed);
        let failed = |source| Error::Io { action: "create a poll", source };
        let poll = Poll::new().map_err(failed)?;
        let bells = [Bell::new(Waker::new(poll.registry(), Token(0)).map_err(failed)?)];
        let partitions = db.partitions();
        let loading = Loading::new(1, partitions, PartitionSet::first(partitions));
        let settings = Settings::new(config, 0);
        let shared = Arc::new(Shared::new(settings, Arc::new(bells), loading));
        let store = Store::open(db, config.databases as usize)?;
        shared.scripts.open(&store.libraries()?, &shared.common().0.settings);
        let mut service = Service::new(store, shared, 0, &new_run_id());
        // A command that would wait answers as it does within EXEC.
        service.may_wait = false;
        let nowhere = Address::Ip(SocketAddr::from(([0u8, 0, 0, 0], 0)));
        let mut client = Client::new(1, nowhere.clone(), nowhere, -1, service.now);
        client.authenticated = true;
        Ok(Self { service, client, _poll: poll })
    }

    /// Sets the time that keys have, in milliseconds since 1970.
    pub fn set_time(&mut self, ms: u64) {
        self.service.change(|common| common.settings.time_ms = Some(ms));
        self.service.tick();
    }

    /// Executes a request, and returns the reply, in RESP2. Its writes are not durable yet.
    pub fn request(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut ranges, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for word in words {
            let start = bytes.len();
            bytes.extend_from_slice(word);
            ranges.push(start..bytes.len());
        }
        let args = Args::new(&bytes, &ranges);
        if args.is_empty() {
            return out;
        }
        self.service.refresh();
        self.service.begin_lap();
        match admit(&self.service, &self.client, args) {
            Ok(admission) => {
                answer(&mut self.service, &mut self.client, admission, &mut out);
            }
            Err(_) => {
                Reply { out: &mut out, protocol: Protocol::Resp2 }.error(b"ERR it would wait")
            }
        }
        out
    }

    /// Makes all writes durable. If that fails, writes are refused from then on.
    ///
    /// # Errors
    /// Why they cannot be made durable.
    pub fn settle(&mut self) -> Result<(), Error> {
        if let Some(error) = self.service.shared.sync_failure.get() {
            return Err(Error::Sync(Arc::clone(error)));
        }
        self.service.sync().map_err(|error| {
            self.service.store.abandon_syncs();
            let error = Arc::new(error);
            let _ = self.service.shared.sync_failure.set(Arc::clone(&error));
            Error::Sync(error)
        })
    }

    /// Waits until the bytes of all records are known, if there is a limit of them: it holds from then on.
    pub fn count_bytes(&mut self) {
        self.service.refresh();
        if self.service.store.live_bytes().is_none() {
            self.service.shared.data_bytes.wait();
        }
    }

    /// Removes some keys and fields that have expired.
    pub fn remove_expired(&mut self) {
        self.service.store.expire_due(EXPIRED_MAX);
        hash::remove_due(&mut self.service.store, EXPIRED_MAX);
    }

    /// Takes a step in reclaiming dropped collections; returns whether there was one to take.
    pub fn reclaim(&mut self) -> bool {
        self.service.store.reclaim()
    }

    /// Lets the engine collect a little of its garbage; returns whether there was any.
    pub fn collect(&mut self) -> bool {
        self.service.store.collect_ahead()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(db: &halite::Database) -> InProcess {
        InProcess::open(db.clone(), &Config::default(), 1).unwrap()
    }

    #[test]
    fn requests_are_answered_as_a_server_answers_them() {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        let mut server = opened(&db);
        assert_eq!(server.request(&[b"SADD", b"s", b"a", b"b"]), b":2\r\n");
        assert_eq!(server.request(&[b"BLPOP", b"none", b"0"]), b"*-1\r\n");
        assert!(server.request(&[b"LPUSH", b"s", b"a"]).starts_with(b"-WRONGTYPE"));
        server.settle().unwrap();
        drop(server);
        assert_eq!(opened(&db).request(&[b"SCARD", b"s"]), b":2\r\n");
    }

    #[test]
    fn time_goes_on_when_it_is_told_to() {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        let mut server = opened(&db);
        server.set_time(1000);
        server.request(&[b"SET", b"k", b"v", b"PXAT", b"1001"]);
        assert_eq!(server.request(&[b"GET", b"k"]), b"$1\r\nv\r\n");
        server.set_time(1001);
        assert_eq!(server.request(&[b"GET", b"k"]), b"$-1\r\n");
    }
}
