//! Replies whose elements are written while the store is read.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::call::Call;
use crate::ending::Ending;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::store::Store;

/// A reply that may be long.
pub(super) struct LongReply<'a> {
    reply: Reply<'a>,
    start: usize,
    len_max: usize,
    ending: Arc<Ending>,
}

impl<'a> LongReply<'a> {
    /// The reply to a command, and the store that it reads meanwhile.
    pub(super) fn of(call: &'a mut Call<'_>) -> (&'a mut Store, Self) {
        let len_max = call.service.settings.reply_len_max();
        let start = call.out.len();
        let reply = Reply { out: &mut *call.out, protocol: call.client.protocol };
        let store = &mut call.service.store;
        let ending = Arc::clone(&store.ending);
        (store, Self { reply, start, len_max, ending })
    }

    /// The writer.
    pub(super) fn write(&mut self) -> Reply<'_> {
        Reply { out: &mut *self.reply.out, protocol: self.reply.protocol }
    }

    /// Whether the reply has to be written on: see [`Call::must_write_on`].
    pub(super) fn go_on(&self) -> Outcome<ControlFlow<()>> {
        if self.ending.breaks_off() {
            return Err(Failure::Interrupted);
        }
        Ok(match self.reply.out.len() - self.start <= self.len_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    }
}
