//! The memory of clients that do not read their replies, or that send endless requests.

use crate::common;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{Client, Running, eventually, request};

on_threads! {
    a_client_beyond_its_hard_limit_is_disconnected_and_others_go_on
    a_client_beyond_its_soft_limit_is_disconnected_in_time
    of_all_clients_those_with_most_memory_are_evicted
    nobody_is_evicted_for_buffers_that_hold_nothing
    what_a_client_takes_is_told_and_given_back
    a_client_that_is_never_silent_gives_back_what_a_burst_took
    limits_of_memory_are_settings
    one_reply_may_take_the_share_of_a_thread
    a_request_of_a_client_that_is_not_evicted_is_read_up_to_the_limit
    transactions_of_clients_that_are_not_evicted_are_bounded_together
}

const VALUE_LEN: usize = 100_000;

/// A client that asks for values of [`VALUE_LEN`] bytes from all partitions, and does not read them. Requests are
/// sent as long as the server takes them.
fn ask_for(server: &Running, values: usize) -> Client {
    let mut client = server.client();
    for number in 0..values {
        // It may be disconnected meanwhile.
        let _ = write!(client.socket.get_mut(), "GET big:{}\r\n", number % 7);
    }
    client
}

fn fill(client: &mut Client) {
    for number in 0..7 {
        let value = "v".repeat(VALUE_LEN);
        assert_eq!(client.call(&["SET", &format!("big:{number}"), &value]), "+OK");
    }
}

/// The value of a field of INFO.
fn field(client: &mut Client, name: &str) -> u64 {
    let info = client.ask("INFO");
    let (_, rest) = info.split_once(&format!("\\n{name}:")).unwrap_or_else(|| panic!("{name}"));
    rest.split('\\').next().unwrap().parse().unwrap()
}

/// The value of a field of a client's line.
fn of_client(client: &mut Client, id: u64, name: &str) -> u64 {
    let line = client.ask(&format!("CLIENT LIST ID {id}"));
    let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn a_client_beyond_its_hard_limit_is_disconnected_and_others_go_on() {
    let server = Running::start_with(|config| {
        config.limits.output.hard = 3 << 20;
        config.log = Some(|line| LOG.lock().unwrap().push(line.to_owned()));
    });
    let mut other = server.client();
    fill(&mut other);
    let mut deaf = ask_for(&server, 200);
    let addr = deaf.socket.get_ref().local_addr().unwrap();
    eventually("the end of the deaf client", || {
        other.check(&[("PING", "+PONG")]);
        field(&mut other, "client_output_buffer_limit_disconnections") == 1
    });
    let said = format!("addr={addr} ");
    let log = LOG.lock().unwrap();
    let line = log.iter().find(|line| line.contains(&said)).expect("a line about the client");
    assert!(line.contains("overcoming of output buffer limits"), "{line}");
    drop(log);
    // The client gets the replies that had left, and no more.
    let mut replies = Vec::new();
    let _ = deaf.socket.read_to_end(&mut replies);
    assert!(replies.len() < 200 * VALUE_LEN);
    assert_eq!(field(&mut other, "evicted_clients"), 0);
    other.check(&[("STRLEN big:1", ":100000")]);
}

fn a_client_beyond_its_soft_limit_is_disconnected_in_time() {
    let server = Running::start_with(|config| {
        config.limits.output.soft = 1 << 20;
        // Longer than a machine stands still.
        config.limits.output.soft_time = Duration::from_secs(5);
    });
    let mut other = server.client();
    fill(&mut other);
    // This one reads before the time is over.
    let mut slow = ask_for(&server, 30);
    let mut bytes = vec![0; 30 * (VALUE_LEN + "$100000\r\n\r\n".len())];
    slow.socket.read_exact(&mut bytes).unwrap();
    let _deaf = ask_for(&server, 300);
    eventually("the end of the deaf client", || {
        field(&mut other, "client_output_buffer_limit_disconnections") == 1
    });
    slow.check(&[("PING", "+PONG")]);
}

fn of_all_clients_those_with_most_memory_are_evicted() {
    let server = Running::start_with(|config| config.client_memory_max = Some(24 << 20));
    let mut other = server.client();
    fill(&mut other);
    // No client has too much by itself.
    let mut deaf: Vec<_> = (0..8).map(|_| ask_for(&server, 80)).collect();
    eventually("an eviction", || field(&mut other, "evicted_clients") > 0);
    eventually("room", || field(&mut other, "mem_clients_normal") <= 24 << 20);
    other.check(&[("STRLEN big:1", ":100000")]);
    // Each gets all of its replies, or is evicted, now or while requests of others are executed.
    let mut whole = 0;
    for client in &mut deaf {
        let mut replies = vec![0; 80 * (VALUE_LEN + "$100000\r\n\r\n".len())];
        whole += u64::from(client.socket.read_exact(&mut replies).is_ok());
    }
    let clients = field(&mut other, "connected_clients");
    let evicted = field(&mut other, "evicted_clients");
    assert!(evicted < 8 && clients == 9 - evicted, "{evicted} of {clients}");
    assert_eq!(whole, 8 - evicted);
    eventually("buffers given back", || field(&mut other, "mem_clients_normal") < 8 << 20);
}

fn nobody_is_evicted_for_buffers_that_hold_nothing() {
    const LEN: usize = 900 << 10;
    let server = Running::start_with(|config| config.client_memory_max = Some(24 << 20));
    let mut other = server.client();
    let value = "v".repeat(LEN);
    // They are of all threads.
    let keys = ["a", "b", "c", "d", "e"];
    keys.iter().for_each(|key| assert_eq!(other.call(&["SET", key, &value]), "+OK"));
    let mut reply = vec![0; format!("${LEN}\r\n\r\n").len() + LEN];
    let mut clients: Vec<_> = (0..60).map(|_| server.client()).collect();
    for client in &mut clients {
        for key in keys {
            client.send_words(&["GET", key]);
            client.socket.read_exact(&mut reply).unwrap();
        }
    }
    clients.iter_mut().for_each(|client| client.check(&[("PING", "+PONG")]));
    assert_eq!(field(&mut other, "evicted_clients"), 0);
}

fn what_a_client_takes_is_told_and_given_back() {
    const VALUES: usize = 200;
    let server = Running::start();
    let mut other = server.client();
    fill(&mut other);
    let mut deaf = ask_for(&server, VALUES);
    // Sockets take some.
    let waiting = (VALUES * VALUE_LEN / 2) as u64;
    eventually("the replies", || of_client(&mut other, 2, "obl") > waiting);
    assert!(of_client(&mut other, 2, "omem") > waiting);
    assert!(of_client(&mut other, 2, "oll") > 1);
    assert!(of_client(&mut other, 2, "tot-mem") > waiting);
    assert!(field(&mut other, "client_recent_max_output_buffer") > waiting);
    assert!(field(&mut other, "mem_clients_normal") > waiting);
    let mut replies = vec![0; VALUES * (VALUE_LEN + "$100000\r\n\r\n".len())];
    deaf.socket.read_exact(&mut replies).unwrap();
    eventually("memory given back", || of_client(&mut other, 2, "tot-mem") < 1 << 20);
    assert_eq!(of_client(&mut other, 2, "omem"), 0);
    // Replies to clients of other threads that were on their way have come.
    eventually("memory given back", || field(&mut other, "mem_clients_normal") < 6 << 20);
}

fn a_client_that_is_never_silent_gives_back_what_a_burst_took() {
    let server = Running::start();
    let (mut other, mut busy) = (server.client(), server.client());
    let value = "v".repeat(900 << 10);
    // The keys are on all threads, so one is executed on the client's own.
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(busy.call(&["SET", key, &value]), "+OK");
        assert_eq!(busy.ask(&format!("GET {key}")).len(), value.len() + 2);
    }
    eventually("memory given back", || {
        busy.check(&[("PING", "+PONG")]);
        let [free, all] = ["qbuf-free", "tot-mem"].map(|name| of_client(&mut other, 2, name));
        free < 64 << 10 && all < 256 << 10
    });
}

fn limits_of_memory_are_settings() {
    let server = Running::start();
    let mut client = server.client();
    let failed =
        "-ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - ";
    let name = "client-output-buffer-limit";
    let limits = |client: &mut Client| client.ask(&format!("CONFIG GET {name}"));
    let told = |normal: &str, replica: &str, pubsub: &str| {
        format!("[\"{name}\", \"normal {normal} slave {replica} pubsub {pubsub}\"]")
    };
    assert_eq!(limits(&mut client), told("0 0 0", "0 0 0", "33554432 8388608 60"));
    for (value, reply) in [
        ("normal 1mb 512kb 7", "+OK".to_owned()),
        ("pubsub 16mb 4mb 30 replica 1gb 0 0", "+OK".to_owned()),
        ("normal 1mb", format!("{failed}Wrong number of arguments in buffer limit configuration.")),
        (
            "x 1 1 1",
            format!("{failed}Invalid client class specified in buffer limit configuration."),
        ),
        (
            "normal x 1 1",
            format!(
                "{failed}Error in hard, soft or soft_seconds setting in buffer limit configuration."
            ),
        ),
    ] {
        assert_eq!(client.call(&["CONFIG", "SET", name, value]), reply, "{value}");
    }
    assert_eq!(
        limits(&mut client),
        told("1048576 524288 7", "1073741824 0 0", "16777216 4194304 30")
    );
    let refused = "-ERR CONFIG SET failed (possibly related to argument";
    client.check(&[
        ("CONFIG SET maxmemory-clients 100mb", "+OK"),
        ("CONFIG GET maxmemory-clients", "[\"maxmemory-clients\", \"104857600\"]"),
        ("CONFIG SET maxmemory 1gb maxmemory-clients 5%", "+OK"),
        ("CONFIG GET maxmemory-clients", "[\"maxmemory-clients\", \"5%\"]"),
        (
            "CONFIG SET maxmemory 2gb maxmemory-clients 200%",
            &format!(
                "{refused} 'maxmemory-clients') - percentage argument must be less or equal to 100"
            ),
        ),
        (
            "CONFIG SET maxmemory-clients x",
            &format!("{refused} 'maxmemory-clients') - argument must be a memory or percent value"),
        ),
        ("CONFIG GET maxmemory", "[\"maxmemory\", \"1073741824\"]"),
        ("CONFIG SET maxmemory 0 maxmemory-clients 0", "+OK"),
        ("CONFIG GET maxmemory-clients", "[\"maxmemory-clients\", \"0\"]"),
    ]);
}

fn one_reply_may_take_the_share_of_a_thread() {
    const LIMIT: usize = 24 << 20;
    let server = Running::start_with(|config| config.client_memory_max = Some(LIMIT));
    let mut other = server.client();
    let value = "v".repeat(1 << 20);
    let share = LIMIT / value.len() / common::threads();
    // They are of all threads.
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(other.call(&["SET", key, &value]), "+OK");
        for (count, is_sent) in [(share / 2, true), (share + 1, false)] {
            let mut client = server.client();
            client.send_words(&[&["MGET"], &vec![key; count][..]].concat());
            let len =
                format!("*{count}\r\n").len() + count * (value.len() + "$1048576\r\n\r\n".len());
            let received = client.socket.read_exact(&mut vec![0; len]);
            assert_eq!(received.is_ok(), is_sent, "{count} values of {key}");
        }
    }
    let dropped = field(&mut other, "client_output_buffer_limit_disconnections");
    assert_eq!((dropped, field(&mut other, "evicted_clients")), (5, 0));
}

/// A client that is not evicted.
fn kept(server: &Running) -> Client {
    let mut client = server.client();
    client.check(&[("CLIENT NO-EVICT ON", "+OK")]);
    client
}

fn a_request_of_a_client_that_is_not_evicted_is_read_up_to_the_limit() {
    let server = Running::start_with(|config| {
        config.client_memory_max = Some(8 << 20);
        config.limits.request_timeout = Duration::from_secs(3);
    });
    let mut other = server.client();
    let mut large = kept(&server);
    large.socket.get_ref().set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let request = request(&["SET", "k", &"v".repeat(64 << 20)]);
    let sent = large.socket.get_mut().write_all(&request);
    assert!(sent.is_err(), "64 MiB are more than sockets hold, and those clients may take");
    other.check(&[("PING", "+PONG")]);
    // The unfinished request times out, and makes room for the next one.
    kept(&server).check(&[("EXISTS k", ":0")]);
}

fn transactions_of_clients_that_are_not_evicted_are_bounded_together() {
    let server = Running::start_with(|config| config.client_memory_max = Some(32 << 20));
    let mut other = server.client();
    let refused =
        "-ERR clients with NO-EVICT take too much memory; end transactions and watches first";
    let value = "v".repeat(1 << 20);
    let queue = |client: &mut Client, count: usize| {
        client.check(&[("MULTI", "+OK")]);
        (0..count).map(|_| client.call(&["SET", "k", &value])).find(|reply| reply != "+QUEUED")
    };
    let mut first = kept(&server);
    assert_eq!(queue(&mut first, 3), None);
    let mut second = kept(&server);
    assert_eq!(queue(&mut second, 20).as_deref(), Some(refused));
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    // The queued commands are dropped with the refusal.
    assert_eq!(of_client(&mut other, 3, "multi-mem"), 0);
    second.check(&[("EXEC", aborted)]);
    first.check(&[("EXEC", "[+OK, +OK, +OK]")]);
    let watch = |client: &mut Client, number: usize| {
        let pad = "w".repeat(1000);
        let keys = (0..1000).map(|key| format!("{pad}:{number}:{key}"));
        client.call(&[vec!["WATCH".to_owned()], keys.collect()].concat())
    };
    // More than half of the limit, whatever buffers take besides.
    let watching = |client: &mut Client| (0..17).map(|number| watch(client, number)).last();
    assert_eq!(watching(&mut first).as_deref(), Some(refused));
    // Others may, but cannot take it along.
    assert_eq!(watching(&mut other).as_deref(), Some("+OK"));
    other.check(&[("CLIENT NO-EVICT ON", refused), ("UNWATCH", "+OK")]);
    first.check(&[("UNWATCH", "+OK")]);
    other.check(&[("CLIENT NO-EVICT ON", "+OK")]);
    assert_eq!(queue(&mut first, 3), None);
    first.check(&[("EXEC", "[+OK, +OK, +OK]")]);
}
