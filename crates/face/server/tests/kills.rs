//! A server that is killed again and again while clients change collections of all types: each client finds what was
//! acknowledged, the request under way whole or not at all, and no element is without its collection. And one for which ten
//! thousand clients wait.
//!
//! The tests start themselves once more as the server. `HALITE_KILLS` sets how often it is killed on each engine, and
//! `HALITE_TEST_SEED` the seed.

mod collections_model;

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite::{Database, Partitioning};
use halite_resp_client::{Limits, Reply, encode, read_reply};
use halite_server::in_process::InProcess;
use halite_server::{Config, Server, SyncPolicy, census, raise_descriptor_limit};

use collections_model::Chance;
use collections_model::commands::{Draw, Step, script};
use collections_model::model::{DATABASES, Model, Words};
use collections_model::seen::everything;

/// The folder of the database, for a test that is run again as the server; how its database is opened, and whether each
/// turn is synced.
const FOLDER: &str = "HALITE_KILLED_FOLDER";
const ENGINE: &str = "HALITE_KILLED_ENGINE";
const PARTITIONS: &str = "HALITE_KILLED_PARTITIONS";
const SYNCS: &str = "HALITE_KILLED_SYNCS";

/// Clients that change collections, each in databases of its own.
const CLIENTS: usize = 6;

/// How often a server is killed on each engine, if the environment does not say it.
const KILLS: u64 = 4;

/// A time far away, in milliseconds since 1970, and one that is over: deadlines are behind one of them.
const FAR: u64 = 4_000_000_000_000;
const OVER: u64 = 1_000;

/// Clients that wait at once.
const WAITING: usize = 10_000;

impl Chance for Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.u64(..bound)
    }
}

/// Serves the database in a folder, until this process is killed, or has lost the one that started it.
fn serve(folder: &Path) {
    raise_descriptor_limit(WAITING + 100);
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let variable = |name: &str| env::var(name).unwrap();
    let builder = Database::builder().engine(variable(ENGINE)).max_size(256 << 20);
    let count = variable(PARTITIONS).parse().unwrap();
    let db = builder.partitioning(Partitioning::Hash(count)).open(folder).unwrap();
    let mut config = Config::default();
    config.port = 0;
    config.databases = (CLIENTS * DATABASES) as u32;
    config.client_count_max = WAITING + 10;
    if variable(SYNCS) == "0" {
        config.sync = SyncPolicy::Never;
    }
    let server = Server::bind(db, config).unwrap();
    println!("serving on {}", server.local_addrs()[0]);
    io::stdout().flush().unwrap();
    server.run().unwrap();
}

/// The server, ended with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    fn start(test: &str, folder: &Path, engine: &str, partitions: usize, syncs: bool) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        command.env(FOLDER, folder).env(ENGINE, engine).env(PARTITIONS, partitions.to_string());
        command.env(SYNCS, u8::from(syncs).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Waits until it serves.
    fn addr(&mut self) -> SocketAddr {
        let said = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let addr = said.map(|line| line.unwrap()).find_map(|line| {
            let (_, addr) = line.split_once("serving on ")?;
            addr.parse().ok()
        });
        addr.expect("it serves")
    }

    /// Bytes of memory of its process that are its own.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

/// A connection whose end is no failure.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(addr)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self(BufReader::new(socket)))
    }

    /// Sends requests, and returns their replies.
    fn call_all(&mut self, requests: &[Vec<&str>]) -> io::Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| encode(&mut bytes, words));
        self.0.get_mut().write_all(&bytes)?;
        requests.iter().map(|_| read_reply(&mut self.0, &Limits::default())).collect()
    }

    fn call(&mut self, words: &[&str]) -> io::Result<Reply> {
        Ok(self.call_all(&[words.to_vec()])?.remove(0))
    }
}

/// A client, and what it knows of its databases.
struct Worker {
    number: usize,
    random: Rng,
    model: Model,
    /// The databases after the request that has no reply.
    under_way: Option<Model>,
    acknowledged: u64,
}

/// A fault, told.
type Outcome<T = ()> = Result<T, String>;

/// The databases after a request, and which of its commands are refused.
struct Expected {
    after: Model,
    refused: Vec<bool>,
}

impl Worker {
    fn new(number: usize, seed: u64) -> Self {
        let random = Rng::with_seed(seed ^ (number as u64 + 1) << 32);
        let model = Model { now: OVER, ..Model::default() };
        Self { number, random, model, under_way: None, acknowledged: 0 }
    }

    /// The number of one of its databases.
    fn database(&self, place: usize) -> usize {
        self.number * DATABASES + place
    }

    /// A command, with the numbers of its own databases.
    fn placed(&self, words: &[String]) -> Words {
        let places: &[usize] = match &words[0][..] {
            "COPY" => &[4],
            "MOVE" => &[2],
            "SWAPDB" => &[1, 2],
            _ => &[],
        };
        let mut words = words.to_vec();
        for &place in places {
            words[place] = self.database(words[place].parse().unwrap()).to_string();
        }
        words
    }

    /// The server's value for it; `None` if the server was killed meanwhile.
    fn found(&self, connection: &mut Connection) -> Outcome<Option<Model>> {
        let mut is_cut = false;
        let ask = &mut |words: &[&str]| {
            connection.call(words).map_err(|error| {
                is_cut = true;
                error.to_string()
            })
        };
        let found = everything(ask, [self.database(0), self.database(1)]);
        match found {
            Ok(found) => Ok(Some(Model { now: OVER, ..found })),
            Err(_) if is_cut => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Compares what is there with what is known; false if the server was killed meanwhile.
    fn compare(&mut self, connection: &mut Connection) -> Outcome<bool> {
        let Some(found) = self.found(connection)? else { return Ok(false) };
        if found != self.model && self.under_way.as_ref() != Some(&found) {
            let number = self.number;
            return Err(format!(
                "client {number} finds\n{found:?}\nand knows\n{:?}\nor\n{:?}",
                self.model, self.under_way
            ));
        }
        self.model = found;
        self.under_way = None;
        Ok(true)
    }

    /// Works until the server is no more.
    fn work(&mut self, addr: SocketAddr) -> Outcome {
        let Ok(mut connection) = Connection::open(addr) else { return Ok(()) };
        if !self.compare(&mut connection)? {
            return Ok(());
        }
        loop {
            let now = if self.random.percent(80) { FAR } else { 0 };
            let has_many = self.random.percent(10);
            let random = &mut self.random;
            let mut draw = Draw { random, pipelines: false, has_many, has_functions: false, now };
            if draw.percent(5) {
                let key = draw.key('l');
                let words = ["BLPOP".to_owned(), key, "0.01".to_owned()];
                let step = Step::Run { db: 0, commands: vec![words.to_vec()] };
                if !self.step(&mut connection, &step)? {
                    return Ok(());
                }
                continue;
            }
            let step = draw.step();
            if matches!(step, Step::Collect) {
                if !self.compare(&mut connection)? {
                    return Ok(());
                }
                continue;
            }
            if !self.step(&mut connection, &step)? {
                return Ok(());
            }
        }
    }

    /// Takes a step; false if the server was killed meanwhile.
    fn step(&mut self, connection: &mut Connection, step: &Step) -> Outcome<bool> {
        let (db, commands) = match step {
            Step::Run { db, commands }
            | Step::Multi { db, commands }
            | Step::Script { db, commands, .. } => (*db, commands),
            Step::Later(_) | Step::Reclaim | Step::Collect => return Ok(true),
        };
        let placed: Vec<Words> = commands.iter().map(|words| self.placed(words)).collect();
        let select = self.database(db).to_string();
        let text;
        let mut requests = vec![vec!["SELECT", &select[..]]];
        let mut after = self.model.clone();
        let refused: Vec<bool> = match step {
            Step::Script { fails, .. } => {
                text = script(&placed, *fails);
                requests.push(vec!["EVAL", &text[..], "0"]);
                vec![*fails || after.run_all(db, commands).is_err()]
            }
            Step::Multi { .. } => {
                requests.push(vec!["MULTI"]);
                requests.extend(placed.iter().map(|words| texts(words)));
                requests.push(vec!["EXEC"]);
                commands.iter().map(|words| after.run(db, words).is_err()).collect()
            }
            _ => {
                requests.extend(placed.iter().map(|words| texts(words)));
                commands.iter().map(|words| after.run(db, words).is_err()).collect()
            }
        };
        let expected = Expected { after, refused };
        self.under_way = Some(expected.after.clone());
        let Ok(mut replies) = connection.call_all(&requests) else { return Ok(false) };
        let replies = match (step, replies.pop()) {
            (Step::Multi { .. }, Some(Reply::Array(replies))) => replies,
            (_, Some(reply)) => vec![reply],
            (_, None) => Vec::new(),
        };
        let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
        let were_refused: Vec<_> = replies.iter().map(is_error).collect();
        if were_refused != expected.refused {
            let why = replies.iter().find(|reply| is_error(reply));
            return Err(format!("{step:?} is answered with {why:?}, by\n{:?}", self.model));
        }
        self.model = expected.after;
        self.under_way = None;
        self.acknowledged += 1;
        Ok(true)
    }
}

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Collections that are one record have so many elements at most, where settings are about numbers.
fn lower_limits(addr: SocketAddr) -> io::Result<()> {
    let mut connection = Connection::open(addr)?;
    for name in ["hash-max-listpack-entries", "set-max-listpack-entries", "set-max-intset-entries"]
    {
        connection.call(&["CONFIG", "SET", name, "6"])?;
    }
    connection.call(&["CONFIG", "SET", "zset-max-listpack-entries", "6"])?;
    connection.call(&["CONFIG", "SET", "list-max-listpack-size", "6"])?;
    Ok(())
}

/// Counts the elements of the collections that a killed server has left.
fn count_elements(folder: &Path, engine: &str) -> halite_server::Census {
    let db = Database::builder().engine(engine).max_size(256 << 20).open(folder).unwrap();
    let census = census(&db).unwrap();
    assert!(census.faults.is_empty(), "{census:?}");
    census
}

/// Lets go what was dropped, and checks that nothing of it is left.
fn reclaim_all(folder: &Path, engine: &str) {
    let db = Database::builder().engine(engine).max_size(256 << 20).open(folder).unwrap();
    let mut config = Config::default();
    config.databases = (CLIENTS * DATABASES) as u32;
    let mut server = InProcess::open(db.clone(), &config, 1).unwrap();
    while server.reclaim() {}
    server.settle().unwrap();
    let census = census(&db).unwrap();
    assert!(census.faults.is_empty() && census.dropped + census.leaving == 0, "{census:?}");
}

fn kill_again_and_again(test: &str, engine: &str) {
    if let Some(folder) = env::var_os(FOLDER) {
        return serve(Path::new(&folder));
    }
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("HALITE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("HALITE_TEST_SEED={seed}");
    let kills = number("HALITE_KILLS").unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("data");
    let mut random = Rng::with_seed(seed);
    let mut workers: Vec<_> = (0..CLIENTS).map(|number| Worker::new(number, seed)).collect();
    let (begin, mut elements, mut leaving) = (Instant::now(), 0, 0);
    for kill in 0..=kills {
        // The engine `lsm` keeps its partitions.
        let partitions = if engine == "lsm" { 2 } else { 1 + (kill as usize / 3) % 3 };
        let mut served = Served::start(test, &folder, engine, partitions, kill % 4 == 0);
        if kill > 0 && random.percent(10) {
            // Killed while it opens, and moves elements to other partitions.
            thread::sleep(Duration::from_millis(random.below(60)));
            continue;
        }
        let addr = served.addr();
        let ended: Vec<Outcome> = thread::scope(|scope| {
            lower_limits(addr).unwrap();
            let workers: Vec<_> =
                workers.iter_mut().map(|worker| scope.spawn(move || worker.work(addr))).collect();
            let life = Duration::from_millis(40 + random.below(260));
            let begin = Instant::now();
            while begin.elapsed() < life && !workers.iter().any(|worker| worker.is_finished()) {
                thread::sleep(Duration::from_millis(5));
            }
            drop(served);
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        if let Some(fault) = ended.into_iter().find_map(Result::err) {
            panic!("kill {kill}: {fault}");
        }
        let census = count_elements(&folder, engine);
        elements += census.elements;
        leaving += census.leaving;
    }
    let mut served = Served::start(test, &folder, engine, 2, false);
    let addr = served.addr();
    for worker in &mut workers {
        assert!(worker.compare(&mut Connection::open(addr).unwrap()).unwrap());
    }
    drop(served);
    reclaim_all(&folder, engine);
    let acknowledged: u64 = workers.iter().map(|worker| worker.acknowledged).sum();
    println!(
        "{engine}: {kills} kills, {acknowledged} acknowledged, {elements} elements and {leaving} leaving counted, {:?}",
        begin.elapsed()
    );
    assert!(acknowledged > 10 * kills, "the clients got nothing done: {acknowledged}");
}

#[test]
fn what_was_acknowledged_survives_kills_on_indexlog() {
    kill_again_and_again("what_was_acknowledged_survives_kills_on_indexlog", "indexlog");
}

#[test]
fn what_was_acknowledged_survives_kills_on_lsm() {
    kill_again_and_again("what_was_acknowledged_survives_kills_on_lsm", "lsm");
}

/// The most memory that a client takes which waits, in bytes.
const WAITING_BYTES_MAX: u64 = 24 << 10;

#[test]
fn ten_thousand_clients_wait_and_others_are_served() {
    if let Some(folder) = env::var_os(FOLDER) {
        return serve(Path::new(&folder));
    }
    raise_descriptor_limit(WAITING + 100);
    let folder = tempfile::tempdir().unwrap();
    let test = "ten_thousand_clients_wait_and_others_are_served";
    let mut served = Served::start(test, &folder.path().join("data"), "indexlog", 2, false);
    let addr = served.addr();
    let mut other = Connection::open(addr).unwrap();
    let before = served.memory();
    let blocked = |other: &mut Connection| {
        let Ok(Reply::Bulk(info)) = other.call(&["INFO", "clients"]) else { panic!("no INFO") };
        let info = String::from_utf8(info).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
        line.unwrap().trim().parse::<usize>().unwrap()
    };
    let await_blocked = |other: &mut Connection, count: usize| {
        for _ in 0..6_000 {
            if blocked(other) == count {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} clients wait, not {count}", blocked(other));
    };
    let mut waiting: Vec<_> = (0..WAITING)
        .map(|number| {
            let mut connection = Connection::open(addr).unwrap();
            let mut bytes = Vec::new();
            // Some wait for a key alone, and most together with others.
            let key = format!("queue:{}", if number < 100 { number } else { number % 10 });
            encode(&mut bytes, &["BLPOP", &key, "none", "0"]);
            connection.0.get_mut().write_all(&bytes).unwrap();
            connection
        })
        .collect();
    await_blocked(&mut other, WAITING);
    let taken = served.memory().saturating_sub(before) / WAITING as u64;
    assert!(taken < WAITING_BYTES_MAX, "a client that waits takes {taken} bytes");
    // Others are served meanwhile, and so is each of those that wait when it is its turn.
    assert_eq!(other.call(&["SET", "k", "v"]).unwrap(), Reply::Status("OK".to_owned()));
    let served_at = |number: usize, waiting: &mut Vec<Connection>| {
        let reply = read_reply(&mut waiting[number].0, &Limits::default()).unwrap();
        matches!(reply, Reply::Array(_))
    };
    for number in 50..100 {
        let key = format!("queue:{number}");
        assert_eq!(other.call(&["RPUSH", &key, "v"]).unwrap(), Reply::Integer(1));
        assert!(served_at(number, &mut waiting));
    }
    let words: Vec<_> = ["RPUSH", "queue:3"].into_iter().chain((0..500).map(|_| "v")).collect();
    assert_eq!(other.call(&words).unwrap(), Reply::Integer(500));
    await_blocked(&mut other, WAITING - 550);
    assert!(served_at(3, &mut waiting) && served_at(103, &mut waiting));
    // One key that nobody pushes to is waited for by all.
    assert_eq!(other.call(&["EXISTS", "queue:3", "none"]).unwrap(), Reply::Integer(0));
    drop(waiting);
    await_blocked(&mut other, 0);
    assert_eq!(other.call(&["GET", "k"]).unwrap(), Reply::Bulk(b"v".to_vec()));
}
