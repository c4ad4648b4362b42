//! The last part of a post's way: into the output of a connection, in the protocol of its client.
//!
//! A client gets posts between the replies to its requests: behind the reply to each request before, also while that
//! is still on its way from another thread. So a client that reads a value and is then told that it has changed gets to
//! know them in this order.

use crate::client::Client;
use crate::connection::Connection;
use crate::pubsub::Post;
use crate::reply::Protocol;
use crate::service::Service;

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
            Post::Commands(_) | Post::CommandsLost => {}
        }
    }
    client.next_post = end;
    if !forms.is_empty() {
        connection.push(&forms);
        connection.output.divide(&mut service.spares);
        service.check_output(client, connection.backlog(), 0);
    }
}
