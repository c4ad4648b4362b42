//! The targets of the experiments: ratios that a run is to reach, and whether it has.
//!
//! ```text
//!  of       rows of one subject, metric and some parameters
//!  against  rows of another one; a limit; a number
//!  ratio    of / against, of rows whose other parameters are alike
//! ```
//!
//! `betree.targets` has a row for each target of which both sides were measured, by medium: `ratio`, the geometric mean
//! of the ratios, with the least and the largest beside it, and `met`, 1 or 0. A ratio to a number has to hold in each
//! row, so there the worst one is the value. Of several rows on the other side, as of all sizes of nodes, the largest
//! counts. Bytes written are compared of stores that took as many records, as a tree writes more the fuller it is. Targets
//! are those of full sizes: a quick run says little about them.

use serde_json::{Value, json};

use super::setting::{BETREE, LSM};
use crate::Run;
use crate::row::{Params, Row};

pub(super) const NAME: &str = "betree.targets";

const MS: f64 = 1e6;

/// Rows of one subject and metric.
#[derive(Clone, Copy)]
struct Side {
    subject: &'static str,
    metric: &'static str,
    /// Parameters that they have.
    with: &'static [(&'static str, Is)],
}

/// The value of a parameter.
#[derive(Clone, Copy)]
enum Is {
    Number(u64),
    Text(&'static str),
}

#[derive(Clone, Copy)]
enum Against {
    Side(Side),
    /// The limit of each row.
    Limit,
    Number(f64),
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

struct Target {
    name: &'static str,
    experiment: &'static str,
    /// The medium that it is about; `None`: each.
    medium: Option<&'static str>,
    of: Side,
    against: Against,
    bound: Bound,
}

const fn side(
    subject: &'static str,
    metric: &'static str,
    with: &'static [(&'static str, Is)],
) -> Side {
    Side { subject, metric, with }
}

/// A metric of the engine without parameters of its own.
const fn own(metric: &'static str) -> Side {
    side(BETREE, metric, &[])
}

const fn target(
    (name, experiment): (&'static str, &'static str),
    medium: Option<&'static str>,
    of: Side,
    against: Against,
    bound: Bound,
) -> Target {
    Target { name, experiment, medium, of, against, bound }
}

use Against::{Limit, Number};
use Bound::{AtLeast, AtMost};

const PMEM: Option<&str> = Some("pmem");
const DISK: Option<&str> = Some("disk");

const BUFFER_64: &[(&str, Is)] = &[("buffer", Is::Number(64))];
const BUFFER_4K: &[(&str, Is)] = &[("buffer", Is::Number(4 << 10))];
const BUFFER_32M: &[(&str, Is)] = &[("buffer", Is::Number(32 << 20))];
const BLOCK_4K: &[(&str, Is)] = &[("block", Is::Number(4 << 10))];
const NODES_4M: &[(&str, Is)] = &[("buffer", Is::Number(4 << 20)), ("leaf", Is::Number(4 << 20))];
const INSERT: &[(&str, Is)] = &[("op", Is::Text("insert"))];
const YCSB_A: &[(&str, Is)] = &[("op", Is::Text("ycsb-a"))];
const YCSB_F: &[(&str, Is)] = &[("op", Is::Text("ycsb-f"))];
const ONE_RECORD: &[(&str, Is)] = &[("batch", Is::Number(1)), ("threads", Is::Number(1))];
const ONE_WORKER: &[(&str, Is)] = &[("workers", Is::Number(1))];
const TWO_WORKERS: &[(&str, Is)] = &[("workers", Is::Number(2))];
const SMALL_CACHE: &[(&str, Is)] = &[("cache", Is::Number(8 << 20))];
const LARGE_CACHE: &[(&str, Is)] = &[("cache", Is::Number(256 << 20))];

/// The throughput of a peer.
const fn peer(name: &'static str) -> Against {
    Against::Side(side(name, "throughput", &[]))
}

/// A ratio of buffers in place to those that are written whole.
const fn in_place(
    name: &'static str,
    metric: &'static str,
    with: &'static [(&'static str, Is)],
    bound: Bound,
) -> Target {
    let whole = Against::Side(side("copy-on-write", metric, with));
    target((name, "betree.in-place"), PMEM, side("in-place", metric, with), whole, bound)
}

/// A ratio of a pool to a file.
const fn access(name: &'static str, with: &'static [(&'static str, Is)], bound: Bound) -> Target {
    let file = Against::Side(side("file", "write", with));
    target((name, "betree.access"), PMEM, side("pool", "write", with), file, bound)
}

/// A time of a disk to that of persistent memory.
const fn block(name: &'static str, metric: &'static str) -> Target {
    let memory = Against::Side(side("pmem", metric, BLOCK_4K));
    let disk = side("disk", metric, BLOCK_4K);
    target((name, "betree.block-size"), None, disk, memory, AtLeast(10.0))
}

/// A time of at most 10 ms.
const fn short(name: &'static str, metric: &'static str) -> Target {
    target((name, "betree.constant"), None, own(metric), Number(10.0 * MS), AtMost(1.0))
}

/// A ratio of a policy of migration to none.
const fn migration(name: &'static str, policy: &'static str) -> Target {
    let of = side(policy, "throughput", &[]);
    target((name, "betree.migration"), None, of, peer("none"), AtLeast(1.3))
}

static TARGETS: &[Target] = &[
    access("pool / file, writes of 64 B", BUFFER_64, AtLeast(8.0)),
    access("pool / file, writes of 4 KiB", BUFFER_4K, AtLeast(1.5)),
    access("pool / file, writes of 32 MiB", BUFFER_32M, AtLeast(1.0)),
    target(
        ("objects, read / written", "betree.objects"),
        PMEM,
        own("read"),
        Against::Side(own("write")),
        AtLeast(1.0),
    ),
    target(("objects, read / medium", "betree.objects"), None, own("read"), Limit, AtLeast(0.7)),
    block("time of 4 KiB read, disk / memory", "read"),
    block("time of 4 KiB written, disk / memory", "write"),
    target(
        ("archive, two workers / one", "betree.archive"),
        None,
        side(BETREE, "throughput", TWO_WORKERS),
        Against::Side(side(BETREE, "throughput", ONE_WORKER)),
        AtLeast(1.0),
    ),
    target(
        ("archive, cache of 256 MiB / 8 MiB", "betree.archive"),
        None,
        side(BETREE, "throughput", LARGE_CACHE),
        Against::Side(side(BETREE, "throughput", SMALL_CACHE)),
        AtLeast(1.0),
    ),
    target(
        ("archive, metadata in memory / all on disk", "betree.archive"),
        DISK,
        side("mixed", "throughput", &[]),
        peer(BETREE),
        AtLeast(1.3),
    ),
    target(
        ("node sizes, default / best", "betree.node-size"),
        None,
        side("default", "geometric-mean", &[]),
        Against::Side(own("geometric-mean")),
        AtLeast(0.95),
    ),
    target(
        ("node sizes, reads, default / 4 MiB", "betree.node-size"),
        PMEM,
        side("default", "reads", &[]),
        Against::Side(side(BETREE, "reads", NODES_4M)),
        AtLeast(2.0),
    ),
    in_place("in place / whole, bytes, insert", "write-amplification", INSERT, AtMost(0.5)),
    in_place("in place / whole, bytes, A", "write-amplification", YCSB_A, AtMost(0.5)),
    in_place("in place / whole, bytes, F", "write-amplification", YCSB_F, AtMost(0.5)),
    in_place("in place / whole, throughput, insert", "throughput", INSERT, AtLeast(1.5)),
    in_place("in place / whole, throughput, A", "throughput", YCSB_A, AtLeast(1.5)),
    in_place("in place / whole, throughput, F", "throughput", YCSB_F, AtLeast(1.5)),
    target(
        ("inserts / LMDB", "betree.insert"),
        DISK,
        own("throughput"),
        peer("lmdb"),
        AtLeast(5.0),
    ),
    target(
        ("inserts / redb", "betree.insert"),
        DISK,
        own("throughput"),
        peer("redb"),
        AtLeast(5.0),
    ),
    target(
        ("bytes written of inserts / RocksDB", "betree.insert"),
        None,
        own("write-amplification"),
        Against::Side(side("rocksdb", "write-amplification", &[])),
        AtMost(0.7),
    ),
    target(
        ("bytes written of inserts / LSM engine", "betree.insert"),
        None,
        own("write-amplification"),
        Against::Side(side(LSM, "write-amplification", &[])),
        AtMost(1.0),
    ),
    target(("reads / LMDB", "betree.reads"), None, own("throughput"), peer("lmdb"), AtLeast(0.8)),
    target(
        ("scans / RocksDB", "betree.scans"),
        None,
        own("throughput"),
        peer("rocksdb"),
        AtLeast(1.5),
    ),
    // A checkpoint in the background fences, too.
    target(
        ("fences of a commit", "betree.commit"),
        PMEM,
        side(BETREE, "fences", ONE_RECORD),
        Number(1.0),
        AtMost(1.05),
    ),
    short("snapshot / 10 ms", "snapshot"),
    short("clone / 10 ms", "clone"),
    short("removal of a range / 10 ms", "removal"),
    target(("scrub / medium", "betree.scrub"), None, own("read"), Limit, AtLeast(0.8)),
    target(
        ("wrong answers of a damaged mirror", "betree.damage"),
        None,
        own("wrong"),
        Number(1.0),
        AtMost(0.0),
    ),
    target(
        ("repaired of a damaged mirror", "betree.damage"),
        None,
        own("repaired"),
        Number(100.0),
        AtLeast(1.0),
    ),
    target(
        ("resilver, read / used", "betree.resilver"),
        None,
        own("read"),
        Against::Side(own("used")),
        AtMost(1.05),
    ),
    migration("reads, migrated by LFU / not", "lfu"),
    migration("reads, migrated by reinforcement / not", "reinforcement"),
];

/// Adds rows for the targets that the run's rows tell of.
pub(super) fn judge(run: &mut Run<'_>) {
    let judged: Vec<Row> = TARGETS.iter().flat_map(|target| target.rows(run.rows())).collect();
    judged.into_iter().for_each(|row| run.push(row));
}

impl Is {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Number(number) => value.as_u64() == Some(number),
            Self::Text(text) => value.as_str() == Some(text),
        }
    }
}

impl Side {
    fn has(&self, row: &Row) -> bool {
        let is = |(name, is): &(&str, Is)| row.params.get(*name).is_some_and(|value| is.is(value));
        row.subject == self.subject && row.metric == self.metric && self.with.iter().all(is)
    }

    fn names(&self, param: &str) -> bool {
        self.with.iter().any(|(name, _)| *name == param)
    }
}

fn medium(row: &Row) -> Option<&str> {
    row.params.get("medium").and_then(Value::as_str)
}

impl Target {
    fn rows(&self, rows: &[Row]) -> Vec<Row> {
        let of_experiment: Vec<_> =
            rows.iter().filter(|row| row.experiment == self.experiment).collect();
        let mut media: Vec<(&str, Vec<f64>)> = Vec::new();
        for row in of_experiment.iter().filter(|row| self.of.has(row)) {
            let is_meant =
                self.medium.is_none_or(|meant| medium(row).is_none_or(|found| found == meant));
            let Some(ratio) = self.ratio(row, &of_experiment).filter(|_| is_meant) else {
                continue;
            };
            let medium = medium(row).or(self.medium).unwrap_or("both");
            match media.iter_mut().find(|(name, _)| *name == medium) {
                Some((_, ratios)) => ratios.push(ratio),
                None => media.push((medium, vec![ratio])),
            }
        }
        media.iter().flat_map(|(medium, ratios)| self.judged(medium, ratios)).collect()
    }

    /// The ratio of a row to what it is measured against; none if that is missing.
    fn ratio(&self, row: &Row, rows: &[&Row]) -> Option<f64> {
        let against = match self.against {
            Limit => row.limit,
            Number(number) => Some(number),
            Against::Side(other) => {
                let is_alike = |found: &&&Row| {
                    let mut params = row.params.iter();
                    params.all(|(name, value)| {
                        let differs = found.params.get(name).is_some_and(|found| found != value);
                        // The durability of two subjects is in both of their rows, and differs.
                        !differs || name == "durability" || self.of.names(name) || other.names(name)
                    })
                };
                let inserted = |row: &Row| {
                    let same = |other: &&&Row| {
                        other.metric == "inserted"
                            && other.subject == row.subject
                            && other.params == row.params
                    };
                    rows.iter().find(same).map(|row| row.value)
                };
                let is_as_full = |found: &&&Row| {
                    self.of.metric != "write-amplification" || inserted(found) == inserted(row)
                };
                let found = rows.iter().filter(|row| other.has(row)).filter(is_alike);
                let found = found.filter(is_as_full);
                found.map(|row| row.value).max_by(f64::total_cmp)
            }
        };
        against.filter(|against| *against > 0.0).map(|against| row.value / against)
    }

    fn judged(&self, medium: &str, ratios: &[f64]) -> [Row; 2] {
        let min = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let max = ratios.iter().copied().fold(0.0, f64::max);
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (logarithms / ratios.len() as f64).exp().clamp(min, max);
        let value = match (self.against, self.bound) {
            (Number(_), AtLeast(_)) => min,
            (Number(_), AtMost(_)) => max,
            _ => mean,
        };
        let (is_met, name, bound) = match self.bound {
            AtLeast(bound) => (value >= bound, "at-least", bound),
            AtMost(bound) => (value <= bound, "at-most", bound),
        };
        let mut params = Params::new();
        params.insert("medium".to_owned(), json!(medium));
        params.insert(name.to_owned(), json!(bound));
        let row = |metric: &str, unit: &str, (value, min, max): (f64, f64, f64)| Row {
            experiment: NAME.to_owned(),
            subject: self.name.to_owned(),
            params: params.clone(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            min,
            max,
            limit: None,
            source: None,
        };
        let met = f64::from(u8::from(is_met));
        [row("ratio", "x", (value, min, max)), row("met", "bool", (met, met, met))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(experiment: &str, subject: &str, metric: &str, params: Value, value: f64) -> Row {
        Row {
            experiment: experiment.to_owned(),
            subject: subject.to_owned(),
            params: params.as_object().cloned().unwrap_or_default(),
            metric: metric.to_owned(),
            unit: "op/s".to_owned(),
            value,
            min: value,
            max: value,
            limit: None,
            source: None,
        }
    }

    /// The ratio, and whether the target is met, by name and medium.
    fn judged(rows: &[Row]) -> Vec<(String, String, f64, bool)> {
        let judged = TARGETS.iter().flat_map(|target| target.rows(rows)).collect::<Vec<_>>();
        let pairs = judged.chunks(2).map(|pair| {
            let medium = pair[0].params["medium"].as_str().unwrap_or_default().to_owned();
            (pair[0].subject.clone(), medium, pair[0].value, pair[1].value == 1.0)
        });
        pairs.collect()
    }

    #[test]
    fn rows_are_set_against_those_with_the_same_parameters() {
        let of = |subject, op: &str, medium: &str, value| {
            let params = json!({"op": op, "medium": medium, "durability": subject});
            row("betree.in-place", subject, "throughput", params, value)
        };
        let rows = [
            of("in-place", "insert", "pmem", 30.0),
            of("copy-on-write", "insert", "pmem", 10.0),
            of("in-place", "ycsb-a", "pmem", 12.0),
            of("copy-on-write", "ycsb-a", "pmem", 10.0),
            of("in-place", "ycsb-f", "pmem", 12.0),
            of("copy-on-write", "ycsb-f", "disk", 1.0),
        ];
        let expected = [("insert", 3.0, true), ("A", 1.2, false)].map(|(op, ratio, met)| {
            (format!("in place / whole, throughput, {op}"), "pmem".to_owned(), ratio, met)
        });
        assert_eq!(judged(&rows), expected);
    }

    #[test]
    fn bytes_written_of_a_store_that_took_fewer_records_are_not_compared() {
        let of = |subject: &str, inserted: f64| {
            let params = json!({"medium": "disk"});
            ["inserted", "write-amplification"].map(|metric| {
                let value = if metric == "inserted" { inserted } else { 4.0 };
                row("betree.insert", subject, metric, params.clone(), value)
            })
        };
        let alone = [of(BETREE, 100.0), of("rocksdb", 50.0)].concat();
        assert_eq!(judged(&alone), []);
        let name = "bytes written of inserts / RocksDB".to_owned();
        let alike = [of(BETREE, 100.0), of("rocksdb", 100.0)].concat();
        assert_eq!(judged(&alike), [(name, "disk".to_owned(), 1.0, false)]);
    }

    #[test]
    fn the_mean_of_comparisons_counts_and_the_best_of_several_on_the_other_side() {
        let of = |subject, workers: u64, value| {
            let params = json!({"workers": workers, "cache": 1, "medium": "disk"});
            row("betree.archive", subject, "throughput", params, value)
        };
        let rows =
            [of(BETREE, 1, 1.0), of(BETREE, 2, 1.0), of("mixed", 1, 1.0), of("mixed", 2, 4.0)];
        let found = judged(&rows);
        assert_eq!(found[0], ("archive, two workers / one".into(), "disk".into(), 1.0, true));
        let (name, ratio, met) = (&found[1].0[..], found[1].2, found[1].3);
        assert_eq!((name, met), ("archive, metadata in memory / all on disk", true));
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
        let of = |subject, params, value| {
            row("betree.node-size", subject, "geometric-mean", params, value)
        };
        let rows = [
            of("default", json!({"medium": "disk"}), 9.0),
            of(BETREE, json!({"medium": "disk", "leaf": 1}), 2.0),
            of(BETREE, json!({"medium": "disk", "leaf": 2}), 10.0),
        ];
        let name = "node sizes, default / best".to_owned();
        assert_eq!(judged(&rows), [(name, "disk".to_owned(), 0.9, false)]);
    }

    #[test]
    fn a_limit_and_a_number_are_sides_and_the_worst_counts_against_a_number() {
        let mut limited = row("betree.scrub", BETREE, "read", json!({"medium": "disk"}), 9.0);
        limited.limit = Some(10.0);
        let of = |records: u64, value| {
            let params = json!({"medium": "pmem", "records": records});
            row("betree.constant", BETREE, "clone", params, value)
        };
        let wrong = row("betree.damage", BETREE, "wrong", json!({"medium": "disk"}), 0.0);
        let found = judged(&[limited, of(1, 5.0 * MS), of(2, 20.0 * MS), wrong]);
        let expected = [
            ("clone / 10 ms", "pmem", 2.0, false),
            ("scrub / medium", "disk", 0.9, true),
            ("wrong answers of a damaged mirror", "disk", 0.0, true),
        ];
        let expected = expected
            .map(|(name, medium, ratio, met)| (name.to_owned(), medium.to_owned(), ratio, met));
        assert_eq!(found, expected);
    }
}
