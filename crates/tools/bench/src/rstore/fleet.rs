//! The servers that take part, started and loaded together.

use std::sync::atomic::AtomicBool;

use serde_json::json;

use super::load::{Clients, Operations, Pace, Workload, drive, insert};
use super::server::{Launch, NAMES, Server, Subject, find};
use super::{RstoreOptions, push};
use crate::kv::Mix;
use crate::{Contender, Error, Params, Result, Run, Sample, Scratch};

/// Bytes of a key: `user` and 20 digits.
pub(super) const KEY_LEN: u64 = 24;

/// The mixes of Lersch (§5.8.4), by name.
pub(super) const MIXES: [(&str, &str); 3] = [
    ("read-heavy", "read=90,update=10"),
    ("balanced", "read=50,update=50"),
    ("write-heavy", "read=10,update=90"),
];

/// Bytes of a pool that detects the folder's domain.
const PROBE_BYTES: u64 = 1 << 20;

/// The folder's space for each byte of keys and values: a store, and room for its copies.
const SPACE_FACTOR: u64 = 3;

/// Counters of `INFO`, and their names in rows, per operation.
const COUNTERS: [(&str, &str); 5] = [
    ("traffic_fences", "fences"),
    ("traffic_lines", "lines"),
    ("messages_sent", "messages"),
    ("requests_forwarded", "forwarded"),
    ("total_syncs", "syncs"),
];

/// The servers that are there, and the options of the run.
pub(super) struct Fleet {
    pub(super) options: RstoreOptions,
    pub(super) subjects: Vec<Subject>,
}

impl Fleet {
    /// Looks for the servers' programs. Adds a row for each with its version and durability, or why it is left out.
    pub(super) fn find(options: &RstoreOptions, run: &mut Run<'_>) -> Result<Self> {
        let domain = Scratch::new(&run.options, PROBE_BYTES)?.pool().domain();
        let asked = |name: &str| options.subjects.iter().any(|asked| asked == name);
        let mut subjects = Vec::new();
        for name in NAMES {
            if !options.subjects.is_empty() && !asked(name) {
                continue;
            }
            let mut params = Params::new();
            let found = find(name, options, domain);
            let is_there = found.is_ok();
            match found {
                Ok(subject) => {
                    params.insert("version".to_owned(), json!(subject.version));
                    params.insert("durability".to_owned(), json!(subject.durability));
                    subjects.push(subject);
                }
                // A server that the user named must be there.
                Err(absent) if asked(name) => {
                    return Err(Error::Server { server: name.to_owned(), why: absent.why });
                }
                Err(absent) => {
                    eprintln!("bench: {} is left out: {}", absent.name, absent.why);
                    params.insert("left-out".to_owned(), json!(absent.why));
                }
            }
            let measured = Sample::new("measured", "bool", f64::from(u8::from(is_there)));
            push(run, "rstore.subject", name, &params, &measured, None);
        }
        Ok(Self { options: options.clone(), subjects })
    }

    /// Measurements of one comparison of all servers.
    pub(super) fn turns(&self, run: &Run<'_>) -> u64 {
        self.subjects.len() as u64 * u64::from(run.options.repeats)
    }

    /// How a server is started that is to hold so many records.
    pub(super) fn launch(&self, records: u64, value_len: usize) -> Launch {
        let data_bytes = records.saturating_mul(KEY_LEN + value_len as u64);
        Launch {
            threads: self.options.server_threads,
            size_max: None,
            data_bytes,
            index: None,
            engine: None,
            topology: None,
        }
    }

    pub(super) fn clients(&self, pipeline: usize) -> Clients {
        let (threads, connections) = (self.options.client_threads, self.options.connections);
        Clients { threads, connections, pipeline }
    }

    /// Starts servers and loads each with so many records.
    pub(super) fn start(
        &self,
        subjects: &[&Subject],
        workload: &Workload,
        experiment: &str,
        run: &mut Run<'_>,
    ) -> Result<Vec<Server>> {
        let (records, value_len) = (workload.records, workload.value_len);
        let launch = self.launch(records, value_len);
        let needed = launch.data_bytes.saturating_mul(SPACE_FACTOR * subjects.len() as u64);
        RstoreOptions::check_space(&run.options.folder, needed)?;
        let mut servers = Vec::new();
        for subject in subjects {
            run.step(&format!("{} is started and loaded with {records} records", subject.name()))?;
            let folder = run.options.folder.clone();
            let server = Server::start(subject, &launch, &folder, run.interrupted())?;
            let loaded = insert(&server.target, workload, 0, self.clients(1), run.interrupted())?;
            let mut params = with(&self.params(records, value_len), "before", experiment);
            params.extend(self.own_params(&server));
            let throughput = Sample::new("throughput", "op/s", loaded.throughput());
            push(run, "rstore.load", subject.name(), &params, &throughput, None);
            servers.push(server);
        }
        Ok(servers)
    }

    /// All servers.
    pub(super) fn all(&self) -> Vec<&Subject> {
        self.subjects.iter().collect()
    }

    /// The parameters that all comparisons have.
    pub(super) fn params(&self, records: u64, value_len: usize) -> Params {
        let mut params = Params::new();
        params.insert("records".to_owned(), json!(records));
        params.insert("key-len".to_owned(), json!(KEY_LEN));
        params.insert("value-len".to_owned(), json!(value_len));
        params.insert("connections".to_owned(), json!(self.options.connections));
        params.insert("client-threads".to_owned(), json!(self.options.client_threads));
        params
    }

    /// The parameters of a server's rows alone.
    pub(super) fn own_params(&self, server: &Server) -> Params {
        let mut params = Params::new();
        params.insert("server-threads".to_owned(), json!(server.threads()));
        params.insert("durability".to_owned(), json!(server.subject.durability));
        params
    }

    /// The servers as contenders: each is measured by `measure`.
    pub(super) fn contenders<'a>(
        &self,
        servers: &'a [Server],
        measure: impl Fn(&Server) -> Result<Vec<Sample>> + Copy + 'a,
    ) -> Vec<Contender<'a>> {
        let contender = |server: &'a Server| {
            let mut contender = Contender::new(server.subject.name(), move || measure(server));
            contender.params = self.own_params(server);
            contender
        };
        servers.iter().map(contender).collect()
    }

    /// A workload of reads and updates.
    pub(super) fn mixed(
        &self,
        records: u64,
        value_len: usize,
        mix: &str,
        seed: u64,
    ) -> Result<Workload> {
        let mix: Mix = mix.parse()?;
        let operations = Operations::Mix { mix, distribution: self.options.distribution };
        Ok(Workload { records, value_len, operations, seed })
    }
}

/// Drives a server for a while, and returns its resources and those of the load generator.
pub(super) fn measure(
    server: &Server,
    workload: &Workload,
    clients: Clients,
    pace: Pace,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    server.tidy(interrupted)?;
    let (before, cpu_before, begin) = (server.info()?, server.cpu(), std::time::Instant::now());
    let measured = drive(&server.target, workload, clients, pace, interrupted)?;
    let (cpu, elapsed) = (server.cpu() - cpu_before, begin.elapsed());
    let after = server.info()?;
    server.tidy(interrupted)?;
    let mut samples = measured.samples();
    let busy = 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64();
    samples.push(Sample::new("server-busy", "%", busy));
    // The counters include the warm-up.
    let operations = measured.all_operations.max(1) as f64;
    for (counter, metric) in COUNTERS {
        if let (Some(before), Some(after)) = (before.get(counter), after.get(counter)) {
            samples.push(Sample::new(metric, "1/op", (after - before) / operations));
        }
    }
    Ok(samples)
}

/// A parameter more.
pub(super) fn with(params: &Params, name: &str, value: impl Into<serde_json::Value>) -> Params {
    let mut params = params.clone();
    params.insert(name.to_owned(), value.into());
    params
}
