//! Where a request is executed.
//!
//! A request whose keys are all this thread's is executed on the spot, as is one without keys. If all keys are in one
//! partition of another thread, the request travels there. If they are in several partitions that are not all at hand,
//! or the command is about all of them, it is a cross-shard operation: it waits until the replies before it have come,
//! borrows the parts, and is executed here. A request that needs a partition that is still being recovered waits before
//! any of that.

use crate::answer::Answer;
use crate::answers::Answers;
use crate::client::{Client, Replies};
use crate::commands::{Command, Group, flags};
use crate::dispatch::{Dispatched, awaits, check_admission, dispatch, find, is_paused};
use crate::failure::Outcome;
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

/// Executes a request of `client`, or sends it to another thread, or returns why it waits.
pub(crate) fn route(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    args: Args<'_>,
    lane: Lane<'_>,
) -> Dispatched {
    if args.is_empty() {
        return Dispatched::Done;
    }
    let found = find(args);
    if let Some(number) = *lane.operation {
        return run_operation(service, peers, client, args, lane, number);
    }
    if lane.answers.is_full() {
        return Dispatched::Unanswered;
    }
    let needs = match &found {
        Ok(command) if is_paused(service, client, command) => return Dispatched::Paused,
        Ok(command) if awaits(client, command) => return Dispatched::Awaiting,
        Ok(command) => needs(service, peers, client, command, args),
        Err(_) => Needs::default(),
    };
    if peers.loading && !is_ready(service, &found, needs.parts) {
        return Dispatched::Unready;
    }
    let at_hand = match lane.answers.is_empty() {
        true => peers.lender.usable(),
        // Borrowed parts would be read before requests that are on their way to their owner.
        false => peers.lender.free(),
    };
    if !needs.reports && needs.parts.is_within(at_hand) {
        if lane.answers.is_empty() {
            return dispatch(service, client, found, args, lane.out);
        }
        peers.late.clear();
        let dispatched = dispatch(service, client, found, args, &mut peers.late);
        lane.answers.push(match peers.late.len() {
            LARGE.. => Answer::Own(std::mem::take(&mut peers.late)),
            _ => Answer::Shared(&peers.late),
        });
        return dispatched;
    }
    let me = peers.mailbox.me();
    let is_simple = !needs.reports && needs.parts.len() == 1;
    match (peers.lender.home(needs.parts), found) {
        // The part is lent, and comes back. With several parts, some might be away at each retry, so those are
        // borrowed.
        (Some(home), _) if home == me && is_simple => Dispatched::Stalled,
        (Some(home), Ok(command)) if home != me && is_simple && !command.is(flags::NOT_QUEUED) => {
            if !peers.has_room(home) {
                return Dispatched::Stalled;
            }
            forward(service, peers, client, command, args, needs.parts, lane, home);
            Dispatched::Done
        }
        _ if !lane.answers.is_empty() => Dispatched::Unanswered,
        _ => {
            let number = peers.lender.begin(&mut peers.mailbox, lane.place, needs);
            *lane.operation = Some(number);
            service.counters.cross_shard_operations += 1;
            run_operation(service, peers, client, args, lane, number)
        }
    }
}

/// Executes a request whose cross-shard operation has all that it needs.
fn run_operation(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    args: Args<'_>,
    lane: Lane<'_>,
    number: u64,
) -> Dispatched {
    if !peers.lender.is_complete(number) {
        return Dispatched::Away;
    }
    service.reports = peers.lender.take_reports(number);
    let dispatched = dispatch(service, client, find(args), args, lane.out);
    service.reports.clear();
    peers.lender.finish(number, lane.place);
    *lane.operation = None;
    dispatched
}

#[expect(clippy::too_many_arguments, reason = "all of a request, and where it goes")]
fn forward(
    service: &mut Service,
    peers: &mut Peers,
    client: &mut Client,
    command: &'static Command,
    args: Args<'_>,
    partitions: PartitionSet,
    lane: Lane<'_>,
    home: usize,
) {
    service.counters.commands += 1;
    client.last_command = command.full_name;
    let silent = client.replies != Replies::All;
    client.replies = client.replies.after_request();
    let ticket = lane.answers.open(lane.request_len);
    peers.forward(
        home,
        lane.owns_input && lane.request_len >= LARGE,
        &Request {
            command,
            args,
            partitions,
            db: client.db,
            protocol: client.protocol,
            silent,
            from: Asker { place: lane.place, client_id: client.id, addr: client.addr, ticket },
        },
    );
}

/// The parts and reports that a request needs. One that will be refused or queued needs none.
fn needs(
    service: &Service,
    peers: &Peers,
    client: &Client,
    command: &'static Command,
    args: Args<'_>,
) -> Needs {
    let mut needs = Needs::default();
    if check_admission(service, client, command, args).is_err() {
        return needs;
    }
    match &client.queue {
        Some(queue) if command.is(flags::EXECUTES) => {
            if !queue.is_aborted() {
                queue.iter().for_each(|(command, args)| {
                    add_needs(service, peers, command, args, true, &mut needs);
                });
                let watched = client.watches.iter().map(|watch| &watch.key);
                watched.for_each(|key| needs.parts.insert(service.store.partition_of(key)));
            }
        }
        Some(_) if !command.is(flags::NOT_QUEUED) => {}
        _ => add_needs(service, peers, command, args, false, &mut needs),
    }
    needs
}

fn add_needs(
    service: &Service,
    peers: &Peers,
    command: &'static Command,
    args: Args<'_>,
    in_transaction: bool,
    needs: &mut Needs,
) {
    needs.parts = needs.parts.or(partitions_of(&service.store, command, args));
    if command.is(flags::ALONE) {
        // No request is executed for keys of partitions that are not ready yet.
        needs.parts = needs.parts.or(service.shared.loading.ready());
    }
    if command.is(flags::SCANS) && in_transaction {
        // The scan may go on in the next partition.
        needs.parts = PartitionSet::first(service.store.partitions());
    } else if command.is(flags::ALL_THREADS) {
        needs.reports = true;
        needs.details.clients |= command.group == Group::Connection;
        needs.details.commands |= command.is(flags::TIMES);
        needs.parts = needs.parts.or(peers.lender.own());
    }
}

/// Whether the partitions are served that a request needs; if not, they are wanted.
#[cold]
fn is_ready(service: &Service, found: &Outcome<&'static Command>, mut parts: PartitionSet) -> bool {
    let loading = &service.shared.loading;
    // A write to several partitions is numbered after all earlier writes of that kind.
    let writes = |command: &Command| command.is(flags::WRITE) || command.is(flags::EXECUTES);
    if parts.len() > 1 && found.as_ref().is_ok_and(|command| writes(command)) {
        parts = loading.all();
    }
    let missing = parts.without(loading.ready());
    if let Some(first) = loading.want(missing) {
        service.store.want(first);
    }
    missing.is_empty()
}
