//! A server in a thread, and clients that talk to it over TCP.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::cell::Cell;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use halite::{Builder, Database, Durable, IndexKind, LsmOptions, Partitioning};
use halite_resp_client::{Limits, Reply, encode, read_reply};
use halite_server::stored::untagged;
use halite_server::{Config, DebugCommand, Error, Handle, Server};

/// Makes tests of functions: each runs with a server of one thread, of two, and of three; and on the engine `lsm`, with
/// a persistent pool and with a log. Those behind `indexlog:` run on that engine only, since they are about its own
/// features.
macro_rules! on_threads {
    ($($name:ident)* $(; indexlog: $($only:ident)*)?) => {
        mod on_one_thread {
            $(#[test] fn $name() { crate::common::with_threads(1, super::$name) })*
            $($(#[test] fn $only() { crate::common::with_threads(1, super::$only) })*)?
        }
        mod on_two_threads {
            $(#[test] fn $name() { crate::common::with_threads(2, super::$name) })*
            $($(#[test] fn $only() { crate::common::with_threads(2, super::$only) })*)?
        }
        mod on_three_threads {
            $(#[test] fn $name() { crate::common::with_threads(3, super::$name) })*
            $($(#[test] fn $only() { crate::common::with_threads(3, super::$only) })*)?
        }
        mod on_lsm {
            $(#[test] fn $name() {
                crate::common::set_lsm(halite::Durable::Pool);
                crate::common::with_threads(1, super::$name);
            })*
        }
        mod on_lsm_with_a_log {
            $(#[test] fn $name() {
                crate::common::set_lsm(halite::Durable::Log);
                crate::common::with_threads(2, super::$name);
            })*
        }
    };
}

pub(crate) mod gated;

thread_local! {
    /// The number of threads, and of partitions, of the servers that this test starts.
    static THREADS: Cell<usize> = const { Cell::new(1) };
    /// The index of their databases.
    static INDEX: Cell<Option<IndexKind>> = const { Cell::new(None) };
    /// Where the engine `lsm` keeps the latest commits, if the databases are of that engine.
    static LSM: Cell<Option<Durable>> = const { Cell::new(None) };
}

/// Lets the servers that this test starts have so many threads.
pub(crate) fn set_threads(threads: usize) {
    THREADS.set(threads);
}

/// Lets the databases that this test opens have this index.
pub(crate) fn set_index(index: IndexKind) {
    INDEX.set(Some(index));
}

/// Lets the databases that this test opens be of the engine `lsm`.
pub(crate) fn set_lsm(durable: Durable) {
    LSM.set(Some(durable));
}

/// Whether the databases that this test opens are of the engine `lsm`.
pub(crate) fn is_lsm() -> bool {
    LSM.get().is_some()
}

/// Whether they have a write-ahead log.
pub(crate) fn has_log() -> bool {
    LSM.get() == Some(Durable::Log)
}

/// Runs a test with servers of so many threads.
pub(crate) fn with_threads(threads: usize, test: fn()) {
    set_threads(threads);
    test();
}

/// The number of threads of the servers that this test starts.
pub(crate) fn threads() -> usize {
    THREADS.get()
}

/// Options of a database with a partition for each thread.
pub(crate) fn builder() -> Builder {
    let builder = Database::builder().partitioning(Partitioning::Hash(threads()));
    let builder = builder.index(INDEX.get().unwrap_or_default());
    match LSM.get() {
        Some(durable) => builder.engine("lsm").lsm(LsmOptions { durable, ..LsmOptions::default() }),
        None => builder.engine("indexlog"),
    }
}

/// Opens a database with a partition for each thread.
pub(crate) fn open(path: impl AsRef<Path>) -> Database {
    builder().open(path).unwrap()
}

/// The string that the database has at a key of the server's database 0.
pub(crate) fn stored_string(db: &Database, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let values = db.find_key_space("db0").unwrap().unwrap();
    values.get(key).unwrap().map(|stored| untagged(&stored).unwrap().to_vec())
}

/// How long a test waits for a reply before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The limits of replies that tests read: some have the longest lines that a server sends.
const LIMITS: Limits = Limits {
    line_len_max: 1 << 20,
    string_len_max: 1 << 30,
    items_max: 1 << 24,
    depth_max: 64,
    queue_len_max: 1 << 30,
};

/// A running server. It stops when it is dropped.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) handle: Handle,
    pub(crate) metrics: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    pub(crate) db: Database,
    thread: Option<JoinHandle<Result<(), Error>>>,
    _folder: Option<tempfile::TempDir>,
}

impl Running {
    /// A server with an empty database.
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// A server with an empty database, configured by `change`.
    pub(crate) fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path().join("data"));
        let mut running = Self::on(db, change);
        running._folder = Some(folder);
        running
    }

    /// A server on `db`.
    pub(crate) fn on(db: Database, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.port = 0;
        config.debug_command = DebugCommand::Yes;
        change(&mut config);
        let server = Server::bind(db.clone(), config).unwrap();
        let (addr, handle) = (server.local_addrs()[0], server.handle());
        let (metrics, tls) = (server.metrics_addr(), server.tls_addrs().first().copied());
        let thread = Some(std::thread::spawn(move || server.run()));
        Self { addr, handle, metrics, tls, db, thread, _folder: None }
    }

    /// Keeps the folder of its database as long as the server.
    pub(crate) fn within(mut self, folder: tempfile::TempDir) -> Self {
        self._folder = Some(folder);
        self
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    /// The address for TLS.
    pub(crate) fn tls(&self) -> SocketAddr {
        self.tls.expect("the server has an address for TLS")
    }

    /// Stops the server and returns the result of `run`.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.handle.shutdown();
        self.wait()
    }

    /// Whether the server has stopped.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the server has stopped by itself.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        self.thread.take().expect("the server runs").join().expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.expect("the server does not panic").expect("the server stops in order");
            }
        }
    }
}

/// Whether a number of seconds is one of those that it becomes while a busy machine stands still.
fn is_a_little_less(reply: &str, expected: &str) -> bool {
    let number = |text: &str| text.strip_prefix(':').and_then(|text| text.parse::<i64>().ok());
    let both = number(reply).zip(number(expected));
    both.is_some_and(|(reply, expected)| reply >= 0 && (expected - 10..=expected).contains(&reply))
}

/// A client that shows replies as text.
pub(crate) struct Client {
    pub(crate) socket: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket: BufReader::new(socket) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).unwrap();
    }

    /// Sends words, as an array.
    pub(crate) fn send_words<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.send(&request(words));
    }

    /// Sends a request and returns its reply.
    pub(crate) fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> String {
        self.send_words(words);
        self.reply()
    }

    /// Sends a request written as words between spaces; `''` is the empty word.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.send_words(&words(line));
    }

    /// Sends a request of words without spaces, and returns the reply as text.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.call(&words(line))
    }

    /// Sends each request and compares its reply.
    #[track_caller]
    pub(crate) fn check(&mut self, dialogue: &[(&str, &str)]) {
        for (request, expected) in dialogue {
            let reply = self.ask(request);
            if !request.starts_with("TTL ") || !is_a_little_less(&reply, expected) {
                assert_eq!(reply, *expected, "reply to `{request}`");
            }
        }
    }

    /// The integer that a request is answered with.
    #[track_caller]
    pub(crate) fn integer(&mut self, line: &str) -> i64 {
        let reply = self.ask(line);
        let number = reply.strip_prefix(':').and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("`{line}` is answered with {reply}"))
    }

    /// The next reply: `+OK`, `-ERR ...`, `:1`, `"bulk"`, `nil`, `[array]`, `{map: ...}`, `~[set]`,
    /// `>[push]`, `=txt:...`; or `closed`.
    pub(crate) fn reply(&mut self) -> String {
        self.try_reply().unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => "closed".to_owned(),
            _ => panic!("no reply: {error}"),
        })
    }

    fn try_reply(&mut self) -> io::Result<String> {
        read_reply(&mut self.socket, &LIMITS).map(|reply| shown(&reply))
    }
}

/// A reply as text.
pub(crate) fn shown(reply: &Reply) -> String {
    let all = |replies: &[Reply]| replies.iter().map(shown).collect::<Vec<_>>().join(", ");
    match reply {
        Reply::Status(text) => format!("+{text}"),
        Reply::Error(text) => format!("-{text}"),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Null => "nil".to_owned(),
        Reply::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Verbatim(bytes) => format!("={}", bytes.escape_ascii()),
        Reply::Array(replies) => format!("[{}]", all(replies)),
        Reply::Set(replies) => format!("~[{}]", all(replies)),
        Reply::Push(replies) => format!(">[{}]", all(replies)),
        Reply::Map(pairs) => {
            let pairs =
                pairs.iter().map(|(key, value)| format!("{}: {}", shown(key), shown(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().map(|word| if word == "''" { "" } else { word }).collect()
}

/// A request as an array of words.
pub(crate) fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, words);
    bytes
}

/// Tries until `condition` holds; fails after a long time.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen");
}

/// Waits until so many clients wait. A test whose clients wait one behind the other waits between them: requests of
/// different connections have no order.
#[track_caller]
pub(crate) fn wait_for_blocked(server: &Running, count: usize) {
    let mut client = server.client();
    eventually(&format!("the wait of {count} clients"), || {
        client.ask("INFO clients").contains(&format!("blocked_clients:{count}\\r"))
    });
}

/// Scans to the end; `between` runs between the pages.
pub(crate) fn scan(
    client: &mut Client,
    options: &str,
    mut between: impl FnMut(&mut Client),
) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} {options}"));
        let (next, page) = page(&reply);
        keys.extend(page);
        if next == "0" {
            return keys;
        }
        cursor = next;
        between(client);
    }
}

/// The cursor and the keys of a reply to SCAN.
pub(crate) fn page(reply: &str) -> (String, Vec<String>) {
    let inner = reply.strip_prefix("[\"").unwrap_or_else(|| panic!("{reply}"));
    let (cursor, keys) = inner.split_once("\", [").unwrap();
    let keys = keys.strip_suffix("]]").unwrap();
    let keys = keys.split(", ").filter(|key| !key.is_empty());
    (cursor.to_owned(), keys.map(|key| key.trim_matches('"').to_owned()).collect())
}
