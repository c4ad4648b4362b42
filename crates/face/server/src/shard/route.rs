//! From a client's request to the place where it is executed: it is admitted once, then placed, then performed there.
//!
//! A request whose keys are all this thread's is executed on the spot, as is one without keys. If all keys are in one
//! partition of another thread, the request travels there. If they are in several partitions that are not all at hand,
//! or the command is about all of them, it is a cross-shard operation: it waits until the replies before it have come,
//! borrows the parts, and is executed here. A request that needs a partition that is still being recovered waits before
//! any of that.

use crate::admission::{Admission, Admitted, Delay, admit};
use crate::answer::Answer;
use crate::answers::Answers;
use crate::client::{Client, Replies};
use crate::commands::{Command, Group, flags, scripting};
use crate::dispatch::{Dispatched, answer};
use crate::partition_set::PartitionSet;
use crate::resp::Args;
use crate::service::Service;
use crate::shard::command_partitions::partitions_of;
use crate::shard::lender::Needs;
use crate::shard::packet::{Asker, LARGE, Request};
use crate::shard::peers::Peers;

/// A connection's state for requests that are not executed at once.
pub(crate) struct Lane<'a> {
    /// The connection's place.
    pub(crate) place: usize,
    /// Bytes of the request.
    pub(crate) request_len: usize,
    /// The words may travel in the memory in which they arrived.
    pub(crate) owns_input: bool,
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) answers: &'a mut Answers,
    /// The cross-shard operation that the request at the front has begun.
    pub(crate) operation: &'a mut Option<u64>,
}

impl Lane<'_> {
    /// The same lane, for a shorter time.
    fn again(&mut self) -> Lane<'_> {
        Lane {
            place: self.place,
            request_len: self.request_len,
            owns_input: self.owns_input,
            out: self.out,
            answers: self.answers,
            operation: self.operation,
        }
    }
}

/// Commands that are executed on the thread of their client.
const STAYS: u32 = flags::NOT_QUEUED | flags::SCRIPT | flags::BLOCKS | flags::AWAITS;

/// Where a request is executed.
enum Place {
    /// On this thread, at once.
    Here,
    /// On the thread that has all of its keys, of these partitions.
    Home { thread: usize, partitions: PartitionSet },
    /// On this thread, once it has all parts and reports.
    Operation(Needs),
    /// Nowhere yet.
    Nowhere(Dispatched),
}

/// Admits a request of `client`, places it, and performs it or sends it to its place, or returns why it waits. A server
/// of one thread has no `peers`: all places are here.
pub(crate) fn route(
    service: &mut Service,
    peers: Option<&mut Peers>,
    client: &mut Client,
    args: Args<'_>,
    lane: Lane<'_>,
) -> Dispatched {
    if args.is_empty() {
        return Dispatched::Done;
    }
    let Some(peers) = peers else {
        return match admit(service, client, args) {
            Ok(admission) => answer(service, client, admission, lane.out),
            Err(delay) => delay.into(),
        };
    };
    match *lane.operation {
        Some(number) if !peers.lender.is_complete(number) => return Dispatched::Away,
        None if lane.answers.is_full() => return Dispatched::Unanswered,
        _ => {}
    }
    let admission = match admit(service, client, args) {
        Ok(admission) => admission,
        Err(delay) => {
            // Other threads need the parts meanwhile.
            end_operation(peers, lane);
            return delay.into();
        }
    };
    if lane.operation.is_some() {
        return run_operation(service, peers, client, admission, lane);
    }
    match place(service, peers, client, &admission, &lane) {
        Place::Here => {
            let admitted = admission.admitted();
            let mut lane = lane;
            let dispatched = answer_here(service, peers, client, admission, lane.again());
            match admitted.filter(|_| client.needs_all_parts) {
                Some(admitted) => begin_anew(service, peers, client, admitted, lane),
                None => dispatched,
            }
        }
        Place::Home { thread, partitions } => {
            if let Admission::Admitted(admitted) = admission {
                forward(service, peers, client, admitted, partitions, lane, thread);
            }
            Dispatched::Done
        }
        Place::Operation(needs) => begin_operation(service, peers, client, admission, lane, needs),
        Place::Nowhere(waits) => waits,
    }
}

/// Lets a script that needs all partitions, and was rolled back, wait for them.
#[cold]
fn begin_anew(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    admitted: Admitted<'_>,
    lane: Lane<'_>,
) -> Dispatched {
    let admission = Admission::Admitted(admitted);
    match place(service, peers, client, &admission, &lane) {
        Place::Nowhere(waits) => waits,
        Place::Operation(needs) => begin_operation(service, peers, client, admission, lane, needs),
        // Parts have come since: the connection's next turn finds them.
        Place::Here | Place::Home { .. } => Dispatched::Stalled,
    }
}

fn begin_operation(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    admission: Admission<'_>,
    lane: Lane<'_>,
    needs: Needs,
) -> Dispatched {
    let number = peers.lender.begin(&mut peers.mailbox, lane.place, needs);
    *lane.operation = Some(number);
    service.counters.cross_shard_operations += 1;
    run_operation(service, peers, client, admission, lane)
}

impl From<Delay> for Dispatched {
    fn from(delay: Delay) -> Self {
        match delay {
            Delay::Pause => Self::Paused,
            Delay::Backup => Self::Awaiting,
        }
    }
}

/// The place of a request. One that is refused, or kept for EXEC, is answered here.
fn place(
    service: &Service,
    peers: &Peers,
    client: &Client,
    admission: &Admission<'_>,
    lane: &Lane<'_>,
) -> Place {
    let Admission::Admitted(admitted) = admission else { return Place::Here };
    let command = admitted.command();
    let needs = needs(service, peers, client, *admitted);
    if peers.loading && !is_ready(service, command, needs.parts) {
        return Place::Nowhere(Dispatched::Unready);
    }
    if command.is(flags::SCRIPT) && !lane.answers.is_empty() {
        // It may name any key, and a request on its way to one of them comes first.
        return Place::Nowhere(Dispatched::Unanswered);
    }
    let at_hand = match lane.answers.is_empty() {
        true => peers.lender.usable(),
        // Borrowed parts would be read before requests that are on their way to their owner.
        false => peers.lender.free(),
    };
    if !needs.reports && needs.parts.is_within(at_hand) {
        return Place::Here;
    }
    let me = peers.mailbox.me();
    let is_simple = !needs.reports && needs.parts.len() == 1;
    match peers.lender.home(needs.parts) {
        // The part is lent, and comes back. With several parts, some might be away at each retry, so those are
        // borrowed.
        Some(home) if home == me && is_simple => Place::Nowhere(Dispatched::Stalled),
        // A script may need other parts as well, which are borrowed here, and a command that waits does so here.
        Some(home) if is_simple && !command.is_any(STAYS) => match peers.has_room(home) {
            true => Place::Home { thread: home, partitions: needs.parts },
            false => Place::Nowhere(Dispatched::Stalled),
        },
        _ if !lane.answers.is_empty() => Place::Nowhere(Dispatched::Unanswered),
        _ => Place::Operation(needs),
    }
}

/// Answers a request on this thread, behind the replies that are still on their way.
fn answer_here(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    admission: Admission<'_>,
    lane: Lane<'_>,
) -> Dispatched {
    if lane.answers.is_empty() {
        return answer(service, client, admission, lane.out);
    }
    peers.late.clear();
    if answer(service, client, admission, &mut peers.late) == Dispatched::Waiting {
        return Dispatched::Waiting;
    }
    lane.answers.push(match peers.late.len() {
        LARGE.. => Answer::Own(std::mem::take(&mut peers.late)),
        _ => Answer::Shared(&peers.late),
    });
    Dispatched::Done
}

/// Executes a request once its cross-shard operation has all that it needs.
fn run_operation(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    admission: Admission<'_>,
    mut lane: Lane<'_>,
) -> Dispatched {
    let Some(number) = *lane.operation else { return Dispatched::Away };
    if !peers.lender.is_complete(number) {
        return Dispatched::Away;
    }
    service.reports = peers.lender.take_reports(number);
    let admitted = admission.admitted();
    let dispatched = answer(service, client, admission, lane.out);
    service.reports.clear();
    end_operation(peers, lane.again());
    match admitted.filter(|_| client.needs_all_parts) {
        Some(admitted) => begin_anew(service, peers, client, admitted, lane),
        None => dispatched,
    }
}

/// Ends the cross-shard operation of a connection, if it has one.
fn end_operation(peers: &mut Peers, lane: Lane<'_>) {
    if let Some(number) = lane.operation.take() {
        peers.lender.finish(number, lane.place);
    }
}

fn forward(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    admitted: Admitted<'_>,
    partitions: PartitionSet,
    lane: Lane<'_>,
    home: usize,
) {
    service.counters.commands += 1;
    client.last_command = admitted.command().full_name;
    let silent = client.replies != Replies::All;
    let tracks = client.remembers_reads();
    client.note_executed(Some(admitted.command()));
    client.replies = client.replies.after_request();
    let ticket = lane.answers.open(lane.request_len);
    peers.forward(
        home,
        lane.owns_input && lane.request_len >= LARGE,
        &Request {
            admitted,
            partitions,
            db: client.db,
            protocol: client.protocol,
            silent,
            tracks,
            from: Asker {
                place: lane.place,
                client_id: client.id,
                addr: client.addr.clone(),
                ticket,
            },
        },
    );
}

/// The parts and reports that a request needs. One that is kept for EXEC needs none.
fn needs(service: &Service, peers: &Peers, client: &Client, admitted: Admitted<'_>) -> Needs {
    let mut needs = Needs::default();
    match &client.queue {
        Some(queue) if admitted.command().is(flags::EXECUTES) => {
            if !queue.is_aborted() {
                queue.iter().for_each(|queued| add_needs(service, peers, queued, true, &mut needs));
                let watched = client.watches.iter().map(|watch| &watch.key);
                watched.for_each(|key| needs.parts.insert(service.store.partition_of(key)));
            }
        }
        Some(_) if !admitted.command().is(flags::NOT_QUEUED) => {}
        _ => {
            add_needs(service, peers, admitted, false, &mut needs);
            if client.needs_all_parts && admitted.command().is(flags::SCRIPT) {
                needs.parts = PartitionSet::first(service.store.partitions());
                // It may also be INFO for which it begins anew.
                needs.reports = true;
            }
        }
    }
    needs
}

fn add_needs(
    service: &Service,
    peers: &Peers,
    admitted: Admitted<'_>,
    in_transaction: bool,
    needs: &mut Needs,
) {
    let command = admitted.command();
    needs.parts = needs.parts.or(partitions_of(&service.store, command, admitted.args()));
    if command.is(flags::ALONE) {
        // No request is executed for keys of partitions that are not ready yet.
        needs.parts = needs.parts.or(service.shared.loading.ready());
    }
    let roams = || scripting::roams(&service.shared.scripts, command, admitted.args());
    // A script whose changes cannot be undone must not find that it needs other parts.
    let can_begin_anew = !in_transaction && service.settings.scripts.rolls_back;
    if command.is(flags::SCRIPT) && (!can_begin_anew || roams()) {
        needs.parts = PartitionSet::first(service.store.partitions());
    }
    if command.is(flags::SCANS) && in_transaction {
        // The scan may go on in the next partition.
        needs.parts = PartitionSet::first(service.store.partitions());
    } else if command.is(flags::ALL_THREADS) {
        needs.reports = true;
        needs.details.clients |= command.group == Group::Connection;
        needs.parts = needs.parts.or(peers.lender.own());
    }
}

/// Whether the partitions are served that a request needs; if not, they are wanted.
#[cold]
fn is_ready(service: &Service, command: &Command, mut parts: PartitionSet) -> bool {
    let loading = &service.shared.loading;
    // A write to several partitions is numbered after all earlier writes of that kind.
    let writes = command.is_any(flags::WRITE | flags::EXECUTES | flags::SCRIPT);
    if parts.len() > 1 && writes {
        parts = loading.all();
    }
    let missing = parts.without(loading.ready());
    if let Some(first) = loading.want(missing) {
        service.store.want(first);
    }
    missing.is_empty()
}
