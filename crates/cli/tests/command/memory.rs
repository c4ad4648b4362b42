//! The memory of a server: it accounts for all that it takes, and gives back the memory of large values.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use halite_resp_client::Reply;
use rustix::process::Signal;

use crate::run::Home;
use crate::served::Served;

/// Bytes of a large value: more than the allocator keeps of freed memory.
const VALUE: u64 = 40 << 20;

/// Memory of a process that no number accounts for: code, stacks, buffers of files, freed memory that the allocator
/// keeps.
const UNACCOUNTED_MAX: u64 = 48 << 20;

/// How long a server may take until it has given memory back.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that `/proc` tells of a process under a name.
fn bytes_of(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kib: u64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

struct Client<'a> {
    served: &'a Served,
    connection: halite_resp_client::Client,
}

impl Client<'_> {
    fn expect(&mut self, words: &[&[u8]], reply: Reply) {
        assert_eq!(self.connection.call(words).unwrap(), reply);
    }

    fn get(&mut self, key: &[u8]) -> Vec<u8> {
        match self.connection.call(&[b"GET", key]).unwrap() {
            Reply::Bulk(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// A number of `INFO`.
    fn info(&mut self, name: &str) -> u64 {
        let reply = self.connection.call(&[b"INFO"]).unwrap();
        let Reply::Bulk(text) = reply else { panic!("{reply:?}") };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }

    /// Waits until the accounts agree with the process's memory, and have no more than `used_max` beside the program's; returns both.
    fn wait_until_accounted(&mut self, used_max: u64) -> (u64, u64) {
        let began = Instant::now();
        loop {
            let (used, program) = (self.info("used_memory"), self.info("used_memory_program"));
            let resident = bytes_of(self.served.process.id(), "VmRSS");
            if used.abs_diff(resident) <= UNACCOUNTED_MAX && used - program <= used_max {
                return (used, resident);
            }
            let told = format!(
                "{used} bytes are used, of {used_max} and the program's {program}, and {resident} resident"
            );
            assert!(began.elapsed() < PATIENCE, "{told}");
            sleep(Duration::from_millis(100));
        }
    }
}

/// Large values that are set over and over, read and removed: `values_at_once` of them may be in memory besides the
/// pool, and `kept` bytes be used in the end.
fn check(home: &Home, args: &[&str], values_at_once: f64, kept: u64) {
    let args = [&["serve", "--port", "0", "--threads", "1"], args].concat();
    let served = Served::spawn(home.command(&args).stderr(Stdio::piped()).spawn().unwrap());
    let mut client = Client { served: &served, connection: served.client() };
    let value: Vec<u8> = (0..VALUE).map(|at| (at * 31 + at / 251) as u8).collect();
    for number in 0..8 {
        let key: &[u8] = [&b"one"[..], b"two"][number % 2];
        client.expect(&[b"SET", key, &value], Reply::Status("OK".to_owned()));
    }
    assert!(client.get(b"two") == value, "{args:?}");
    client.wait_until_accounted(u64::MAX);
    let pool = client.info("used_memory_pool");
    client.expect(&[b"DEL", b"one", b"two"], Reply::Integer(2));
    let (used, resident) = client.wait_until_accounted(kept + UNACCOUNTED_MAX / 2);
    let peak = bytes_of(served.process.id(), "VmHWM");
    println!("{args:?}: peak {peak}, pool {pool}, used {used}, resident {resident}");
    let peak_max = pool + (VALUE as f64 * values_at_once) as u64 + UNACCOUNTED_MAX;
    assert!(peak <= peak_max, "{args:?}: {peak} bytes at once, of {peak_max}");
    drop(client);
    assert_eq!(served.end(Signal::TERM).0, Some(0));
}

/// The request, and the reply beside the value that was read for it.
const AT_ONCE: f64 = 2.2;

#[test]
fn large_values_of_an_lsm_with_a_log_take_memory_only_while_they_are_on_their_way() {
    check(&Home::new(), &["data", "--engine", "lsm"], AT_ONCE, 0);
}

#[test]
fn large_values_of_an_lsm_in_persistent_memory_lie_beside_it() {
    check(&Home::in_memory(), &["data", "--engine", "lsm"], AT_ONCE, 0);
}

#[test]
fn large_values_of_an_lsm_in_memory_lie_there_once_and_go() {
    let args = ["--engine", "lsm", "--in-memory", "2GiB"];
    // The values of both keys, and one that replaces another.
    check(&Home::new(), &args, AT_ONCE + 2.0, 0);
}

#[test]
fn large_values_of_an_indexlog_take_the_pool_and_that_is_accounted_for() {
    for args in [&["data"][..], &["--in-memory", "2GiB"]] {
        // The pool keeps its length.
        check(&Home::in_memory(), args, AT_ONCE, 4 * VALUE);
    }
}
