//! Borrowing the parts of other threads, for cross-shard operations.
//!
//! A command on keys of several threads is a cross-shard operation ([`Operation`]): its thread borrows the parts,
//! executes the command as if it were alone, and returns the parts when all writes are durable. Parts are requested
//! thread by thread in ascending order, the own ones included, and a [`Lender`] serves requests in the order in which
//! they came. So of all operations that wait, the one that waits for the highest thread waits only for operations that
//! hold all their parts: there is no deadlock.
//!
//! A command whose parts are within those of an operation of its thread that is under way joins that operation. And
//! borrowed parts stay until the end of the turn, for any other command that needs them: so under load many commands
//! share a loan.
//!
//! A thread lends at the end of its turn, behind the fence: the writes that a borrower reads are durable, until a sync
//! fails.

use std::collections::{HashMap, VecDeque};

use crate::partition_set::PartitionSet;
use crate::report::{Details, Report};
use crate::service::Service;
use crate::shard::mailbox::Mailbox;
use crate::shard::message::Message;
use crate::store::{Part, Store};

/// The parts and reports that a command needs and that this thread does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) parts: PartitionSet,
    /// Every thread sends a report on itself.
    pub(crate) reports: bool,
    /// The details of these reports.
    pub(crate) details: Details,
}

/// A cross-shard operation: commands that wait for parts, or one command that waits for reports too.
struct Operation {
    /// The places of the connections.
    places: Vec<usize>,
    needs: Needs,
    /// The threads below this one were asked.
    next: usize,
    /// The parts that it has got.
    held: PartitionSet,
    /// Reports that have not come.
    missing: usize,
    reports: Vec<Report>,
    complete: bool,
}

/// A thread's request for this thread's parts, or for a report on it.
struct PartsRequest {
    thread: usize,
    operation: u64,
    parts: PartitionSet,
    /// The details of the report, if a report is requested instead of the parts.
    report: Option<Details>,
}

/// The cross-shard operations of a thread, and the requests for its parts.
pub(crate) struct Lender {
    /// By partition: the thread that it belongs to.
    homes: Vec<usize>,
    /// Own parts that are served.
    own: PartitionSet,
    /// Own parts that are here and that no operation holds.
    free: PartitionSet,
    requests: VecDeque<PartsRequest>,
    operations: HashMap<u64, Operation>,
    next_operation: u64,
    /// The last operation for parts alone, which other commands may join.
    last_operation: Option<u64>,
    /// Connections whose operation has all that it needs.
    pub(crate) completed: Vec<usize>,
    /// Borrowed parts that go back at the end of the turn.
    returning: PartitionSet,
    /// Own parts have become free: connections that wait for them may go on.
    pub(crate) freed: bool,
}

impl Lender {
    /// The lender of a thread that has the parts `own`.
    pub(crate) fn new(homes: Vec<usize>, own: PartitionSet) -> Self {
        Self {
            homes,
            own,
            free: own,
            requests: VecDeque::new(),
            operations: HashMap::new(),
            next_operation: 0,
            last_operation: None,
            completed: Vec::new(),
            returning: PartitionSet::EMPTY,
            freed: false,
        }
    }

    /// Parts of this thread are served from now on.
    pub(crate) fn arrive(&mut self, parts: PartitionSet) {
        self.own = self.own.or(parts);
        self.free = self.free.or(parts);
        self.freed = true;
    }

    /// The parts of this thread that are served.
    pub(crate) fn own(&self) -> PartitionSet {
        self.own
    }

    /// The parts that commands can use without asking.
    #[inline]
    pub(crate) fn free(&self) -> PartitionSet {
        self.free
    }

    /// The parts that a connection can use without asking that waits for no reply: those that were
    /// borrowed and go back at the end of the turn, too.
    pub(crate) fn usable(&self) -> PartitionSet {
        self.free.or(self.returning)
    }

    /// The thread that all of some parts belong to.
    #[inline]
    pub(crate) fn home(&self, parts: PartitionSet) -> Option<usize> {
        let mut homes = parts.iter().map(|number| self.homes[number]);
        let first = homes.next()?;
        homes.all(|home| home == first).then_some(first)
    }

    /// The thread that a partition belongs to.
    pub(crate) fn home_of(&self, partition: usize) -> usize {
        self.homes[partition]
    }

    fn of_thread(&self, thread: usize) -> PartitionSet {
        let mut parts = PartitionSet::EMPTY;
        let numbers = self.homes.iter().enumerate().filter(|(_, home)| **home == thread);
        numbers.for_each(|(number, _)| parts.insert(number));
        parts
    }

    /// Begins an operation for the connection at `place`, or lets it join one that is under way, and returns the
    /// operation's number.
    pub(crate) fn begin(&mut self, mailbox: &mut Mailbox, place: usize, needs: Needs) -> u64 {
        if let Some(number) = self.last_operation.filter(|_| !needs.reports)
            && let Some(operation) = self.operations.get_mut(&number)
            && !operation.complete
            && needs.parts.is_within(operation.needs.parts)
        {
            operation.places.push(place);
            return number;
        }
        let number = self.next_operation;
        self.next_operation += 1;
        if !needs.reports {
            self.last_operation = Some(number);
        }
        let missing = if needs.reports { mailbox.threads() - 1 } else { 0 };
        self.operations.insert(
            number,
            Operation {
                places: vec![place],
                needs,
                next: 0,
                held: PartitionSet::EMPTY,
                missing,
                reports: Vec::new(),
                complete: false,
            },
        );
        if needs.reports {
            mailbox.others().for_each(|to| {
                mailbox.send(to, Message::Inquire { operation: number, details: needs.details })
            });
        }
        self.advance(mailbox, number);
        number
    }

    /// Requests the next parts that an operation needs.
    fn advance(&mut self, mailbox: &mut Mailbox, number: u64) {
        let me = mailbox.me();
        loop {
            let Some(operation) = self.operations.get(&number) else { return };
            // Reports first: no part is held while a report is waited for.
            if operation.missing > 0 {
                return;
            }
            let (next, needed) = (operation.next, operation.needs.parts);
            let of_thread = |thread| needed.and(self.of_thread(thread));
            let found = (next..mailbox.threads()).find(|&thread| !of_thread(thread).is_empty());
            let parts = found.map_or(PartitionSet::EMPTY, of_thread);
            let can_take = self.requests.is_empty() && parts.is_within(self.free);
            let Some(operation) = self.operations.get_mut(&number) else { return };
            match found {
                None => {
                    operation.complete = true;
                    self.completed.extend(&operation.places);
                    if operation.places.is_empty() {
                        self.release(number);
                    }
                    return;
                }
                Some(thread) => operation.next = thread + 1,
            }
            if found != Some(me) {
                let to = found.unwrap_or(me);
                mailbox.send(to, Message::Ask { operation: number, parts });
                return;
            }
            if !can_take {
                self.requests.push_back(PartsRequest {
                    thread: me,
                    operation: number,
                    parts,
                    report: None,
                });
                return;
            }
            operation.held = operation.held.or(parts);
            self.free = self.free.without(parts);
        }
    }

    /// Whether an operation has all that it needs.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        self.operations.get(&number).is_some_and(|operation| operation.complete)
    }

    /// The reports that an operation has received.
    pub(crate) fn take_reports(&mut self, number: u64) -> Vec<Report> {
        self.operations
            .get_mut(&number)
            .map_or(Vec::new(), |operation| std::mem::take(&mut operation.reports))
    }

    /// Ends an operation for the connection at `place`. After its last connection, borrowed parts go back at the end of
    /// the turn.
    pub(crate) fn finish(&mut self, number: u64, place: usize) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.places.retain(|&other| other != place);
        if operation.places.is_empty() && operation.complete {
            self.release(number);
        }
    }

    fn release(&mut self, number: u64) {
        let Some(operation) = self.operations.remove(&number) else { return };
        self.free = self.free.or(operation.held.and(self.own));
        self.freed = true;
        self.returning = self.returning.or(operation.held.without(self.own));
    }

    /// Takes another thread's request for parts.
    pub(crate) fn ask(&mut self, thread: usize, operation: u64, parts: PartitionSet) {
        self.requests.push_back(PartsRequest { thread, operation, parts, report: None });
    }

    /// Takes another thread's request for a report.
    pub(crate) fn inquire(&mut self, thread: usize, operation: u64, details: Details) {
        // The request takes the thread's own parts: the report is about them too.
        self.requests.push_back(PartsRequest {
            thread,
            operation,
            parts: self.own,
            report: Some(details),
        });
    }

    /// Parts have come for an operation.
    pub(crate) fn lent(
        &mut self,
        mailbox: &mut Mailbox,
        store: &mut Store,
        number: u64,
        parts: Vec<Part>,
    ) {
        if let Some(operation) = self.operations.get_mut(&number) {
            parts.iter().for_each(|part| operation.held.insert(part.number()));
        }
        store.bring(parts);
        self.advance(mailbox, number);
    }

    /// A report has come for an operation.
    pub(crate) fn told(&mut self, mailbox: &mut Mailbox, number: u64, report: Report) {
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.missing -= 1;
            operation.reports.push(report);
        }
        self.advance(mailbox, number);
    }

    /// Own parts have come back.
    pub(crate) fn returned(&mut self, store: &mut Store, parts: Vec<Part>) {
        parts.iter().for_each(|part| self.free.insert(part.number()));
        store.bring(parts);
    }

    /// Returns borrowed parts that no operation needs any more.
    pub(crate) fn give_back(&mut self, mailbox: &mut Mailbox, store: &mut Store) {
        if self.returning.is_empty() {
            return;
        }
        for thread in mailbox.others() {
            let parts = self.returning.and(self.of_thread(thread));
            if !parts.is_empty() {
                mailbox.send(thread, Message::Return(store.take(parts)));
            }
        }
        self.returning = PartitionSet::EMPTY;
    }

    /// Whether parts are here that another thread owns or requests, and that the last turn did not send.
    pub(crate) fn must_give(&self) -> bool {
        let request = self.requests.front();
        !self.returning.is_empty()
            || request.is_some_and(|request| request.parts.is_within(self.free))
    }

    /// Serves requests of other threads in their order, as long as the requested parts are here.
    pub(crate) fn lend(&mut self, mailbox: &mut Mailbox, service: &mut Service) {
        while let Some(request) =
            self.requests.pop_front_if(|request| request.parts.is_within(self.free))
        {
            let PartsRequest { thread, operation, parts, report } = request;
            if let Some(details) = report {
                let report = Box::new(service.own_report(self.own, details));
                mailbox.send(thread, Message::Tell { operation, report });
                continue;
            }
            self.free = self.free.without(parts);
            if thread == mailbox.me() {
                if let Some(operation) = self.operations.get_mut(&operation) {
                    operation.held = operation.held.or(parts);
                }
                self.advance(mailbox, operation);
            } else {
                service.counters.parts_lent += parts.len() as u64;
                mailbox.send(thread, Message::Lend { operation, parts: service.store.take(parts) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mio::{Poll, Token, Waker};
    use proptest::prelude::*;

    use super::*;
    use crate::Config;
    use crate::loading::Loading;
    use crate::settings::Settings;
    use crate::shard::bell::Bell;
    use crate::shared::Shared;

    /// A thread without sockets.
    struct Thread {
        mailbox: Mailbox,
        lender: Lender,
        service: Service,
        /// The cross-shard operations under way, with the connection and the parts of each.
        operations: Vec<(u64, usize, PartitionSet)>,
    }

    impl Thread {
        /// Takes all messages.
        fn receive(&mut self) {
            let Self { mailbox, lender, service, .. } = self;
            for from in mailbox.others() {
                while let Some(message) = mailbox.receive(from) {
                    match message {
                        Message::Ask { operation, parts } => lender.ask(from, operation, parts),
                        Message::Lend { operation, parts } => {
                            lender.lent(mailbox, &mut service.store, operation, parts);
                        }
                        Message::Return(parts) => lender.returned(&mut service.store, parts),
                        Message::Inquire { operation, details } => {
                            lender.inquire(from, operation, details);
                        }
                        Message::Tell { operation, report } => {
                            lender.told(mailbox, operation, *report)
                        }
                        _ => unreachable!("no thread sends anything else"),
                    }
                }
            }
        }

        /// Executes the complete operations, and ends the turn.
        fn turn(&mut self) {
            self.receive();
            let Self { mailbox, lender, service, operations } = self;
            operations.retain(|(number, place, parts)| {
                if !lender.is_complete(*number) {
                    return true;
                }
                assert!(parts.is_within(service.store.here()), "an operation has what it needs");
                lender.finish(*number, *place);
                false
            });
            assert!(lender.free().is_within(service.store.here()), "what is free is here");
            lender.lend(mailbox, service);
            lender.give_back(mailbox, &mut service.store);
            mailbox.flush();
        }
    }

    fn threads(count: usize, partitions: usize) -> (Vec<Thread>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let partitioning = halite::Partitioning::Hash(partitions);
        let builder = halite::Database::builder().partitioning(partitioning);
        let db = builder.open(folder.path().join("data")).unwrap();
        let bells: Vec<_> = (0..count)
            .map(|_| Bell::new(Waker::new(Poll::new().unwrap().registry(), Token(0)).unwrap()))
            .collect();
        let bells: Arc<[Bell]> = bells.into();
        let settings = Settings::new(&Config::default(), 0);
        let ready = PartitionSet::first(partitions);
        let loading = Loading::new(count, partitions, ready);
        let shared = Arc::new(Shared::new(settings, Arc::clone(&bells), loading));
        let mut all = Store::open(db, 16).unwrap();
        let homes: Vec<_> = (0..partitions).map(|partition| partition % count).collect();
        let threads = Mailbox::all(&bells).into_iter().enumerate().map(|(me, mailbox)| {
            let mut own = PartitionSet::EMPTY;
            (me..partitions).step_by(count).for_each(|number| own.insert(number));
            let lender = Lender::new(homes.clone(), own);
            let mut store = all.sibling();
            store.bring(all.take(own));
            let service = Service::new(store, Arc::clone(&shared), me, "");
            Thread { mailbox, lender, service, operations: Vec::new() }
        });
        (threads.collect(), folder)
    }

    #[test]
    fn what_is_not_needed_any_more_behind_the_turns_messages_is_told_of() {
        let (mut threads, _folder) = threads(2, 2);
        let all = PartitionSet::first(2);
        let needs = Needs { parts: all, ..Needs::default() };
        let Thread { lender, mailbox, .. } = &mut threads[0];
        let first = lender.begin(mailbox, 0, needs);
        for _ in 0..3 {
            threads.iter_mut().for_each(Thread::turn);
        }
        assert!(threads[0].lender.is_complete(first) && !threads[0].lender.must_give());
        // Its connection goes when the turn's messages have left.
        threads[0].lender.finish(first, 0);
        assert!(threads[0].lender.must_give());
        threads[0].turn();
        assert!(!threads[0].lender.must_give());
        threads[1].turn();
        assert_eq!(threads[1].lender.free(), PartitionSet::only(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn every_operation_gets_what_it_needs_in_any_order_of_turns(
            (count, partitions) in (2..5usize, 4..7usize),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0..64u32, 0..8u8), 1..300),
        ) {
            let (mut threads, _folder) = threads(count, partitions);
            for (place, (which, parts, kind)) in steps.into_iter().enumerate() {
                let thread = &mut threads[which.index(count)];
                let mut needs = Needs { reports: kind == 0, ..Needs::default() };
                let numbers = (0..partitions).filter(|number| parts >> number & 1 == 1);
                numbers.for_each(|number| needs.parts.insert(number));
                match kind {
                    0..4 => {
                        let number = thread.lender.begin(&mut thread.mailbox, place, needs);
                        match parts {
                            // The connection goes at once.
                            60.. => thread.lender.finish(number, place),
                            _ => thread.operations.push((number, place, needs.parts)),
                        }
                    }
                    _ => thread.turn(),
                }
            }
            for _ in 0..10_000 {
                threads.iter_mut().for_each(Thread::turn);
                let is_done = |thread: &Thread| {
                    thread.lender.operations.is_empty() && thread.lender.free == thread.lender.own
                };
                if threads.iter().all(is_done) {
                    return Ok(());
                }
            }
            prop_assert!(false, "some operation waits for ever");
        }
    }
}
