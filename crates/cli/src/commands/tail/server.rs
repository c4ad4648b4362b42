//! The changes of a running server, asked for piece by piece.

use std::io::Write;
use std::thread;
use std::time::Duration;

use halite::{Change, ChangeOp, KeySpaceId};
use halite_resp_client::Reply;

use super::Tail;
use super::print::{Names, Printer};
use crate::interrupt::Interrupt;
use crate::remote::{Client, Server};
use crate::values::Values;
use crate::{Error, Result, output};

/// How long the next question waits when there was nothing new.
const PAUSE: Duration = Duration::from_millis(100);

const COMMAND: &[u8] = b"HALITE.CHANGES";

impl Tail {
    /// Prints what a server has, and, if it is followed, what comes.
    pub(super) fn print_server(&self, server: Server, interrupt: &Interrupt) -> Result<()> {
        let address = server.address().to_owned();
        let mut feed = Feed { client: server.into_client() };
        let bounds = feed.positions()?;
        self.check_from(&address, bounds.len())?;
        let printer = Printer {
            names: Names::new(feed.spaces()?.into_iter()),
            values: Values::of_server(&address),
            as_json: self.json,
        };
        let at = (0..bounds.len()).map(|partition| self.named(partition)).collect();
        let out = output::stdout();
        let mut following = Following { feed, printer, interrupt, at, has_printed: false, out };
        let ended = following.run(&bounds, self.follow);
        match (ended, following.out.flush()) {
            (Ok(()) | Err(Error::OutputClosed), flushed) => flushed.map_err(output::failed),
            (Err(error), Ok(())) => Err(following.with_position(error)),
            // The last line that was printed is not known.
            (Err(error), Err(_)) => Err(error),
        }
    }
}

/// The output, as far as it has come.
struct Following<'a, W> {
    feed: Feed,
    printer: Printer,
    interrupt: &'a Interrupt,
    /// By partition, the position of the last change that was printed, or named.
    at: Vec<Option<u64>>,
    has_printed: bool,
    out: W,
}

impl<W: Write> Following<'_, W> {
    fn run(&mut self, bounds: &[(u64, u64)], follows: bool) -> Result<()> {
        for (partition, (oldest, end)) in bounds.iter().enumerate() {
            // A position that is named is refused if it is none; behind the end that was, writes go on.
            let mut goes_on = true;
            while goes_on && (self.at[partition].is_none_or(|at| at != *end)) {
                let from = self.at[partition].unwrap_or(*oldest);
                goes_on = self.step(partition, from)? && self.at[partition] < Some(*end);
            }
        }
        if !follows {
            return Ok(());
        }
        loop {
            self.out.flush().map_err(output::failed)?;
            let mut has_more = false;
            for (partition, (oldest, _)) in bounds.iter().enumerate() {
                has_more |= self.step(partition, self.at[partition].unwrap_or(*oldest))?;
            }
            if !has_more {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Prints the next changes of a partition; returns whether there were some.
    fn step(&mut self, partition: usize, from: u64) -> Result<bool> {
        self.interrupt.check()?;
        let changes = self.feed.read(partition, from)?;
        let has_some = !changes.is_empty();
        for change in changes {
            self.interrupt.check()?;
            if self.printer.names.lack_some(&change) {
                self.printer.names.add(self.feed.spaces()?.into_iter());
            }
            let position = change.position;
            self.printer.print(&mut self.out, partition, change)?;
            self.at[partition] = Some(position);
            self.has_printed = true;
        }
        Ok(has_some)
    }

    /// An error that ends it, with what to go on by.
    fn with_position(&self, error: Error) -> Error {
        let known = self.at.iter().enumerate();
        let known = known.filter_map(|(partition, at)| Some(format!("{partition}:{}", (*at)?)));
        let known: Vec<_> = known.collect();
        // A position that the caller named may be the reason.
        match self.has_printed {
            false => error,
            true => Error::Ended { source: Box::new(error), from: known.join(",") },
        }
    }
}

/// The change log of a server.
struct Feed {
    client: Client,
}

impl Feed {
    /// Of each partition, the oldest position, and the one behind the last change.
    fn positions(&mut self) -> Result<Vec<(u64, u64)>> {
        let reply = self.client.ask(&[COMMAND, b"POSITIONS"])?;
        let bounds = |item| match array(item)?.as_slice() {
            [Reply::Integer(oldest), Reply::Integer(end)] => Some((*oldest as u64, *end as u64)),
            _ => None,
        };
        self.each(reply, bounds)
    }

    /// The names of the key spaces.
    fn spaces(&mut self) -> Result<Vec<(KeySpaceId, String)>> {
        let reply = self.client.ask(&[COMMAND, b"SPACES"])?;
        self.each(reply, |item| {
            let mut words = array(item)?.into_iter();
            Some((space(words.next())?, name(words.next())?))
        })
    }

    /// The next changes of a partition.
    fn read(&mut self, partition: usize, from: u64) -> Result<Vec<Change>> {
        let (partition, from) = (partition.to_string(), from.to_string());
        let words = [COMMAND, b"READ", partition.as_bytes(), from.as_bytes()];
        let reply = self.client.ask(&words)?;
        self.each(reply, |item| {
            let mut parts = array(item)?.into_iter();
            let Some(Reply::Integer(position)) = parts.next() else { return None };
            let ops = array(parts.next()?)?.into_iter().map(op).collect::<Option<_>>()?;
            Some(Change { position: position as u64, ops })
        })
    }

    fn each<T>(&self, reply: Reply, of: impl Fn(Reply) -> Option<T>) -> Result<Vec<T>> {
        let items = array(reply).and_then(|items| items.into_iter().map(of).collect());
        items.ok_or_else(|| self.client.unexpected())
    }
}

fn array(reply: Reply) -> Option<Vec<Reply>> {
    match reply {
        Reply::Array(items) => Some(items),
        _ => None,
    }
}

fn bytes(reply: Option<Reply>) -> Option<Vec<u8>> {
    match reply? {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

fn name(reply: Option<Reply>) -> Option<String> {
    String::from_utf8(bytes(reply)?).ok()
}

fn space(reply: Option<Reply>) -> Option<KeySpaceId> {
    match reply? {
        Reply::Integer(id) => Some(KeySpaceId(u32::try_from(id).ok()?)),
        _ => None,
    }
}

/// An operation, of the words in which the server tells it.
fn op(reply: Reply) -> Option<ChangeOp> {
    let mut words = array(reply)?.into_iter();
    let what = bytes(words.next())?;
    if what == b"drop" {
        return Some(ChangeOp::DropKeySpace { name: name(words.next())? });
    }
    let space = space(words.next())?;
    let mut next = || bytes(words.next());
    Some(match &what[..] {
        b"create" => ChangeOp::CreateKeySpace { space, name: String::from_utf8(next()?).ok()? },
        b"put" => ChangeOp::Put { space, key: next()?, value: next()? },
        b"superseded" => ChangeOp::Superseded { space, key: next()? },
        b"delete" => ChangeOp::Delete { space, key: next()? },
        b"delete-range" => ChangeOp::DeleteRange { space, start: next()?, end: next() },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Reply {
        let mut items = vec![Reply::Bulk(words[0].into()), Reply::Integer(4)];
        items.extend(words[1..].iter().map(|word| Reply::Bulk((*word).into())));
        Reply::Array(items)
    }

    #[test]
    fn operations_are_read_and_others_refused() {
        let space = KeySpaceId(4);
        let put = ChangeOp::Put { space, key: b"k".to_vec(), value: b"v".to_vec() };
        assert_eq!(op(words(&["put", "k", "v"])), Some(put));
        let range = ChangeOp::DeleteRange { space, start: b"a".to_vec(), end: None };
        assert_eq!(op(words(&["delete-range", "a"])), Some(range));
        for wrong in [words(&["put", "k"]), words(&["other"]), Reply::Array(vec![]), Reply::Null] {
            assert_eq!(op(wrong.clone()), None, "{wrong:?}");
        }
    }
}
