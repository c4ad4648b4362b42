//! Messages from clients to clients, across threads.
//!
//! A [`Post`] is what leaves a thread for clients that did not ask for it in their last request: a message of PUBLISH,
//! or what the server itself has to tell. It takes this path. The command that makes it finds in the [`Registry`],
//! which all threads share, how many clients get it and on which threads they are, and puts it into the [`Outbox`] of
//! its thread. Once the changes of the turn are durable, the event loop delivers the posts for its own clients, and
//! puts those for others into the [`Inbox`] of each thread that has some; a change that is rolled back takes its posts
//! along. The receiving thread finds its clients in its own [`Subscribers`], and writes each of them the post in the
//! protocol that it speaks.
//!
//! A publisher waits for no subscriber, and all memory on the way is bounded: that of an outbox and of an inbox, beyond
//! which subscribers are disconnected, and the output of each client (`client-output-buffer-limit pubsub`).

mod inbox;
mod outbox;
mod post;
mod registry;
mod subscribers;
mod subscriptions;
mod threads;
mod watchers;

pub(crate) use inbox::Inbox;
pub(crate) use outbox::{Mark, Outbox};
pub(crate) use post::{Change, Invalidation, Keys, Message, Post, write_broken_redirect};
pub(crate) use registry::{Kind, Registry};
pub(crate) use subscribers::Subscribers;
pub(crate) use subscriptions::Subscriptions;
pub(crate) use threads::Threads;
pub(crate) use watchers::{Tracked, Watchers};
