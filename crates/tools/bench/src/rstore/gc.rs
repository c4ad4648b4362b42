//! Collection (Fig. 5.9): a store whose space is limited and filled, under updates alone.
//!
//! Halite's pool is filled to 30 % and measured, then to 70, 80 and 90 %, where its write amplification is measured,
//! and at 90 % it is measured again. The loss in throughput and the growth of the tail between 30 and 90 % are the cost
//! of collection. RocksDB holds the same records at the same time; its space is not limited. At each fill updates come
//! before the measurement, so that the mixture of live and dead records is the steady one.

use super::fleet::{Fleet, KEY_LEN, measure, with};
use super::load::{Operations, Pace, Workload, drive, insert};
use super::server::{Launch, Server, Subject};
use super::{greedy, median, push};
use crate::kv::Distribution;
use crate::{Contender, Error, LIMIT, Params, Result, Run, Sample};

const NAME: &str = "rstore.gc";
const TAIL: &str = "rstore.gc-tail";
const AMPLIFICATION: &str = "rstore.gc-amplification";
const COST: &str = "rstore.gc-cost";

const POOL_BYTES: u64 = 1 << 30;
const POOL_BYTES_QUICK: u64 = 64 << 20;

const VALUE_LEN: usize = 100;

/// One request at a time, where the network takes most of an update, and sixteen, where the store does: the cost of
/// collection shows there.
const PIPELINES: [usize; 2] = [1, PIPELINE];

const PIPELINE: usize = 16;

/// The fill, in percent, of a store that hardly collects, and that of a full one.
const BEFORE: u64 = 30;
const AFTER: u64 = 90;

const FILLS: [u64; 3] = [70, 80, AFTER];

const DISTRIBUTIONS: [Distribution; 2] = [Distribution::Uniform, Distribution::Zipfian];

/// By how much the throughput drops, in percent (Fig. 5.9b).
const DROPS: [(&str, f64); 2] = [("halite", 7.0), ("rocksdb", 38.0)];

/// Updates of each record before a store with limited space is measured, also in a quick run: the log
/// goes through all of its space several times. Half of them, rounded down, suffice for others.
const ROUNDS: [u64; 2] = [3, 1];

const LINE: f64 = 64.0;

fn subjects(fleet: &Fleet) -> Vec<&Subject> {
    fleet.subjects.iter().filter(|subject| subject.is_store()).collect()
}

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    let servers = subjects(fleet).len() as u64;
    let of_a_fill = (PIPELINES.len() + 1) * DISTRIBUTIONS.len();
    let comparisons = 2 * of_a_fill as u64 * servers;
    (comparisons + FILLS.len() as u64 * (servers + 1)) * u64::from(run.options.repeats)
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let small = if run.options.quick { POOL_BYTES_QUICK } else { POOL_BYTES };
    let pool_bytes = fleet.options.pool_bytes.unwrap_or(small);
    let launch =
        Launch { size_max: Some(pool_bytes), data_bytes: pool_bytes, ..fleet.launch(0, 0) };
    let (folder, interrupted) = (run.options.folder.clone(), run.interrupted());
    let servers = subjects(fleet)
        .into_iter()
        .map(|subject| Server::start(subject, &launch, &folder, interrupted))
        .collect::<Result<Vec<_>>>()?;
    // The others hold as many records as fill the pool.
    let Some(limited) = servers.iter().find(|server| server.subject.has_limit()) else {
        eprintln!("bench: {NAME} is left out: it needs halite, whose space is limited");
        return Ok(());
    };
    let mut test = Test { fleet, servers: &servers, limited, pool_bytes, records: 0 };
    test.fill(BEFORE, run)?;
    test.compare(BEFORE, run)?;
    for fill in FILLS {
        test.fill(fill, run)?;
        test.amplification(fill, run)?;
    }
    test.compare(AFTER, run)?;
    test.costs(run);
    Ok(())
}

/// The servers and their records.
struct Test<'a> {
    fleet: &'a Fleet,
    servers: &'a [Server],
    limited: &'a Server,
    pool_bytes: u64,
    records: u64,
}

impl Test<'_> {
    fn params(&self, fill: u64) -> Params {
        let params = with(&self.fleet.params(self.records, VALUE_LEN), "fill", fill);
        with(&params, "pool-bytes", self.pool_bytes)
    }

    fn updates(&self, distribution: Distribution, run: &Run<'_>) -> Result<Workload> {
        let mix = "update=100".parse()?;
        let operations = Operations::Mix { mix, distribution };
        let (records, seed) = (self.records, run.options.seed);
        Ok(Workload { records, value_len: VALUE_LEN, operations, seed })
    }

    /// Inserts records into all servers until so many percent of the pool are live, and updates them.
    fn fill(&mut self, percent: u64, run: &mut Run<'_>) -> Result<()> {
        run.step(&format!("{NAME}: the pool is filled to {percent} %"))?;
        // The first records tell how much space one takes; then there are more to tell it well.
        for part in [0.01, 0.5, 1.0] {
            self.insert(percent, part, run)?;
        }
        self.update(percent, run)?;
        // A store that was updated may take other space for the same records.
        self.insert(percent, 1.0, run)
    }

    /// Inserts a part of the records that are missing.
    fn insert(&mut self, percent: u64, part: f64, run: &Run<'_>) -> Result<()> {
        let (live, all) = self.space()?;
        let record = if self.records == 0 {
            (KEY_LEN + VALUE_LEN as u64) as f64 * 1.5
        } else {
            live / self.records as f64
        };
        let wanted = all * percent as f64 / 100.0 / record;
        let from = self.records;
        self.records += ((wanted - from as f64) * part).max(0.0) as u64;
        let (workload, clients) =
            (self.updates(Distribution::Uniform, run)?, self.fleet.clients(1));
        for server in self.servers {
            insert(&server.target, &workload, from, clients, run.interrupted())?;
        }
        Ok(())
    }

    /// Makes enough updates for the numbers of live records in blocks to become steady.
    fn update(&self, percent: u64, run: &mut Run<'_>) -> Result<()> {
        let workload = self.updates(Distribution::Uniform, run)?;
        let clients = self.fleet.clients(PIPELINE);
        for server in self.servers {
            run.step(&format!("{NAME}: {} is filled to {percent} %", server.subject.name()))?;
            let rounds = ROUNDS[usize::from(run.options.quick)];
            let rounds = if server.subject.has_limit() { rounds } else { rounds / 2 };
            let pace = Pace::Operations(rounds * self.records);
            drive(&server.target, &workload, clients, pace, run.interrupted())?;
        }
        Ok(())
    }

    /// Bytes of the pool that hold live records, and all of them.
    fn space(&self) -> Result<(f64, f64)> {
        let info = self.limited.info()?;
        match (info.get("live_bytes"), info.get("pool_bytes_max")) {
            (Some(live), Some(all)) => Ok((*live, *all)),
            _ => Err(Error::Server {
                server: self.limited.subject.name().to_owned(),
                why: "its INFO has no live_bytes and pool_bytes_max to fill it by".to_owned(),
            }),
        }
    }

    /// Throughput as fast as it goes, and latency at a rate that all can easily sustain.
    fn compare(&self, fill: u64, run: &mut Run<'_>) -> Result<()> {
        let time = self.fleet.options.time(&run.options);
        let interrupted = run.interrupted();
        for distribution in DISTRIBUTIONS {
            let workload = &self.updates(distribution, run)?;
            let params = with(&self.params(fill), "distribution", distribution.to_string());
            for pipeline in PIPELINES {
                let clients = self.fleet.clients(pipeline);
                let mut contenders = self.fleet.contenders(self.servers, move |server| {
                    measure(server, workload, clients, Pace::Closed(time), interrupted)
                });
                run.compare(NAME, &with(&params, "pipeline", pipeline), &mut contenders)?;
            }
            let (rate, clients) = (self.fleet.options.rate, self.fleet.clients(1));
            let mut contenders = self.fleet.contenders(self.servers, move |server| {
                measure(server, workload, clients, Pace::Open { rate, time }, interrupted)
            });
            run.compare(TAIL, &with(&params, "rate", rate), &mut contenders)?;
        }
        Ok(())
    }

    /// The bytes written for each byte that clients write, under uniform updates.
    fn amplification(&self, fill: u64, run: &mut Run<'_>) -> Result<()> {
        let time = self.fleet.options.time(&run.options);
        let workload = self.updates(Distribution::Uniform, run)?;
        let (workload, interrupted) = (&workload, run.interrupted());
        let clients = self.fleet.clients(PIPELINE);
        let mut contenders = self.fleet.contenders(self.servers, move |server| {
            let (before, written_before) = (server.info()?, server.written_bytes());
            let driven = drive(&server.target, workload, clients, Pace::Closed(time), interrupted)?;
            let (after, written) = (server.info()?, server.written_bytes() - written_before);
            let updates = driven.all_operations.max(1) as f64;
            let user_bytes = updates * (KEY_LEN as f64 + VALUE_LEN as f64);
            let grown = |name: &str| Some(after.get(name)? - before.get(name)?);
            let written = grown("traffic_lines").map_or(written as f64, |lines| lines * LINE);
            let mut samples = vec![Sample::new("write-amplification", "x", written / user_bytes)];
            let counted = || {
                let record = after.get("live_bytes")? / after.get("records")?.max(1.0);
                Some((grown("collected_bytes_moved")?, updates * record, after.get("live_bytes")?))
            };
            if let Some((moved, appended, live)) = counted() {
                samples.push(Sample::new("collection-amplification", "x", 1.0 + moved / appended));
                let all = after.get("pool_bytes_max").copied().unwrap_or(f64::NAN);
                samples.push(Sample::new("live", "%", 100.0 * live / all));
            }
            Ok(samples)
        });
        contenders.push(Contender::new(LIMIT, move || {
            let optimum = greedy::write_amplification(fill as f64 / 100.0);
            Ok(vec![Sample::new("collection-amplification", "x", optimum)])
        }));
        run.compare(AMPLIFICATION, &self.params(fill), &mut contenders)
    }

    /// The loss of a full store, in throughput and in its tail.
    fn costs(&self, run: &mut Run<'_>) {
        for distribution in DISTRIBUTIONS {
            for server in self.servers {
                let name = server.subject.name();
                let at = |of: &Params, experiment: &str, metric: &str, fill: u64| {
                    let mut params = of.clone();
                    params.insert("fill".to_owned(), fill.into());
                    params.insert("distribution".to_owned(), distribution.to_string().into());
                    median(run, experiment, name, metric, &params)
                };
                let pair = |of: &Params, experiment: &str, metric: &str| {
                    Some((at(of, experiment, metric, BEFORE)?, at(of, experiment, metric, AFTER)?))
                };
                let mut costs = Vec::new();
                for pipeline in PIPELINES {
                    let of = with(&Params::new(), "pipeline", pipeline);
                    let drop = pair(&of, NAME, "throughput").map(|(before, after)| {
                        Sample::new("throughput-drop", "%", 100.0 * (1.0 - after / before))
                    });
                    let source = DROPS.iter().find(|(subject, _)| *subject == name);
                    costs.push((of, drop, source.map(|(_, drop)| *drop)));
                }
                let of = Params::new();
                let growth = pair(&of, TAIL, "put-p99.9")
                    .map(|(before, after)| Sample::new("tail-growth", "x", after / before));
                costs.push((of, growth, None));
                for (of, sample, source) in costs {
                    let Some(sample) = sample else { continue };
                    let mut params = self.fleet.own_params(server);
                    params.insert("pool-bytes".to_owned(), self.pool_bytes.into());
                    params.insert("distribution".to_owned(), distribution.to_string().into());
                    params.extend(of);
                    push(run, COST, name, &params, &sample, source);
                }
            }
        }
    }
}
