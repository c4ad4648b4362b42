//! The requirements on the LSM engine, beside the measurements and the paper's findings.
//!
//! The bounds are those of the project. A comparison whose sides were not both measured is left out.

use serde_json::{Value, json};

use super::stores::{XP, XS};
use super::{commit, global_index, memtable, rebuild, recovery, size, stability, ycsb};
use crate::asked::{Bound, row};
use crate::{Row, Run};

/// The experiment of the rows.
pub(crate) const NAME: &str = "lsm.asked";

const MS: f64 = 1e6;

/// The paper's ratio of XP to XS, by workload and distribution (Yan §4.1).
const PAPER: [(&str, &str, f64); 8] = [
    ("a", "uniform", 3.8),
    ("f", "uniform", 2.7),
    ("b", "uniform", 1.7),
    ("b", "zipfian", 1.1),
    ("c", "uniform", 1.0),
    ("d", "latest", 1.4),
    ("e", "uniform", 1.0),
    ("e", "zipfian", 1.0),
];

/// A requirement: from the measured rows to its own.
type Judge = fn(&[Row]) -> Vec<Row>;

const JUDGES: [Judge; 10] = [
    workloads,
    written,
    commits,
    memtables,
    rebuilds,
    global_indexes,
    steadiness,
    recoveries,
    sizes,
    allocations,
];

/// Adds the rows of everything that was measured so far.
pub(super) fn judge(run: &mut Run<'_>) {
    let rows = run.rows();
    let quick = run.options.quick;
    let judged: Vec<Row> = JUDGES.iter().flat_map(|judge| judge(rows)).collect();
    for mut row in judged {
        if quick {
            // Too little was measured, for too short a time, to go by.
            row.params.insert("quick".to_owned(), json!(true));
        }
        run.push(row);
    }
}

fn of<'a>(
    rows: &'a [Row],
    experiment: &'a str,
    subject: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| {
        row.experiment == experiment && row.subject == subject && row.metric == metric
    })
}

/// The others' rows of the same metric in the same comparison.
fn rivals<'a>(rows: &'a [Row], ours: &'a Row) -> impl Iterator<Item = &'a Row> {
    let shared = |row: &'a Row| -> Vec<(&'a String, &'a Value)> {
        let own = ["durability", "recovered"];
        row.params.iter().filter(|(name, _)| !own.contains(&name.as_str())).collect()
    };
    rows.iter().filter(move |row| {
        row.subject != ours.subject
            && row.experiment == ours.experiment
            && row.metric == ours.metric
            && shared(row) == shared(ours)
    })
}

fn beside(ours: &Row, theirs: &Row, bound: Bound) -> Row {
    row(NAME, ours, Some((&theirs.subject, theirs.value)), bound)
}

fn word<'a>(row: &'a Row, name: &str) -> &'a str {
    row.params.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(row: &Row, name: &str) -> Option<u64> {
    row.params.get(name).and_then(Value::as_u64)
}

/// Throughput of YCSB: never less than the others'; in A with all records alike much more.
fn workloads(rows: &[Row]) -> Vec<Row> {
    let prefix = format!("{}-", ycsb::NAME);
    let ours = rows.iter().filter(|row| {
        row.subject == XP && row.metric == "throughput" && row.experiment.starts_with(&prefix)
    });
    let judge = |ours| {
        let judge_beside = |theirs: &Row| {
            let workload = workload_of(ours);
            let is_a = workload == "a" && word(ours, "distribution") == "uniform";
            let least = match theirs.subject.as_str() {
                XS if is_a => 3.8,
                "rocksdb" if is_a => 5.0,
                _ => 1.0,
            };
            let paper = PAPER.iter().find(|(name, distribution, _)| {
                *name == workload && *distribution == word(ours, "distribution")
            });
            let mut judged = beside(ours, theirs, Bound::AtLeast(least));
            if theirs.subject == XS {
                judged.source = paper.map(|(_, _, ratio)| *ratio);
            }
            judged
        };
        rivals(rows, ours).map(judge_beside).collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

/// `a` of `lsm.ycsb-a`.
fn workload_of(row: &Row) -> &str {
    row.experiment.rsplit_once('-').map_or("", |(_, workload)| workload)
}

/// The bytes that reach the SSD in A, for each operation.
fn written(rows: &[Row]) -> Vec<Row> {
    let experiment = format!("{}-a", ycsb::NAME);
    let ours = of(rows, &experiment, XP, "disk-written");
    let judge = |ours| {
        let with_log = rivals(rows, ours).filter(|row| row.subject == XS);
        let judge_beside = |theirs: &Row| {
            let source = (word(ours, "distribution") == "uniform").then_some(0.06);
            Row { source, ..beside(ours, theirs, Bound::AtMost(0.1)) }
        };
        with_log.map(judge_beside).collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

/// Single-key commits of one thread, and bandwidth of two with batches of 50.
fn commits(rows: &[Row]) -> Vec<Row> {
    let is = |row: &&Row, threads, batch| {
        number(row, "threads") == Some(threads) && number(row, "batch") == Some(batch)
    };
    let single = of(rows, commit::NAME, XP, "commits").filter(|row| is(row, 1, 1));
    let single = single.map(|ours| row(NAME, ours, None, Bound::AtLeast(1e6)));
    let large = of(rows, commit::NAME, XP, "bandwidth").filter(|row| is(row, 2, 50));
    let large = large.filter_map(|ours| {
        let limit = ours.limit?;
        Some(row(NAME, ours, Some(("limit", limit)), Bound::AtLeast(0.6)))
    });
    single.chain(large).collect()
}

/// Inserts and lookups beside a skip list.
fn memtables(rows: &[Row]) -> Vec<Row> {
    let ours = ["insert-throughput", "lookup-throughput"]
        .into_iter()
        .flat_map(|metric| of(rows, memtable::NAME, XP, metric));
    let judge = |ours| {
        let judge_beside = |theirs: &Row| beside(ours, theirs, Bound::AtLeast(2.0));
        rivals(rows, ours).map(judge_beside).collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

fn rebuilds(rows: &[Row]) -> Vec<Row> {
    let ours = of(rows, rebuild::NAME, XP, "rebuild");
    ours.map(|ours| row(NAME, ours, None, Bound::AtMost(50.0 * MS))).collect()
}

/// Random reads beside a tiered level zero of many runs.
fn global_indexes(rows: &[Row]) -> Vec<Row> {
    let ours =
        of(rows, global_index::NAME, XP, "throughput").filter(|row| word(row, "op") == "read");
    let judge = |ours| {
        let judge_beside = |theirs: &Row| {
            // The largest ratio of the paper's figure.
            Row { source: Some(113.0), ..beside(ours, theirs, Bound::AtLeast(20.0)) }
        };
        rivals(rows, ours).map(judge_beside).collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

fn steadiness(rows: &[Row]) -> Vec<Row> {
    let drops = of(rows, stability::NAME, XP, "drop");
    let drops =
        drops.map(|ours| Row { source: Some(35.0), ..row(NAME, ours, None, Bound::AtMost(10.0)) });
    let stalls = of(rows, stability::NAME, XP, "stalled");
    drops.chain(stalls.map(|ours| row(NAME, ours, None, Bound::AtMost(0.0)))).collect()
}

/// How soon a store answers that was killed, for each byte that it recovers.
fn recoveries(rows: &[Row]) -> Vec<Row> {
    let ours = ["first-answer-per-gib", "full-speed-per-gib"]
        .into_iter()
        .flat_map(|metric| of(rows, recovery::NAME, XP, metric));
    let judge = |ours| {
        let judge_beside = |theirs: &Row| beside(ours, theirs, Bound::AtMost(1.0 / 20.0));
        rivals(rows, ours).map(judge_beside).collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

/// The loss of D as the database grows to six times the size.
fn sizes(rows: &[Row]) -> Vec<Row> {
    let at = |fill| {
        let mut rows = of(rows, size::NAME, XP, "throughput");
        rows.find(|row| number(row, "fill") == Some(fill))
    };
    let judge = |(small, large): (&Row, &Row)| {
        let beside = Some(("the same at fill=1", small.value));
        Row { source: Some(0.73), ..row(NAME, large, beside, Bound::AtLeast(0.73)) }
    };
    at(1).zip(at(6)).map(judge).into_iter().collect()
}

/// Allocations in less than a microsecond, and in less than libpmemobj's.
fn allocations(rows: &[Row]) -> Vec<Row> {
    let ours = of(rows, "lsm.halloc", "halloc-pool", "latency");
    let judge = |ours| {
        let rival = rivals(rows, ours).find(|row| row.subject == "libpmemobj");
        let beside = rival.map(|theirs| beside(ours, theirs, Bound::AtMost(1.0)));
        std::iter::once(row(NAME, ours, None, Bound::AtMost(1000.0)))
            .chain(beside)
            .collect::<Vec<_>>()
    };
    ours.flat_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Params, Repeats};

    fn measured(experiment: &str, subject: &str, metric: &str, value: f64, params: Value) -> Row {
        let params: Params = params.as_object().unwrap().clone();
        let (metric, unit) = (metric.to_owned(), "op/s".to_owned());
        Row::of(experiment, subject, &params, &Repeats { metric, unit, values: vec![value] })
            .unwrap()
    }

    /// Its other side, the value, the source's and whether it holds.
    fn said(judged: &[Row]) -> Vec<(String, f64, Option<f64>, bool)> {
        let holds = |row: &Row| row.params["holds"] == json!(true);
        judged.iter().map(|r| (word(r, "beside").to_owned(), r.value, r.source, holds(r))).collect()
    }

    #[test]
    fn workloads_are_beside_all_others() {
        let uniform = json!({ "distribution": "uniform" });
        let of = |workload: &str, subject, value| {
            let experiment = format!("lsm.ycsb-{workload}");
            measured(&experiment, subject, "throughput", value, uniform.clone())
        };
        let rows = [
            of("a", "xp", 40.0),
            of("a", "xs", 10.0),
            of("a", "rocksdb", 10.0),
            of("e", "xp", 9.0),
            of("e", "xs", 10.0),
        ];
        let expected = [
            ("xs".to_owned(), 4.0, Some(3.8), true),
            ("rocksdb".to_owned(), 4.0, None, false),
            ("xs".to_owned(), 0.9, Some(1.0), false),
        ];
        assert_eq!(said(&workloads(&rows)), expected);
    }

    #[test]
    fn what_grows_is_beside_itself() {
        let at =
            |fill, value| measured("lsm.size", "xp", "throughput", value, json!({ "fill": fill }));
        let judged = said(&sizes(&[at(1, 100.0), at(2, 50.0), at(6, 72.0)]));
        assert_eq!(judged, [("the same at fill=1".to_owned(), 0.72, Some(0.73), false)]);
        assert!(sizes(&[at(1, 100.0)]).is_empty());
    }

    #[test]
    fn recovery_is_for_each_byte() {
        let of = |subject, value, bytes| {
            let params = json!({ "recovered": bytes, "value-len": 500 });
            measured("lsm.recovery", subject, "first-answer-per-gib", value, params)
        };
        let judged =
            said(&recoveries(&[of("xp", 1.0, 4), of("xs", 20.0, 1), of("rocksdb", 19.0, 4)]));
        assert_eq!(judged.iter().map(|said| said.3).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn commits_are_counted_and_beside_the_limit() {
        let one = measured("lsm.commit", "xp", "commits", 1e6, json!({ "threads": 1, "batch": 1 }));
        let params = json!({ "threads": 2, "batch": 50 });
        let mut two = measured("lsm.commit", "xp", "bandwidth", 5.0, params);
        two.limit = Some(10.0);
        let judged = said(&commits(&[one, two]));
        assert_eq!(judged.iter().map(|said| said.3).collect::<Vec<_>>(), [true, false]);
    }
}
