//! The requirements on RStore, beside the measurements: each row has both sides of a comparison and says whether the
//! requirement holds.
//!
//! The bounds are those of the project: Lersch's values are beside the measurements themselves
//! ([`Row::source`](crate::Row::source)). A comparison whose sides were not both measured is left out.

use serde_json::{Value, json};

use crate::asked::{self, Bound};
use crate::{Row, Run};

/// The experiment of the rows.
pub(crate) const NAME: &str = "rstore.asked";

/// The subject of the requirements.
const OURS: &str = "halite";

/// The server without a medium, which is no rival.
const IN_MEMORY: &str = "halite-in-memory";

/// Pipelines, and the required multiple of the throughput of Redis, which syncs each write as well.
const REDIS: [(u64, f64); 2] = [(1, 1.5), (16, 3.0)];

/// The least part of memcached's throughput; memcached is not durable.
const MEMCACHED: f64 = 0.9;

/// The load, in percent of the slowest server's throughput, at which no other server's tail is shorter.
const HIGH_LOAD: u64 = 80;

const MS: f64 = 1e6;

/// Adds the rows of everything that was measured so far.
pub(super) fn judge(run: &mut Run<'_>) {
    let rows = run.rows();
    let quick = run.options.quick;
    let judged: Vec<Row> = [throughput, tail, collection, recovery, memory]
        .iter()
        .flat_map(|judge: &fn(&[Row]) -> Vec<Row>| judge(rows))
        .collect();
    for mut row in judged {
        if quick {
            // Too little was measured, for too short a time, to go by.
            row.params.insert("quick".to_owned(), json!(true));
        }
        run.push(row);
    }
}

fn ours<'a>(
    rows: &'a [Row],
    experiment: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| {
        row.subject == OURS && row.experiment == experiment && row.metric == metric
    })
}

/// The rows of others in the same comparison.
fn rivals<'a>(rows: &'a [Row], ours: &'a Row) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| {
        row.subject != OURS
            && row.subject != IN_MEMORY
            && row.experiment == ours.experiment
            && row.metric == ours.metric
            && of_comparison(row) == of_comparison(ours)
    })
}

/// The params that the rows of a comparison share.
fn of_comparison(row: &Row) -> Vec<(&String, &Value)> {
    let own = ["durability", "server-threads"];
    row.params.iter().filter(|(name, _)| !own.contains(&name.as_str())).collect()
}

/// The row with the value of `ours` by itself, or beside `theirs`.
fn row(ours: &Row, theirs: Option<&Row>, bound: Bound) -> Row {
    let theirs = theirs.map(|row| (row.subject.as_str(), row.value));
    asked::row(NAME, ours, theirs, bound)
}

fn throughput(rows: &[Row]) -> Vec<Row> {
    let mut judged = Vec::new();
    for ours in ours(rows, "rstore.throughput", "throughput") {
        let pipeline = ours.params.get("pipeline").and_then(Value::as_u64);
        for theirs in rivals(rows, ours) {
            let redis = REDIS.iter().find(|(depth, _)| Some(*depth) == pipeline);
            match (theirs.subject.as_str(), redis) {
                ("redis-always", Some((_, times))) => {
                    judged.push(row(ours, Some(theirs), Bound::AtLeast(*times)));
                }
                ("memcached", _) => {
                    judged.push(row(ours, Some(theirs), Bound::AtLeast(MEMCACHED)));
                }
                _ => {}
            }
        }
    }
    judged
}

fn tail(rows: &[Row]) -> Vec<Row> {
    let mut judged = Vec::new();
    for ours in ours(rows, "rstore.tail", "latency-p99.9") {
        judged.push(row(ours, None, Bound::AtMost(MS)));
        let load = ours.params.get("load-percent").and_then(Value::as_u64);
        let shortest = rivals(rows, ours).min_by(|a, b| a.value.total_cmp(&b.value));
        if load == Some(HIGH_LOAD) && shortest.is_some() {
            judged.push(row(ours, shortest, Bound::AtMost(1.0)));
        }
    }
    judged
}

fn collection(rows: &[Row]) -> Vec<Row> {
    let drops = ours(rows, "rstore.gc-cost", "throughput-drop");
    let tails = ours(rows, "rstore.gc-cost", "tail-growth");
    let drops = drops.map(|ours| row(ours, None, Bound::AtMost(7.0)));
    drops.chain(tails.map(|ours| row(ours, None, Bound::AtMost(1.5)))).collect()
}

/// The time until a killed store answers that has only its records to recover from.
fn recovery(rows: &[Row]) -> Vec<Row> {
    let killed = |row: &&Row| row.params.get("ended").is_some_and(|ended| ended == "killed");
    let first = ours(rows, "rstore.recovery", "first-answer").filter(killed);
    let all = ours(rows, "rstore.recovery", "all-answers").filter(killed);
    let first = first.map(|ours| row(ours, None, Bound::AtMost(1e3 * MS)));
    first.chain(all.map(|ours| row(ours, None, Bound::AtMost(3e3 * MS)))).collect()
}

fn memory(rows: &[Row]) -> Vec<Row> {
    let dram = ours(rows, "rstore.memory", "dram");
    dram.map(|ours| row(ours, None, Bound::AtMost(24.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Params, Repeats};

    fn measured(experiment: &str, subject: &str, metric: &str, unit: &str, value: f64) -> Row {
        let mut params = Params::new();
        params.insert("pipeline".to_owned(), json!(16));
        params.insert("load-percent".to_owned(), json!(80));
        params.insert("ended".to_owned(), json!("killed"));
        params.insert("durability".to_owned(), json!(subject));
        let (metric, unit) = (metric.to_owned(), unit.to_owned());
        Row::of(experiment, subject, &params, &Repeats { metric, unit, values: vec![value] })
            .unwrap()
    }

    /// `of`, the other side, the value and whether it holds.
    fn said(judged: &[Row]) -> Vec<(String, String, f64, bool)> {
        let text = |row: &Row, name: &str| {
            row.params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let holds = |row: &Row| row.params["holds"] == json!(true);
        judged.iter().map(|r| (text(r, "of"), text(r, "beside"), r.value, holds(r))).collect()
    }

    #[test]
    fn throughput_is_beside_redis_and_memcached() {
        let of =
            |subject, value| measured("rstore.throughput", subject, "throughput", "op/s", value);
        let rows = [
            of("halite", 300.0),
            of("halite-in-memory", 400.0),
            of("redis-always", 100.0),
            of("redis-everysec", 1.0),
            of("memcached", 400.0),
        ];
        let name = "rstore.throughput throughput".to_owned();
        let expected = [
            (name.clone(), "redis-always".to_owned(), 3.0, true),
            (name, "memcached".to_owned(), 0.75, false),
        ];
        assert_eq!(said(&throughput(&rows)), expected);
        assert!(throughput(&rows[1..]).is_empty(), "there is nobody to ask");
    }

    #[test]
    fn a_tail_is_short_by_itself_and_beside_the_shortest() {
        let of = |subject, value| measured("rstore.tail", subject, "latency-p99.9", "ns", value);
        let rows = [
            of("halite", 0.9 * MS),
            of("memcached", 0.6 * MS),
            of("rocksdb", 2.0 * MS),
            of("halite-in-memory", 0.1 * MS),
        ];
        let judged = said(&tail(&rows));
        assert_eq!(judged[0].1, "");
        assert!(judged[0].3);
        assert_eq!((judged[1].1.as_str(), judged[1].3), ("memcached", false));
        assert!((judged[1].2 - 1.5).abs() < 1e-9);
        assert_eq!(judged.len(), 2);
    }

    #[test]
    fn the_other_bounds_are_of_one_side() {
        let rows = [
            measured("rstore.gc-cost", "halite", "throughput-drop", "%", 7.1),
            measured("rstore.gc-cost", "halite", "tail-growth", "x", 1.5),
            measured("rstore.recovery", "halite", "first-answer", "ns", 2e9),
            measured("rstore.recovery", "halite", "all-answers", "ns", 2e9),
            measured("rstore.memory", "halite", "dram", "B/record", 24.0),
        ];
        let holds = |judged: Vec<Row>| said(&judged).iter().map(|said| said.3).collect::<Vec<_>>();
        assert_eq!(holds(collection(&rows)), [false, true]);
        assert_eq!(holds(recovery(&rows)), [false, true]);
        assert_eq!(holds(memory(&rows)), [true]);
    }
}
