//! Any requests, in any pieces, get the same replies from a server of one thread and from one of three.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use halite_server::{Config, Server};
use libfuzzer_sys::fuzz_target;
use requests::Choices;

#[path = "../../crates/face/server/tests/common/requests.rs"]
mod requests;

/// The input's bytes as choices; zero when they are used up.
struct Input<'a>(&'a [u8]);

impl Choices for Input<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        let mut number = 0;
        // As many bytes as the bound needs.
        for _ in 0..(64 - bound.leading_zeros()).div_ceil(8) {
            let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
            number = number << 8 | u64::from(*byte);
            self.0 = rest;
        }
        number % bound
    }
}

/// Starts a server that runs as long as the process, and returns its address.
fn start(threads: usize) -> SocketAddr {
    let folder = tempfile::tempdir().expect("a temporary folder").keep();
    let builder = halite::Database::builder().partitioning(halite::Partitioning::Hash(threads));
    let db = builder.open(folder.join("data")).expect("a database");
    let mut config = Config::default();
    config.port = 0;
    let server = Server::bind(db, config).expect("a free port");
    let addr = server.local_addrs()[0];
    thread::spawn(|| server.run());
    addr
}

fn servers() -> [SocketAddr; 2] {
    static SERVERS: OnceLock<[SocketAddr; 2]> = OnceLock::new();
    *SERVERS.get_or_init(|| [start(1), start(3)])
}

/// Returns the replies to `bytes`, which are sent in pieces that end at these places.
fn replies(addr: SocketAddr, bytes: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut socket = TcpStream::connect(addr).expect("a connection");
    socket.set_nodelay(true).expect("an option");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    let mut replies = Vec::new();
    thread::scope(|scope| {
        let mut writer = socket.try_clone().expect("a handle");
        scope.spawn(move || {
            let mut start = 0;
            for &end in ends.iter().chain([&bytes.len()]) {
                // The server may have closed the connection at bytes that are no request.
                if writer.write_all(&bytes[start..end]).is_err() {
                    return;
                }
                start = end;
            }
            let _ = writer.shutdown(Shutdown::Write);
        });
        if let Err(error) = socket.read_to_end(&mut replies) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    });
    replies
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let count = 1 + input.below(60);
    let pieces = input.below(8);
    let bytes = [b"FLUSHALL\r\n".to_vec(), requests::requests(&mut input, count)].concat();
    let mut ends: Vec<_> =
        (0..pieces).map(|_| input.below(bytes.len() as u64 + 1) as usize).collect();
    ends.sort_unstable();
    let [alone, several] = servers();
    assert_eq!(
        replies(several, &bytes, &ends).escape_ascii().to_string(),
        replies(alone, &bytes, &[]).escape_ascii().to_string()
    );
});
