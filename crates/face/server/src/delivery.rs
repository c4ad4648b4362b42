//! The last part of a post's way: into the output of a connection, in the protocol of its client.
//!
//! A client gets posts between the replies to its requests: behind the reply to each request before, also while that
//! is still on its way from another thread. So a client that reads a value and is then told that it has changed gets to
//! know them in this order.

use crate::client::Client;
use crate::connection::Connection;
use crate::pubsub::{Keys, Post};
use crate::reply::Protocol;
use crate::service::Service;
use crate::tracking::Mode;

/// A post as clients of each protocol get it. Each form is written once, for the first client that needs it.
#[derive(Debug, Default)]
pub(crate) struct Forms([Vec<u8>; 2]);

impl Forms {
    /// The form of a protocol, which `write` appends if it is not there.
    pub(crate) fn of(&mut self, protocol: Protocol, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let form = &mut self.0[usize::from(protocol == Protocol::Resp3)];
        if form.is_empty() {
            write(form);
        }
        form
    }
}

/// Gives a client the posts of this turn that were made by requests before its next one, and that it has not got. They
/// leave at the end of the turn, as its replies do.
pub(crate) fn catch_up(service: &mut Service, client: &mut Client, connection: &mut Connection) {
    let outbox = &service.store.outbox;
    let end = outbox.end();
    if client.next_post >= end {
        return;
    }
    let mut forms = Vec::new();
    for number in client.next_post.max(outbox.first())..end {
        let Some(addressed) = outbox.get(number) else { continue };
        match &*addressed.post {
            Post::Message(message) => {
                for pattern in service.subscribers.ways_to(client.place, message) {
                    message.write(client.protocol, pattern, &mut forms);
                }
            }
            // They come together, at the end of the turn.
            Post::Commands(_) | Post::CommandsLost | Post::Changes(_) => {}
            // It reaches another client.
            Post::Redirected { .. } => {}
            Post::Invalidation(invalidation) if invalidation.client == client.id => {
                if is_told(client, Some(invalidation.by)) {
                    let keys = Keys::These(vec![(&*invalidation.key).into()]);
                    keys.write(client.protocol, &mut forms);
                }
            }
            Post::Invalidation(_) => {}
            Post::Flush => {
                if is_told(client, None) {
                    Keys::All.write(client.protocol, &mut forms);
                }
            }
        }
    }
    client.next_post = end;
    if !forms.is_empty() {
        connection.push(&forms);
        connection.output.divide(&mut service.spares);
        service.check_output(client, connection.backlog(), 0);
    }
}

/// Whether a client itself, and no other one for it, is told of a change, which a client may have made: of a key that
/// it has read, or, without a client, of all keys.
fn is_told(client: &Client, by: Option<u64>) -> bool {
    let Some(tracking) = &client.tracking else { return false };
    let of_key = |by| tracking.mode != Mode::Broadcast && tracking.tells(client.id, by);
    client.protocol == Protocol::Resp3 && tracking.redirect == 0 && by.is_none_or(of_key)
}
