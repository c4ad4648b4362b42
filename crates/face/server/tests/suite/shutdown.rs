//! The server stops in order, and its acknowledged writes are there afterwards.

use crate::common;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::Running;
use halite_server::{Config, Error, Server};

on_threads! {
    shutdown_from_another_thread_ends_the_server_and_its_connections
    shutdown_by_a_client_gets_no_reply
    requests_in_flight_are_answered_before_the_end
    what_a_slow_reader_has_been_answered_arrives_whole
    a_handle_stops_a_server_before_it_runs
    an_address_that_is_taken_is_named
    a_server_listens_on_every_address
}

fn shutdown_from_another_thread_ends_the_server_and_its_connections() {
    let mut server = Running::start();
    let mut client = server.client();
    client.check(&[("SET k 1", "+OK")]);
    server.stop().unwrap();
    assert_eq!(client.reply(), "closed");
    assert!(TcpStream::connect(server.addr).is_err());
    Running::on(server.db.clone(), |_| {}).client().check(&[("GET k", "\"1\"")]);
}

fn shutdown_by_a_client_gets_no_reply() {
    for request in ["SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE NOW FORCE"] {
        let mut server = Running::start();
        let mut client = server.client();
        client.check(&[
            ("SHUTDOWN x", "-ERR syntax error"),
            ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            (request, "closed"),
        ]);
        server.wait().unwrap();
    }
}

/// A server that gives its clients more time at the end than a machine that stands still takes.
fn start_patiently() -> Running {
    Running::start_with(|config| config.shutdown_grace = Duration::from_secs(60))
}

fn requests_in_flight_are_answered_before_the_end() {
    let mut server = start_patiently();
    let mut clients: Vec<_> = (0..20).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.check(&[("PING", "+PONG")]));
    let mut admin = server.client();
    clients.iter_mut().for_each(|client| client.send(b"INCR n\r\n"));
    admin.send(b"SHUTDOWN\r\n");
    server.wait().unwrap();
    let answered = clients
        .iter_mut()
        .map(|client| usize::from(client.reply().starts_with(':')))
        .sum::<usize>();
    let stored = common::stored_string(&server.db, "n").unwrap();
    assert_eq!(stored, answered.to_string().as_bytes());
    assert_eq!(answered, 20);
}

fn what_a_slow_reader_has_been_answered_arrives_whole() {
    const LEN: usize = 17_000;
    let mut server = start_patiently();
    let mut client = server.client();
    // On each partition some: replies of others are buffers of their own.
    for number in 0..8 {
        client.call(&["SET", &format!("key:{number}"), &"v".repeat(LEN)]);
    }
    let requests: String = (0..1000).map(|number| format!("GET key:{}\r\n", number % 8)).collect();
    client.send(requests.as_bytes());
    // Once no more is sent, the server waits for the reader.
    let mut other = server.client();
    let mut sent = 0;
    common::eventually("the end of what sockets take", || {
        std::thread::sleep(Duration::from_millis(50));
        let info = other.ask("INFO stats");
        let (_, rest) = info.split_once("total_net_output_bytes:").unwrap();
        let now: usize = rest.split('\\').next().unwrap().parse().unwrap();
        let before = std::mem::replace(&mut sent, now);
        now > 1_000_000 && now - before < LEN
    });
    let addr = server.addr;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The server is about to end when it begins to read.
        while TcpStream::connect(addr).is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
        client.socket.read_to_end(&mut bytes).unwrap();
        bytes
    });
    server.stop().unwrap();
    let bytes = reader.join().unwrap();
    let reply = format!("${LEN}\r\n{}\r\n", "v".repeat(LEN));
    assert!(bytes.len() > 1_000_000);
    assert_eq!(bytes.len() % reply.len(), 0, "the last reply is whole");
}

fn a_handle_stops_a_server_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let db = common::open(folder.path().join("data"));
    let mut config = Config::default();
    config.port = 0;
    let server = Server::bind(db, config).unwrap();
    let handle = server.handle();
    handle.shutdown();
    handle.clone().shutdown();
    server.run().unwrap();
    handle.shutdown();
}

fn an_address_that_is_taken_is_named() {
    let running = Running::start();
    let mut config = Config::default();
    config.port = running.addr.port();
    match Server::bind(running.db.clone(), config) {
        Err(Error::Bind { addr, .. }) => assert_eq!(addr, running.addr),
        other => panic!("{:?}", other.err()),
    }
    let mut config = Config::default();
    config.bind.clear();
    assert!(matches!(Server::bind(running.db.clone(), config), Err(Error::NoAddress)));
    let mut config = Config::default();
    config.databases = 0;
    assert!(matches!(Server::bind(running.db.clone(), config), Err(Error::NoDatabase)));
}

fn a_server_listens_on_every_address() {
    let folder = tempfile::tempdir().unwrap();
    let db = common::open(folder.path().join("data"));
    let mut config = Config::default();
    config.port = 0;
    config.bind = vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    let server = Server::bind(db, config).unwrap();
    let (addrs, handle) = (server.local_addrs(), server.handle());
    let thread = std::thread::spawn(move || server.run());
    for addr in addrs {
        common::Client::connect(addr).check(&[("PING", "+PONG")]);
    }
    handle.shutdown();
    thread.join().unwrap().unwrap();
}
