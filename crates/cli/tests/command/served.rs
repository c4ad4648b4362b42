//! A server, started as its users start it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use halite_resp_client::{Client, Limits, Reply, read_reply};
use rustix::process::{Pid, Signal, kill_process};

use crate::run::Home;

/// How long a test waits for a reply before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is ready, on a port of its own.
pub(crate) struct Served {
    pub(crate) process: Child,
    log: BufReader<ChildStderr>,
    pub(crate) banner: String,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let args = [&["serve", "data", "--port", "0"], args].concat();
        let mut command = home.command(&args);
        Self::spawn(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn spawn(mut process: Child) -> Self {
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("ready to accept connections") {
            assert!(log.read_line(&mut banner).unwrap() > 0, "no start: {banner}");
        }
        let at = "listening on ";
        let address = banner.lines().find_map(|line| line.split_once(at)?.1.parse().ok());
        // It may listen on a unix socket alone.
        let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self { process, log, banner, address }
    }

    /// Sends a request and reads as many bytes as the expected reply has.
    pub(crate) fn expect(&self, connection: &mut TcpStream, request: &str, reply: &str) {
        connection.write_all(request.as_bytes()).unwrap();
        let mut got = vec![0; reply.len()];
        connection.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), reply, "{request}");
    }

    /// Returns the reply to `INFO`.
    pub(crate) fn info(&self, connection: &mut TcpStream) -> String {
        connection.write_all(b"INFO\r\n").unwrap();
        match read_reply(&mut BufReader::new(connection), &Limits::default()).unwrap() {
            Reply::Bulk(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A client that reads whole replies.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address, PATIENCE, Limits::default()).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Ends the server by a signal; returns its exit code and its log until then.
    pub(crate) fn end(self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.wait()
    }

    /// Waits until it has ended; returns its exit code and its log until then.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Only a failed test leaves it running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
