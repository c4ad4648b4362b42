//! Commands of several clients at once are as if they had been executed one after the other, each between its request and
//! its reply.
//!
//! Clients send random commands on two keys, which are in two partitions if there are some, by themselves, between MULTI
//! and EXEC, and in scripts. Each request is an event with the moments of its sending and of its reply. A search over the
//! orders that the moments allow has to find one in which a model gives every reply; two ways to the same state through
//! the same events count once.
//!
//! `HALITE_DEEP=server` records a hundred times as many histories.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use crate::common::{Client, Running, words};

on_threads! {
    hashes_are_linearizable
    lists_are_linearizable
    sets_are_linearizable
    sorted_sets_are_linearizable
    streams_are_linearizable
    streams_with_given_ids_are_linearizable
}

/// Histories of a type, of that many clients with that many requests each.
const HISTORIES: u64 = 12;
const CLIENTS: u64 = 5;
const REQUESTS: u64 = 10;

/// How often so many are taken in place of the histories of a first look.
const DEEP: u64 = 100;

/// A request, and its reply.
#[derive(Debug, Clone)]
struct Event {
    begun: u64,
    ended: u64,
    commands: Vec<String>,
    replies: Vec<String>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    Hash(BTreeMap<String, i64>),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Sorted(BTreeMap<String, i64>),
    /// The ids of the entries, and the last one that the group was given.
    Stream(BTreeSet<(u64, u64)>, (u64, u64)),
}

type State = BTreeMap<String, Value>;

macro_rules! of_type {
    ($state:expr, $key:expr, $kind:ident) => {{
        let empty = || Value::$kind(Default::default());
        match $state.entry($key.to_owned()).or_insert_with(empty) {
            Value::$kind(value) => value,
            other => panic!("{} is {other:?}", $key),
        }
    }};
}

fn stream<'a>(
    state: &'a mut State,
    key: &str,
) -> (&'a mut BTreeSet<(u64, u64)>, &'a mut (u64, u64)) {
    let empty = || Value::Stream(BTreeSet::new(), (0, 0));
    match state.entry(key.to_owned()).or_insert_with(empty) {
        Value::Stream(ids, given) => (ids, given),
        other => panic!("{key} is {other:?}"),
    }
}

fn id(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once('-')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

fn bulk(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

fn count(is_there: bool) -> String {
    format!(":{}", u8::from(is_there))
}

/// Executes a command on the model; false if the reply is not right there.
fn apply(state: &mut State, command: &str, reply: &str) -> bool {
    let words = words(command);
    let key = words[1];
    let number = |at: usize| words[at].parse::<i64>().unwrap();
    let expected = match words[0] {
        "HSET" => {
            count(of_type!(state, key, Hash).insert(words[2].to_owned(), number(3)).is_none())
        }
        "HGET" => of_type!(state, key, Hash).get(words[2]).map_or("nil".to_owned(), bulk),
        "HINCRBY" => {
            let value = of_type!(state, key, Hash).entry(words[2].to_owned()).or_default();
            *value += number(3);
            format!(":{value}")
        }
        "HDEL" => count(of_type!(state, key, Hash).remove(words[2]).is_some()),
        "LPUSH" => {
            let list = of_type!(state, key, List);
            list.push_front(words[2].to_owned());
            format!(":{}", list.len())
        }
        "RPOP" => of_type!(state, key, List).pop_back().map_or("nil".to_owned(), bulk),
        "LLEN" => format!(":{}", of_type!(state, key, List).len()),
        "BLPOP" => match of_type!(state, key, List).pop_front() {
            Some(value) => format!("[{}, {}]", bulk(key), bulk(value)),
            None => "nil".to_owned(),
        },
        "SADD" => count(of_type!(state, key, Set).insert(words[2].to_owned())),
        "SREM" => count(of_type!(state, key, Set).remove(words[2])),
        "SISMEMBER" => count(of_type!(state, key, Set).contains(words[2])),
        "SPOP" => {
            let members = of_type!(state, key, Set);
            return match reply {
                "nil" => members.is_empty(),
                member => members.remove(member.trim_matches('"')),
            };
        }
        "ZADD" => {
            let members = of_type!(state, key, Sorted);
            count(members.insert(words[3].to_owned(), number(2)).is_none())
        }
        "ZINCRBY" => {
            let score = of_type!(state, key, Sorted).entry(words[3].to_owned()).or_default();
            *score += number(2);
            bulk(score)
        }
        "ZSCORE" => of_type!(state, key, Sorted).get(words[2]).map_or("nil".to_owned(), bulk),
        "ZPOPMIN" => {
            let members = of_type!(state, key, Sorted);
            let least = members.iter().map(|(member, score)| (*score, member.clone())).min();
            match least {
                Some((score, member)) => {
                    members.remove(&member);
                    format!("[{}, {}]", bulk(member), bulk(score))
                }
                None => "[]".to_owned(),
            }
        }
        "XADD" => {
            let (ids, _) = stream(state, key);
            let last = ids.last().copied().unwrap_or_default();
            let Some(given) = id(reply.trim_matches('"')) else {
                // The only refusal: the id is not above the last one.
                return reply.starts_with("-ERR The ID")
                    && id(words[2]).is_some_and(|id| id <= last);
            };
            ids.insert(given);
            return given > last && (words[2] == "*" || id(words[2]) == Some(given));
        }
        "XLEN" => format!(":{}", stream(state, key).0.len()),
        "XREADGROUP" => {
            let key = words[7];
            let (ids, given) = stream(state, key);
            match ids.iter().copied().find(|id| *id > *given) {
                Some(next) => {
                    *given = next;
                    let entry = format!("[\"{}-{}\", [\"f\", \"v\"]]", next.0, next.1);
                    format!("[[{}, [{entry}]]]", bulk(key))
                }
                None => "nil".to_owned(),
            }
        }
        other => panic!("the model does not know {other}"),
    };
    reply == expected
}

/// Whether there is an order of the events in which the model gives every reply.
fn is_linearizable(state: &State, events: &[Event]) -> bool {
    assert!(events.len() <= 64, "sets of events are words");
    let mut seen = HashSet::new();
    let mut ways = vec![(0_u64, state.clone())];
    while let Some((done, state)) = ways.pop() {
        if done.count_ones() as usize == events.len() {
            return true;
        }
        let left = || events.iter().enumerate().filter(|(number, _)| done & 1 << number == 0);
        let first_end = left().map(|(_, event)| event.ended).min().unwrap_or(0);
        for (number, event) in left().filter(|(_, event)| event.begun < first_end) {
            let mut state = state.clone();
            let mut replies = event.commands.iter().zip(&event.replies);
            if replies.all(|(command, reply)| apply(&mut state, command, reply)) {
                let way = (done | 1 << number, state);
                if seen.insert(way.clone()) {
                    ways.push(way);
                }
            }
        }
    }
    false
}

/// Replies in an array, none of which is an array itself.
fn replies_of(reply: &str) -> Vec<String> {
    let inner = reply.strip_prefix('[').and_then(|reply| reply.strip_suffix(']'));
    let inner = inner.unwrap_or_else(|| panic!("no array: {reply}"));
    inner.split(", ").map(str::to_owned).collect()
}

/// Sends commands together, in a transaction or a script, and returns their replies.
fn together(client: &mut Client, random: &mut Rng, commands: &[String]) -> Vec<String> {
    if random.bool() {
        client.check(&[("MULTI", "+OK")]);
        commands.iter().for_each(|command| assert_eq!(client.ask(command), "+QUEUED"));
        return replies_of(&client.ask("EXEC"));
    }
    let call = |command: &String| {
        let words: Vec<_> = words(command).iter().map(|word| format!("'{word}'")).collect();
        format!("redis.call({})", words.join(","))
    };
    let calls: Vec<_> = commands.iter().map(call).collect();
    let script = format!("return {{{}}}", calls.join(","));
    let mut request = vec!["EVAL", script.as_str(), "2"];
    request.extend(commands.iter().map(|command| words(command)[1]));
    replies_of(&client.call(&request))
}

/// Two keys, of two partitions if there are several.
fn two_keys(server: &Running) -> [String; 2] {
    let first = "key:0".to_owned();
    let home = server.db.partition_of(&first);
    let mut others = (1..).map(|number| format!("key:{number}"));
    let is_apart =
        |key: &String| server.db.partitions() == 1 || server.db.partition_of(key) != home;
    let other = others.find(is_apart).unwrap();
    [first, other]
}

/// Records histories of commands that `draw` makes for a key, and that it makes to be together with others, and checks
/// each.
fn check(setup: &[&str], draw: fn(&mut Rng, &str, bool) -> String) {
    let server = Running::start();
    let keys = two_keys(&server);
    let seed = std::env::var("HALITE_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("HALITE_TEST_SEED={seed}");
    let is_deep = halite_contract::lab::is_deep("server");
    let histories = if is_deep { HISTORIES * DEEP } else { HISTORIES };
    let mut admin = server.client();
    for history in 0..histories {
        for key in &keys {
            admin.ask(&format!("DEL {key}"));
            setup.iter().for_each(|line| drop(admin.ask(&line.replace("KEY", key))));
        }
        let moments = AtomicU64::new(0);
        let mut events: Vec<Event> = thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|number| {
                let (server, keys, moments) = (&server, &keys, &moments);
                let mut random = Rng::with_seed(seed ^ (history << 8 | number));
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut events = Vec::new();
                    for _ in 0..REQUESTS {
                        let is_together = random.u8(..5) == 0;
                        let key = &keys[random.usize(..2)];
                        let commands: Vec<_> = match is_together {
                            true => keys.iter().map(|key| draw(&mut random, key, true)).collect(),
                            false => vec![draw(&mut random, key, false)],
                        };
                        let begun = moments.fetch_add(1, Ordering::SeqCst);
                        let replies = match is_together {
                            true => together(&mut client, &mut random, &commands),
                            false => vec![client.ask(&commands[0])],
                        };
                        let ended = moments.fetch_add(1, Ordering::SeqCst);
                        events.push(Event { begun, ended, commands, replies });
                    }
                    events
                })
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        events.sort_by_key(|event| event.begun);
        if !is_linearizable(&State::new(), &events) {
            let story: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
            panic!("no order explains these:\n{}", story.join("\n"));
        }
    }
}

fn hashes_are_linearizable() {
    check(&[], |random, key, _| {
        let (field, number) = (random.u8(..2), random.u8(..9));
        match random.u8(..5) {
            0 => format!("HSET {key} f{field} {number}"),
            1 => format!("HGET {key} f{field}"),
            2 => format!("HDEL {key} f{field}"),
            _ => format!("HINCRBY {key} f{field} {number}"),
        }
    });
}

fn lists_are_linearizable() {
    check(&[], |random, key, is_together| match random.u8(..6) {
        0..2 => format!("LPUSH {key} {}", random.u16(..)),
        2 => format!("LLEN {key}"),
        3 if !is_together => format!("BLPOP {key} 0.02"),
        _ => format!("RPOP {key}"),
    });
}

fn sets_are_linearizable() {
    check(&[], |random, key, _| {
        let member = random.u8(..3);
        match random.u8(..5) {
            0..2 => format!("SADD {key} m{member}"),
            2 => format!("SREM {key} m{member}"),
            3 => format!("SISMEMBER {key} m{member}"),
            _ => format!("SPOP {key}"),
        }
    });
}

fn sorted_sets_are_linearizable() {
    check(&[], |random, key, is_together| {
        let (member, score) = (random.u8(..3), random.u8(..9));
        match random.u8(..5) {
            0 => format!("ZADD {key} {score} m{member}"),
            1 => format!("ZSCORE {key} m{member}"),
            2 if !is_together => format!("ZPOPMIN {key}"),
            _ => format!("ZINCRBY {key} {score} m{member}"),
        }
    });
}

const GROUP: &str = "XGROUP CREATE KEY g 0 MKSTREAM";

fn draw_of_stream(random: &mut Rng, key: &str, id: &str, is_together: bool) -> String {
    match random.u8(..5) {
        0..2 => format!("XADD {key} {id} f v"),
        2 => format!("XLEN {key}"),
        _ if is_together => format!("XLEN {key}"),
        _ => format!("XREADGROUP GROUP g c COUNT 1 STREAMS {key} >"),
    }
}

fn streams_are_linearizable() {
    check(&[GROUP], |random, key, is_together| draw_of_stream(random, key, "*", is_together));
}

fn streams_with_given_ids_are_linearizable() {
    check(&[GROUP], |random, key, is_together| {
        let id = format!("{}-1", 1 + random.u8(..60));
        // An error would end a script.
        if is_together { format!("XLEN {key}") } else { draw_of_stream(random, key, &id, false) }
    });
}

fn event(begun: u64, ended: u64, command: &str, reply: &str) -> Event {
    Event { begun, ended, commands: vec![command.to_owned()], replies: vec![reply.to_owned()] }
}

#[test]
fn what_no_order_explains_is_found() {
    let is_right = |events: &[Event]| is_linearizable(&State::new(), events);
    // Two clients get one element.
    let push = event(0, 1, "LPUSH k a", ":1");
    let pops = [event(2, 5, "RPOP k", "\"a\""), event(3, 4, "BLPOP k 0", "[\"k\", \"a\"]")];
    assert!(is_right(&[push.clone(), pops[0].clone()]));
    assert!(!is_right(&[push, pops[0].clone(), pops[1].clone()]));
    // An increment is lost.
    let sums = [event(0, 3, "HINCRBY k f 1", ":1"), event(1, 2, "HINCRBY k f 1", ":1")];
    assert!(!is_right(&sums));
    // A write that was acknowledged is not read.
    let stale = [event(0, 1, "ZADD k 1 m", ":1"), event(2, 3, "ZSCORE k m", "nil")];
    assert!(!is_right(&stale));
    let beside = [event(0, 3, "ZADD k 1 m", ":1"), event(1, 2, "ZSCORE k m", "nil")];
    assert!(is_right(&beside));
    // Half a transaction is seen.
    let both = Event {
        begun: 0,
        ended: 9,
        commands: vec!["SADD a m".to_owned(), "SADD b m".to_owned()],
        replies: vec![":1".to_owned(), ":1".to_owned()],
    };
    let half = [event(1, 2, "SISMEMBER a m", ":1"), event(3, 4, "SISMEMBER b m", ":0")];
    assert!(!is_right(&[both, half[0].clone(), half[1].clone()]));
    // Ids of a stream go back, and an entry is given twice.
    let ids = [event(0, 1, "XADD k * f v", "\"5-0\""), event(2, 3, "XADD k * f v", "\"4-0\"")];
    assert!(!is_right(&ids));
    let read = "XREADGROUP GROUP g c COUNT 1 STREAMS k >";
    let given = "[[\"k\", [[\"5-0\", [\"f\", \"v\"]]]]]";
    let twice = [ids[0].clone(), event(2, 4, read, given), event(3, 5, read, given)];
    assert!(is_right(&twice[..2]));
    assert!(!is_right(&twice));
}
