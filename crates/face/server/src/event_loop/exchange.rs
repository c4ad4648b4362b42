//! The messages of a turn.

use super::EventLoop;
use crate::answer::{Answer, SMALL};
use crate::dispatch::Dispatched;
use crate::shard::message::Message;
use crate::shard::packet::Asker;
use crate::shard::peers::Peers;

impl EventLoop {
    /// Takes the messages of other threads, and executes their requests.
    pub(super) fn receive(&mut self) {
        let Some(mut peers) = self.peers.take() else { return };
        for from in peers.mailbox.others() {
            while let Some(message) = peers.mailbox.receive(from) {
                self.must_retry = true;
                self.take(&mut peers, from, message);
            }
        }
        // A thread that has returned a part may have changed shared settings before.
        self.service.refresh();
        peers.execute(&mut self.service);
        self.peers = Some(peers);
        self.list_completed();
        if std::mem::take(&mut self.must_retry) {
            for place in std::mem::take(&mut self.stalled) {
                self.resume(place, Dispatched::Stalled);
            }
        }
    }

    fn take(&mut self, peers: &mut Peers, from: usize, message: Message) {
        match message {
            Message::Requests(packet) => peers.accept(from, packet),
            Message::Replies(mut packet) => {
                self.shared.client_memory.receive(packet.take_counted());
                packet.take_answers(|asker, answer| self.take_answer(peers, from, asker, answer));
                for (asker, mut entry) in packet.slow.drain(..) {
                    let client = self.service.clients.get(asker.place);
                    if let Some(client) = client.filter(|client| client.id == asker.client_id) {
                        entry.name.clone_from(&client.name);
                    }
                    self.service.log_slow(entry);
                }
                self.service.spares.put(peers.keep(from, packet));
            }
            Message::Room { client_id, bytes } => peers.make_room(from, client_id, bytes),
            Message::Ask { operation, parts } => peers.lender.ask(from, operation, parts),
            Message::Lend { operation, parts } => {
                let Peers { mailbox, lender, .. } = peers;
                lender.lent(mailbox, &mut self.service.store, operation, parts);
            }
            Message::Return(parts) => peers.lender.returned(&mut self.service.store, parts),
            Message::Inquire { operation, details } => {
                peers.lender.inquire(from, operation, details)
            }
            Message::Tell { operation, report } => {
                peers.lender.told(&mut peers.mailbox, operation, *report);
            }
            Message::Kill(ids) => self.service.kill(&ids),
            Message::Wake { place, client_id } => self.wake(place, client_id),
            Message::EndWaits(waits) => self.service.ended_waits.extend(waits),
            Message::Unblock { client_id, ended } => {
                self.service.unblocked.push((client_id, ended));
            }
            Message::Forget(watches) => self.service.forgotten.extend(watches),
            Message::Welcome => self.adopt_arrivals(),
        }
    }

    /// Takes a reply that another thread has sent.
    fn take_answer(&mut self, peers: &mut Peers, from: usize, asker: Asker, answer: Answer<'_>) {
        let len = answer.len();
        let client = self.service.clients.get(asker.place);
        let client = client.filter(|client| client.id == asker.client_id);
        let (Some(_), Some(connection)) = (client, &mut self.connections[asker.place]) else {
            // The connection is closed, so its client cannot fall behind in reading.
            if len > SMALL {
                let room = Message::Room { client_id: asker.client_id, bytes: len };
                peers.mailbox.send(from, room);
            }
            return;
        };
        connection.answers.fill(asker.ticket, from, answer, &mut connection.output);
        connection.output.divide(&mut self.service.spares);
        let backlog = connection.backlog();
        self.service.check_output_of(asker.place, backlog, len);
        self.resume(asker.place, Dispatched::Unanswered);
        self.list(asker.place);
    }

    /// Sends the messages that waited for the fence to other threads.
    pub(super) fn send(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        let service = &mut self.service;
        peers.send_replies();
        for (thread, client_id, ended) in service.to_unblock.drain(..) {
            peers.mailbox.send(thread, Message::Unblock { client_id, ended });
        }
        for (thread, id) in service.to_kill.drain(..) {
            peers.mailbox.send(thread, Message::Kill(vec![id]));
        }
        for (key, number) in std::mem::take(&mut service.ended_waits) {
            let home = peers.lender.home_of(service.store.partition_of(&key.1));
            if home != service.thread {
                peers.mailbox.send(home, Message::EndWaits(vec![(key, number)]));
            } else if !service.store.end_wait(&key, number) {
                // The wait is kept while its part is lent.
                service.ended_waits.push((key, number));
            }
        }
        // Behind the waits that have ended, as others may be lent their parts again and again.
        peers.lender.lend(&mut peers.mailbox, service);
        peers.lender.give_back(&mut peers.mailbox, &mut service.store);
        for watch in std::mem::take(&mut service.forgotten) {
            let home = peers.lender.home_of(service.store.partition_of(&watch.key));
            if home == service.thread {
                // The watch is kept while its part is lent.
                service.forgotten.extend(service.store.unwatch(watch));
            } else {
                peers.mailbox.send(home, Message::Forget(vec![watch]));
            }
        }
        peers.mailbox.flush();
        service.counters.messages_sent += std::mem::take(&mut peers.mailbox.sent);
        self.list_completed();
    }

    /// Lists the connections whose cross-shard operations have all that they need.
    fn list_completed(&mut self) {
        let completed =
            self.peers.as_mut().map(|peers| std::mem::take(&mut peers.lender.completed));
        for place in completed.into_iter().flatten() {
            self.resume(place, Dispatched::Away);
        }
    }
}
