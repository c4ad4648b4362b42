//! One command of one client.

use crate::client::Client;
use crate::failure::{DB_OUT_OF_RANGE, Failure, NOT_AN_INTEGER, Outcome};
use crate::notifications::EventClass;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::resp::Args;
use crate::service::Service;
use crate::stored::{Stored, StringValue, Unreadable};

/// The context of a command: its client, its words, and where the reply goes.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a mut Service,
    pub(crate) client: &'a mut Client,
    /// The words; the first is the command's name.
    pub(crate) args: Args<'a>,
    pub(crate) out: &'a mut Vec<u8>,
}

impl<'a> Call<'a> {
    /// Returns the writer of the reply.
    #[inline]
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply { out: self.out, protocol: self.client.protocol }
    }

    /// A word that the command's arity says is there.
    #[inline]
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).unwrap_or_default()
    }

    /// A word as an integer.
    pub(crate) fn integer(&self, index: usize) -> Outcome<i64> {
        parse_i64(self.arg(index)).ok_or_else(|| NOT_AN_INTEGER.into())
    }

    /// A word as a count, whose sign says how it is meant.
    pub(crate) fn count_in_range(&self, index: usize) -> Outcome<i64> {
        match self.integer(index)? {
            i64::MIN => Err(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            )
            .into()),
            count => Ok(count),
        }
    }

    /// A word as the number of a database.
    pub(crate) fn database(&self, index: usize) -> Outcome<usize> {
        let number = self.integer(index)?;
        if i32::try_from(number).is_err() {
            return Err(
                "ERR value is out of range, value must between -2147483648 and 2147483647".into()
            );
        }
        self.check_database(number)
    }

    /// The number of a database, if there is one with this number.
    pub(crate) fn check_database(&self, number: i64) -> Outcome<usize> {
        let number = usize::try_from(number).ok();
        let known = number.filter(|&number| number < self.service.settings.databases);
        known.ok_or_else(|| DB_OUT_OF_RANGE.into())
    }

    /// Refuses to go on when the server has to end. Long loops call this at each step.
    #[inline]
    pub(crate) fn check_ending(&self) -> Outcome {
        if self.service.store.ending.breaks_off() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    /// Whether a reply that began at `start` has to be written on: beyond the limit its client is dropped for it, so
    /// the rest is not needed. Refuses when the server has to end. A reply that grows with the words of its request
    /// asks this behind each.
    #[inline]
    pub(crate) fn must_write_on(&self, start: usize) -> Outcome<bool> {
        self.check_ending()?;
        Ok(self.out.len() - start <= self.service.settings.reply_len_max())
    }

    /// The string at a key, for a command that changes it.
    #[inline]
    pub(crate) fn get(&mut self, key: &[u8]) -> Outcome<Option<StringValue>> {
        string(self.service.store.get(self.client.db, key)?)
    }

    /// Whether a key has a value of any type.
    pub(crate) fn contains(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.service.store.contains(self.client.db, key)?)
    }

    /// The string at a key, for a command that only reads: it counts as a hit or a miss.
    #[inline]
    pub(crate) fn read(&mut self, key: &[u8]) -> Outcome<Option<StringValue>> {
        string(self.read_any(key)?)
    }

    /// [`Call::read`] for a command that takes values of all types.
    #[inline]
    pub(crate) fn read_any(&mut self, key: &[u8]) -> Outcome<Option<Stored>> {
        let value = self.service.store.get(self.client.db, key)?;
        self.note_lookup(key, value.is_some());
        Ok(value)
    }

    /// Notes that a read found its key, or did not. Commands on collections call this behind each look-up that only reads.
    #[inline]
    pub(crate) fn note_lookup(&mut self, key: &[u8], found: bool) {
        self.service.counters.note_lookup(found);
        // The end of a wait is no new try: what it misses was told before.
        let is_over = || self.client.wait.as_ref().is_some_and(|wait| wait.ended.is_some());
        if !found && !is_over() {
            self.notify(EventClass::KeyMiss, "keymiss", key);
        }
    }

    /// [`Call::read`] for a command to which a value of another type is as none.
    pub(crate) fn read_if_string(&mut self, key: &[u8]) -> Outcome<Option<StringValue>> {
        match self.read_any(key)?.map(Stored::into_string) {
            Some(Ok(string)) => Ok(Some(string)),
            Some(Err(Unreadable::NoString { .. })) | None => Ok(None),
            Some(Err(why)) => Err(why.into()),
        }
    }

    /// Tells of an event at a key of the client's database, as [`Store::notify`](crate::store::Store::notify) has it.
    #[inline]
    pub(crate) fn notify(&mut self, class: EventClass, event: &'static str, key: &[u8]) {
        self.service.store.notify(class, event, self.client.db, key);
    }
}

/// A value as a string, for a command on strings.
#[inline]
pub(crate) fn string(value: Option<Stored>) -> Outcome<Option<StringValue>> {
    match value {
        Some(value) => Ok(Some(value.into_string()?)),
        None => Ok(None),
    }
}

/// Whether two words are the same in upper or lower case.
#[inline]
pub(crate) fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
