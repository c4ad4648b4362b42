//! The wait of a client whose command has found nothing: BLPOP and its like.
//!
//! ```text
//!  handler: nothing there ──► waits for its keys, in their parts (`store::waiters`) ──► the request stays at the front
//!  another command changes a key ──► behind it: the longest waiting client's request is executed again (`event_loop::waiting`)
//!  the time is over, or CLIENT UNBLOCK ──► executed once more: nothing is the reply, or an error
//! ```
//!
//! The request is executed again as if it had just come, but that it keeps its place among those who wait. So it gets the
//! parts of its keys as always, on any thread, and finds what another client may have taken meanwhile: then it waits on.

use std::time::Duration;

use crate::call::Call;
use crate::client::Client;
use crate::double;
use crate::failure::{Failure, NOT_A_FLOAT_TIMEOUT, Outcome};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::service::Service;
use crate::store::{Awaited, Key, Waiter};
use crate::stored::Type;
use crate::wait::{Ended, Wait};

/// The reply to a client whose wait another one has ended with an error.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

impl Call<'_> {
    /// Lets the client wait until one of the keys has something for it, as the command has found nothing: its handler
    /// returns what this does. Where a client cannot wait, and when the wait is over, `nothing` writes the reply.
    pub(crate) fn wait_for<'k>(
        &mut self,
        of: impl Into<Awaited>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        timeout: Option<Duration>,
        nothing: impl FnOnce(&mut Reply<'_>),
    ) -> Outcome {
        let ended = self.client.wait.as_ref().and_then(|wait| wait.ended);
        if ended == Some(Ended::Refused) {
            return Err(UNBLOCKED.into());
        }
        if ended.is_some() || !self.service.may_wait || self.client.id == Client::GUEST {
            nothing(&mut self.reply());
            return Ok(());
        }
        let db = self.client.db;
        let keys: Vec<Key> = keys.into_iter().map(|key| (db, key.into())).collect();
        let number = match self.client.wait.take() {
            Some(wait) => {
                let number = wait.number;
                self.client.wait = Some(wait);
                number
            }
            None => {
                let number = self.service.shared.next_wait();
                let until = timeout.and_then(|timeout| self.service.now.checked_add(timeout));
                let wait = Wait {
                    number,
                    keys: keys.clone(),
                    until,
                    ended: None,
                    behind: Vec::new(),
                    is_noted: false,
                };
                self.client.wait = Some(wait);
                number
            }
        };
        let (thread, place) = (self.service.thread, self.client.place);
        let of = of.into();
        let waiter = Waiter { number, of, thread, place, client_id: self.client.id };
        keys.into_iter().for_each(|key| self.service.store.wait(key, waiter));
        Err(Failure::Waits)
    }

    /// Whether the client may take what a key has: it may not if others wait for that who came before. A command that would
    /// not wait may.
    pub(crate) fn is_its_turn(&self, of: Type, key: &[u8]) -> bool {
        let wait = self.client.wait.as_ref();
        let number = wait.map_or(u64::MAX, |wait| wait.number);
        let is_alone = self.service.store.partitions() == 1 && wait.is_none();
        is_alone
            || !self.service.may_wait
            || self.service.store.is_first(&(self.client.db, key.into()), of, number)
    }

    /// A word as a time to wait, in milliseconds.
    pub(crate) fn timeout_ms(&self, word: &[u8]) -> Outcome<u64> {
        let time = parse_i64(word).ok_or("ERR timeout is not an integer or out of range")?;
        let time = u64::try_from(time).map_err(|_| "ERR timeout is negative")?;
        let end = time.checked_add(self.service.store.now_ms);
        match end.is_some_and(|end| end <= i64::MAX as u64) {
            true => Ok(time),
            false => Err("ERR timeout is out of range".into()),
        }
    }

    /// A word as the time that a client waits at most; `None`: for ever.
    pub(crate) fn timeout(&self, index: usize) -> Outcome<Option<Duration>> {
        let text = self.arg(index);
        let decimal = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let seconds: Option<f64> = decimal.or_else(|| double::parse(text));
        let seconds = seconds.filter(|seconds| !seconds.is_nan()).ok_or(NOT_A_FLOAT_TIMEOUT)?;
        if seconds < 0.0 {
            return Err("ERR timeout is negative".into());
        }
        let timeout = Duration::try_from_secs_f64(seconds);
        let timeout = timeout.ok().filter(|timeout| timeout.as_millis() < i64::MAX as u128);
        let timeout = timeout.ok_or("ERR timeout is out of range")?;
        Ok((!timeout.is_zero()).then_some(timeout))
    }
}

/// Ends the wait of a client, if it has one.
pub(crate) fn leave(service: &mut Service, client: &mut Client) {
    let Some(wait) = client.wait.take() else { return };
    for key in wait.keys {
        if !service.store.end_wait(&key, wait.number) {
            service.ended_waits.push((key, wait.number));
        }
    }
}
