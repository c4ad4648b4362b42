//! The sockets that clients connect to, and whom the server serves there.

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use halite::Database;
use halite_resp_client::{Limits, read_reply};
use halite_server::{Config, Error, Server};

use crate::common::{Running, request, shown, words};

on_threads! {
    clients_come_by_a_unix_socket
    clients_of_other_machines_need_a_password
}

/// The reply to a request by a unix socket.
fn ask(socket: &mut BufReader<UnixStream>, line: &str) -> String {
    socket.get_mut().write_all(&request(&words(line))).unwrap();
    shown(&read_reply(socket, &Limits::default()).unwrap())
}

fn clients_come_by_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut server = Running::start_with(|config| {
        config.unix_socket = Some(path.clone());
        config.unix_socket_mode = Some(0o700);
    });
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
    let connect = || BufReader::new(UnixStream::connect(&path).unwrap());
    let (mut first, mut second) = (connect(), connect());
    assert_eq!(ask(&mut first, "SET k v"), "+OK");
    assert_eq!(ask(&mut second, "GET k"), "\"v\"");
    let line = ask(&mut first, "CLIENT INFO");
    let shown_path = path.display();
    assert!(line.contains(&format!(" addr={shown_path}:0 laddr={shown_path}:0 ")), "{line}");
    assert!(line.contains(" flags=U "), "{line}");
    let mut plain = server.client();
    plain.check(&[
        ("CONFIG GET unixsocketperm", "[\"unixsocketperm\", \"700\"]"),
        (
            "CONFIG SET unixsocket /tmp/x",
            "-ERR CONFIG SET failed (possibly related to argument 'unixsocket') - can't set immutable config",
        ),
        (&format!("CLIENT KILL ADDR {shown_path}:0"), ":2"),
    ]);
    let found = plain.ask("CONFIG GET unixsocket");
    assert_eq!(found, format!("[\"unixsocket\", \"{shown_path}\"]"));
    assert_eq!(first.read_to_end(&mut Vec::new()).unwrap(), 0);
    // Another server on the same socket.
    let other = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    (config.port, config.unix_socket) = (0, Some(path.clone()));
    let refused = Server::bind(Database::open(other.path().join("data")).unwrap(), config);
    assert!(matches!(refused, Err(Error::UnixSocket { .. })));
    let mut third = connect();
    assert_eq!(ask(&mut third, "PING"), "+PONG");
    server.stop().unwrap();
    assert!(!path.exists());
}

/// The address of this machine that other machines see, if it has one. No packet is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    Some(own).filter(|own| !own.is_loopback() && !own.is_unspecified())
}

fn clients_of_other_machines_need_a_password() {
    let Some(own) = own_address() else {
        eprintln!("skipped: this machine has no address but loopback");
        return;
    };
    let server = Running::start_with(|config| config.bind = vec![Ipv4Addr::UNSPECIFIED.into()]);
    let port = server.addr.port();
    let from_outside = || {
        let mut socket = TcpStream::connect(SocketAddr::new(own, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may have closed the connection already.
        let _ = socket.write_all(b"QUIT\r\n");
        let mut reply = String::new();
        let _ = socket.read_to_string(&mut reply);
        reply
    };
    let mut local = crate::common::Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.check(&[("CONFIG GET protected-mode", "[\"protected-mode\", \"yes\"]")]);
    let denied = from_outside();
    assert!(denied.starts_with("-DENIED Halite is running in protected mode"), "{denied}");
    assert!(denied.ends_with(".\r\n"), "{denied}");
    local.check(&[("CONFIG SET protected-mode no", "+OK")]);
    assert_eq!(from_outside(), "+OK\r\n");
    local.check(&[
        ("CONFIG SET protected-mode yes", "+OK"),
        ("CONFIG SET requirepass sesame", "+OK"),
    ]);
    assert_eq!(from_outside(), "+OK\r\n");
}
