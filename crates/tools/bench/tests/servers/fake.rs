//! A server that keeps records in memory, speaks both protocols, and misbehaves on demand.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The first put of all but a few takes long, and all wait for it.
    Stalls,
    IsFull,
    LosesRecords,
    CutsValues,
    MixesRecords,
    SendsGarbage,
    AnswersTwice,
    Hangs,
    /// Nothing is there after a restart.
    Forgets,
}

/// The requests that all servers of this process got.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) gets: u64,
    pub(crate) puts: u64,
    pub(crate) keys_of_another_form: u64,
    pub(crate) values_of_another_length: u64,
}

static GETS: AtomicU64 = AtomicU64::new(0);
static PUTS: AtomicU64 = AtomicU64::new(0);
static KEYS: AtomicU64 = AtomicU64::new(0);
static VALUES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn counted() -> Counted {
    Counted {
        gets: GETS.load(Relaxed),
        puts: PUTS.load(Relaxed),
        keys_of_another_form: KEYS.load(Relaxed),
        values_of_another_length: VALUES.load(Relaxed),
    }
}

struct Store {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    file: Option<File>,
    operations: u64,
}

/// `FAULT serve FOLDER --port PORT`, as `halite` is started.
pub(crate) fn program(before: &[String], after: &[String]) {
    if after.iter().any(|argument| argument == "--help") {
        println!("--port PORT --threads N");
        return;
    }
    let fault = match before[0].as_str() {
        "ends" => {
            eprintln!("no luck today");
            std::process::exit(3);
        }
        "forgets" => Some(Fault::Forgets),
        _ => None,
    };
    let place = after.iter().position(|argument| argument == "--port").unwrap();
    let listener = TcpListener::bind(format!("127.0.0.1:{}", after[place + 1])).unwrap();
    serve(&listener, fault, Some(Path::new(&after[0])));
}

pub(crate) fn serve(listener: &TcpListener, fault: Option<Fault>, path: Option<&Path>) {
    let mut map = BTreeMap::new();
    let file = path.map(|path| {
        let text = std::fs::read(path).unwrap_or_default();
        if fault != Some(Fault::Forgets) {
            // Keys of 24 bytes, and the length of a value behind each.
            let mut rest = &text[..];
            while rest.len() >= 28 {
                let len = u32::from_le_bytes(rest[24..28].try_into().unwrap()) as usize;
                map.insert(rest[..24].to_vec(), rest[28..28 + len].to_vec());
                rest = &rest[28 + len..];
            }
        }
        OpenOptions::new().append(true).create(true).open(path).unwrap()
    });
    let store = Arc::new(Mutex::new(Store { map, file, operations: 0 }));
    for stream in listener.incoming() {
        let store = Arc::clone(&store);
        // A client that goes away ends its thread.
        std::thread::spawn(move || stream.and_then(|stream| converse(stream, &store, fault)));
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn body(reader: &mut BufReader<TcpStream>, len: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; len + 2];
    reader.read_exact(&mut body)?;
    body.truncate(len);
    Ok(body)
}

fn converse(stream: TcpStream, store: &Mutex<Store>, fault: Option<Fault>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let first = line(&mut reader)?;
        let mut reply = Vec::new();
        match first.strip_prefix('*') {
            Some(count) => {
                let mut words = Vec::new();
                for _ in 0..count.parse::<usize>().map_err(io::Error::other)? {
                    let len = line(&mut reader)?[1..].parse().map_err(io::Error::other)?;
                    words.push(body(&mut reader, len)?);
                }
                resp(&words, store, fault, &mut reply)?;
            }
            None => {
                let words: Vec<&str> = first.split(' ').collect();
                match words[0] {
                    "set" => {
                        let len = words[4].parse().map_err(io::Error::other)?;
                        let value = body(&mut reader, len)?;
                        match put(store, fault, words[1].as_bytes(), &value) {
                            true => reply.extend(b"STORED\r\n"),
                            false => reply.extend(b"SERVER_ERROR no room\r\n"),
                        }
                    }
                    "get" => {
                        if let Some(value) = get(store, fault, words[1].as_bytes()) {
                            let head = format!("VALUE {} 0 {}\r\n", words[1], value.len());
                            reply.extend([head.as_bytes(), &value, b"\r\n"].concat());
                        }
                        reply.extend(b"END\r\n");
                    }
                    _ => reply.extend(b"ERROR\r\n"),
                }
            }
        }
        out.write_all(&reply)?;
    }
}

fn resp(
    words: &[Vec<u8>],
    store: &Mutex<Store>,
    fault: Option<Fault>,
    reply: &mut Vec<u8>,
) -> io::Result<()> {
    let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    match words[0].as_slice() {
        b"SET" => match put(store, fault, &words[1], &words[2]) {
            _ if fault == Some(Fault::SendsGarbage) => reply.extend(b"hm\r\n"),
            _ if fault == Some(Fault::Hangs) => return Err(io::ErrorKind::Other.into()),
            true if fault == Some(Fault::AnswersTwice) => reply.extend(b"+OK\r\n+OK\r\n"),
            true => reply.extend(b"+OK\r\n"),
            false => reply.extend(b"-OOM no room\r\n"),
        },
        b"GET" => match get(store, fault, &words[1]) {
            Some(value) => reply.extend(bulk(&value)),
            None => reply.extend(b"$-1\r\n"),
        },
        b"SCAN" => {
            let number = |word: &[u8]| String::from_utf8_lossy(word).parse().unwrap_or(0_usize);
            let (start, count) = (number(&words[1]), number(&words[3]));
            let map = &store.lock().unwrap().map;
            let keys: Vec<_> = map.keys().skip(start).take(count).collect();
            let next = if start + count < map.len() { start + count } else { 0 };
            reply.extend(b"*2\r\n");
            reply.extend(bulk(next.to_string().as_bytes()));
            reply.extend(format!("*{}\r\n", keys.len()).as_bytes());
            keys.iter().for_each(|key| reply.extend(bulk(key)));
        }
        b"DBSIZE" => reply.extend(format!(":{}\r\n", store.lock().unwrap().map.len()).as_bytes()),
        b"INFO" => {
            let store = store.lock().unwrap();
            let live: usize = store.map.iter().map(|(key, value)| key.len() + value.len()).sum();
            let lines = [
                ("live_bytes", live as u64),
                // The pool is so small that a few records fill it.
                ("pool_bytes_max", 1 << 18),
                ("records", store.map.len() as u64),
                ("collected_bytes_moved", 10 * store.operations),
                ("traffic_lines", 3 * store.operations),
                ("traffic_fences", store.operations),
            ];
            let text: String =
                lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
            reply.extend(bulk(format!("# Halite\r\n{text}").as_bytes()));
        }
        _ => reply.extend(b"+PONG\r\n"),
    }
    Ok(())
}

fn put(store: &Mutex<Store>, fault: Option<Fault>, key: &[u8], value: &[u8]) -> bool {
    PUTS.fetch_add(1, Relaxed);
    let digits = key
        .strip_prefix(b"user")
        .is_some_and(|digits| digits.len() == 20 && digits.iter().all(u8::is_ascii_digit));
    KEYS.fetch_add(u64::from(!digits), Relaxed);
    VALUES.fetch_add(u64::from(value.len() != 100 && value.len() != 1000), Relaxed);
    let mut store = store.lock().unwrap();
    store.operations += 1;
    if fault == Some(Fault::Stalls) && store.operations == 300 {
        std::thread::sleep(Duration::from_millis(400));
    }
    if fault == Some(Fault::IsFull) && store.operations > 300 {
        return false;
    }
    if let Some(file) = &mut store.file {
        let len = (value.len() as u32).to_le_bytes();
        file.write_all(&[key, &len, value].concat()).unwrap();
    }
    store.map.insert(key.to_vec(), value.to_vec());
    true
}

fn get(store: &Mutex<Store>, fault: Option<Fault>, key: &[u8]) -> Option<Vec<u8>> {
    GETS.fetch_add(1, Relaxed);
    let store = store.lock().unwrap();
    if fault == Some(Fault::LosesRecords) && key[23] == b'7' {
        return None;
    }
    let mut value = match fault {
        Some(Fault::MixesRecords) => store.map.values().next()?.clone(),
        _ => store.map.get(key)?.clone(),
    };
    if fault == Some(Fault::CutsValues) {
        value.pop();
    }
    Some(value)
}
