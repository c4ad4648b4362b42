//! The requests in a connection's input, one after the other.

use crate::ahead::{AHEAD, Ahead};
use crate::answer::Answer;
use crate::client::Client;
use crate::connection::Connection;
use crate::delivery::catch_up;
use crate::dispatch::Dispatched;
use crate::reply::Reply;
use crate::resp::ProtocolError;
use crate::service::{Service, renew_login};
use crate::shard::peers::Peers;
use crate::shard::route::{Lane, route};

/// Bytes of replies behind which a connection's next request waits for the next turn: other clients wait for the end
/// of this one.
const TURN_LEN: usize = 1 << 20;

/// Executes the requests in a connection's input, until they end, or have had their share of the turn, or one
/// has to wait. The connection is the one at `place`; `ahead` is empty, before and behind.
pub(crate) fn execute(
    service: &mut Service,
    mut peers: Option<&mut Peers>,
    ahead: &mut Ahead,
    place: usize,
    connection: &mut Connection,
    client: &mut Client,
) -> Dispatched {
    let mut dispatched = Dispatched::Done;
    connection.has_requests = false;
    client.buffers.query_len = connection.input.len();
    client.buffers.query_free = connection.input.free();
    // Before they are looked at: one read may bring all that was missing of a request.
    if connection.input.unread().len() > service.settings.limits.query_buffer_len_max {
        service.counters.query_limit_disconnections += 1;
        client.killed = true;
    }
    service.begin_lap();
    // The users may have changed while the client was out of its place.
    client.killed |= !renew_login(&service.acl, client);
    let enough = connection.backlog() + TURN_LEN;
    while !client.closing && !client.killed {
        if client.gets_posts() {
            catch_up(service, client, connection);
        }
        // Those who wait have their turn first; one of them has it now.
        let has_turn = client.wait.is_some() || !service.store.has_ready;
        if connection.backlog() >= enough || !has_turn {
            connection.has_requests = true;
            break;
        }
        let input = connection.input.unread();
        if ahead.is_empty() {
            let stranger = is_stranger(service, client);
            let limits = service.settings.limits.of_requests(stranger);
            // A client that still has to authenticate has no request parsed ahead.
            let count_max = if stranger { 1 } else { AHEAD };
            if let Err(error) = ahead.parse(&mut connection.parser, input, &limits, count_max) {
                refuse(service, connection, client, &error);
                break;
            }
            ahead.prefetch(&service.store, client.db, input);
        }
        let Some(request) = ahead.first() else { break };
        if connection.waits_for_memory(client.no_evict, || service.is_short(client.no_evict)) {
            connection.has_requests = true;
            break;
        }
        let (len, args) = (request.request_len(), request.args(input));
        let (was_stranger, waiting) = (is_stranger(service, client), connection.backlog());
        client.buffers.request_len = len;
        let lane = Lane {
            place,
            request_len: len,
            owns_input: connection.input.is_mostly_front(len) && !request.is_inline(),
            out: connection.output.buffer(),
            answers: &mut connection.answers,
            operation: &mut connection.operation,
        };
        dispatched = route(service, peers.as_deref_mut(), client, args, lane);
        if dispatched != Dispatched::Done {
            connection.has_requests = true;
            break;
        }
        ahead.pop();
        connection.request_began = None;
        match &mut peers {
            Some(peers) if peers.wants_words.is_some() => {
                peers.bring_words(connection.input.take_front(len));
            }
            _ => connection.input.consume(len),
        }
        if !was_stranger && is_stranger(service, client) {
            // The requests ahead were parsed with the limits of an authenticated client.
            ahead.clear();
            connection.parser.reset();
        }
        connection.output.divide(&mut service.spares);
        let unread = connection.backlog();
        service.check_output(client, unread, unread - waiting);
    }
    if !ahead.is_empty() {
        ahead.clear();
        connection.parser.reset();
    }
    connection.input.compact();
    let waits = !connection.input.unread().is_empty() && !connection.has_requests;
    connection.request_began = waits.then(|| connection.request_began.unwrap_or(service.now));
    client.buffers.query_len = connection.input.len();
    client.buffers.query_free = connection.input.free();
    client.buffers.request_len = 0;
    dispatched
}

/// Whether a client has to authenticate before its other commands are executed.
#[inline]
fn is_stranger(service: &Service, client: &Client) -> bool {
    !client.authenticated && service.acl.asks_for_password()
}

/// Ends a connection whose input is no request, behind the replies to those before it.
fn refuse(
    service: &mut Service,
    connection: &mut Connection,
    client: &mut Client,
    error: &ProtocolError,
) {
    let mut out = Vec::new();
    let mut reply = Reply { out: &mut out, protocol: client.protocol };
    let text = error.reply();
    reply.error(&text);
    if connection.answers.is_empty() {
        connection.output.push(Answer::Shared(&out));
    } else {
        connection.answers.push(Answer::Shared(&out));
    }
    service.note_error(&text);
    client.closing = true;
}
