//! A server that may not have many descriptors: connections are refused before the engine lacks any.

#[allow(unused_macros, reason = "one test for its own process")]
mod common;

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::Client;
use halite::{Database, Durable, LsmOptions};
use halite_server::{Config, Server, raise_descriptor_limit};

/// The folder of the database, for the test that is run again as the server.
const FOLDER: &str = "HALITE_SERVED_FOLDER";

/// Descriptors that the server may have.
const DESCRIPTORS: usize = 160;

const TEST: &str = "idle_connections_leave_the_engine_the_descriptors_that_it_needs";

const REFUSED: &str = "-ERR max number of clients reached";

/// Serves a database of the engine `lsm` with a log and many small tables, until SHUTDOWN.
fn serve(folder: &Path) {
    raise_descriptor_limit(10_000);
    let (memtable_bytes, table_bytes) = (Some(2 << 20), Some(32 << 10));
    let durable = Durable::Log;
    let lsm = LsmOptions { durable, memtable_bytes, table_bytes, ..LsmOptions::default() };
    let db = Database::builder().engine("lsm").max_size(64 << 20).lsm(lsm).open(folder).unwrap();
    let mut config = Config::default();
    config.port = 0;
    config.requirepass = Some("secret".to_owned());
    // They are not closed meanwhile.
    config.limits.request_timeout = Duration::from_secs(3600);
    let server = Server::bind(db, config).unwrap();
    println!("serving {} clients on {}", server.client_count_max(), server.local_addrs()[0]);
    server.run().unwrap();
}

/// The server, ended if the test fails.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A value that cannot be compressed.
fn value(number: usize) -> Vec<u8> {
    let mut word = number as u64 + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..16_000).map(|_| next()).collect()
}

#[test]
fn idle_connections_leave_the_engine_the_descriptors_that_it_needs() {
    if let Some(folder) = env::var_os(FOLDER) {
        return serve(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!("ulimit -Sn {DESCRIPTORS} && ulimit -Hn {DESCRIPTORS} && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(FOLDER, folder.path().join("data"));
    let mut served = Served(command.stdout(Stdio::piped()).spawn().unwrap());
    // The child's output at its end is read, too.
    let mut said = BufReader::new(served.0.stdout.take().unwrap()).lines();
    let serving = said.by_ref().map(|line| line.unwrap()).find_map(|line| {
        let (_, line) = line.split_once("serving ")?;
        let (clients, addr) = line.split_once(" clients on ")?;
        Some((clients.parse::<usize>().unwrap(), addr.parse::<SocketAddr>().unwrap()))
    });
    let (clients_max, addr) = serving.expect("it serves");
    assert!((16..DESCRIPTORS - 32).contains(&clients_max), "{clients_max}");

    let mut writer = Client::connect(addr);
    assert_eq!(writer.ask("AUTH secret"), "+OK");
    // Clients that have not authenticated and send no request: as many as allowed, and more.
    let mut strangers: Vec<Client> = (1..clients_max).map(|_| Client::connect(addr)).collect();
    let refused: Vec<String> = (0..300).map(|_| Client::connect(addr).reply()).collect();
    assert!(refused.iter().all(|reply| reply == REFUSED), "{refused:?}");

    const KEYS: usize = 1_000;
    for number in 0..KEYS {
        let key = format!("key:{}", number * 7919 % KEYS);
        assert_eq!(writer.call(&[b"SET", key.as_bytes(), &value(number)]), "+OK", "{number}");
    }
    for number in (0..KEYS).step_by(11) {
        let key = format!("GET key:{}", number * 7919 % KEYS);
        let wanted = format!("\"{}\"", value(number).escape_ascii());
        assert!(writer.ask(&key) == wanted, "{number}");
    }
    assert_eq!(Client::connect(addr).reply(), REFUSED);
    assert!(strangers[0].ask("PING").starts_with("-NOAUTH"));
    // Others find a place when some have gone.
    drop(strangers);
    assert_eq!(writer.ask("CONFIG SET maxclients 2"), "+OK");
    let refused = writer.ask("CONFIG SET maxclients 100000");
    let hint = format!("try with {clients_max}");
    assert!(refused.starts_with("-ERR") && refused.contains(&hint), "{refused}");
    assert_eq!(writer.ask("SHUTDOWN"), "closed");
    assert!(said.all(|line| line.is_ok()));
    assert!(served.0.wait().unwrap().success());
}
