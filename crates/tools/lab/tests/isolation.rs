//! The isolation checker, tried on histories that have one anomaly each, and on such that have none.

use halite_lab::isolation::Op::{Append, Read};
use halite_lab::isolation::Outcome::{Aborted, Committed, Unknown};
use halite_lab::isolation::{Anomaly, History, Level, Op, Outcome, Transaction};

/// A transaction that overlaps all others.
fn at_once(ops: &[Op]) -> Transaction {
    ended(ops, Committed)
}

fn ended(ops: &[Op], outcome: Outcome) -> Transaction {
    Transaction { ops: ops.to_vec(), outcome, begun: 0, ended: 1_000 }
}

/// A transaction that took a while.
fn during(begun: u64, ended: u64, ops: &[Op]) -> Transaction {
    Transaction { ops: ops.to_vec(), outcome: Committed, begun, ended }
}

fn read(key: u64, list: &[u64]) -> Op {
    Read(key, list.to_vec())
}

fn anomalies(transactions: &[Transaction]) -> Vec<(Anomaly, bool)> {
    let history: History = transactions.iter().cloned().collect();
    let found = history.find();
    found.iter().for_each(|found| println!("{found}"));
    found.into_iter().map(|found| (found.anomaly, found.realtime)).collect()
}

/// Checks that a history has one anomaly and that just these levels forbid it.
fn has(anomaly: Anomaly, levels: &[Level], transactions: &[Transaction]) {
    let found = anomalies(transactions);
    assert_eq!(found.iter().map(|(anomaly, _)| *anomaly).collect::<Vec<_>>(), [anomaly]);
    let history: History = transactions.iter().cloned().collect();
    for level in ALL {
        let is_forbidden = !history.check(level).is_empty();
        assert_eq!(is_forbidden, levels.contains(&level), "{anomaly:?} at {level:?}");
    }
}

const ALL: [Level; 4] = [
    Level::SnapshotIsolation,
    Level::StrictSnapshotIsolation,
    Level::Serializable,
    Level::StrictSerializable,
];
const SERIALIZABLE: [Level; 2] = [Level::Serializable, Level::StrictSerializable];
const STRICT: [Level; 2] = [Level::StrictSnapshotIsolation, Level::StrictSerializable];

#[test]
fn a_serial_history_has_no_anomaly() {
    let found = anomalies(&[
        during(0, 10, &[Append(1, 1), Append(2, 2), read(1, &[1])]),
        during(11, 20, &[read(1, &[1]), Append(1, 3), read(1, &[1, 3]), read(3, &[])]),
        during(11, 40, &[read(2, &[2]), Append(2, 4), Append(2, 5)]),
        during(41, 50, &[read(1, &[1, 3]), read(2, &[2, 4, 5]), read(3, &[])]),
    ]);
    assert_eq!(found, []);
    assert_eq!(anomalies(&[]), []);
}

#[test]
fn a_dirty_write_is_found() {
    let writes =
        [at_once(&[Append(1, 11), Append(2, 12)]), at_once(&[Append(1, 21), Append(2, 22)])];
    let seen = at_once(&[read(1, &[11, 21]), read(2, &[22, 12])]);
    has(Anomaly::G0, &ALL, &[&writes[..], &[seen]].concat());
}

#[test]
fn an_aborted_read_is_found() {
    let gave_up = ended(&[Append(1, 11)], Aborted);
    has(Anomaly::G1a, &ALL, &[gave_up, at_once(&[read(1, &[11])])]);
}

#[test]
fn an_intermediate_read_is_found() {
    let found = anomalies(&[at_once(&[Append(1, 11), Append(1, 12)]), at_once(&[read(1, &[11])])]);
    assert!(found.contains(&(Anomaly::G1b, false)), "{found:?}");
}

#[test]
fn circular_information_flow_is_found() {
    has(
        Anomaly::G1c,
        &ALL,
        &[at_once(&[Append(1, 11), read(2, &[22])]), at_once(&[Append(2, 22), read(1, &[11])])],
    );
}

#[test]
fn a_lost_update_is_found() {
    has(
        Anomaly::LostUpdate,
        &ALL,
        &[
            at_once(&[read(1, &[]), Append(1, 11)]),
            at_once(&[read(1, &[]), Append(1, 21)]),
            at_once(&[read(1, &[11, 21])]),
        ],
    );
}

#[test]
fn read_skew_is_found() {
    has(
        Anomaly::GSingle,
        &ALL,
        &[
            at_once(&[Append(1, 11), Append(2, 12)]),
            at_once(&[read(1, &[]), read(2, &[12])]),
            at_once(&[read(1, &[11])]),
        ],
    );
}

#[test]
fn anti_dependencies_that_do_not_follow_each_other_are_found() {
    // The long fork: two readers see two writes in different orders.
    has(
        Anomaly::GNonadjacent,
        &ALL,
        &[
            at_once(&[Append(1, 11)]),
            at_once(&[Append(2, 22)]),
            at_once(&[read(1, &[11]), read(2, &[])]),
            at_once(&[read(1, &[]), read(2, &[22])]),
        ],
    );
}

#[test]
fn write_skew_is_found_and_snapshot_isolation_allows_it() {
    has(
        Anomaly::WriteSkew,
        &SERIALIZABLE,
        &[
            at_once(&[read(1, &[]), Append(2, 12)]),
            at_once(&[read(2, &[]), Append(1, 21)]),
            at_once(&[read(1, &[21]), read(2, &[12])]),
        ],
    );
    // Three in a circle.
    has(
        Anomaly::G2Item,
        &SERIALIZABLE,
        &[
            at_once(&[read(1, &[]), Append(2, 12)]),
            at_once(&[read(2, &[]), Append(3, 23)]),
            at_once(&[read(3, &[]), Append(1, 31)]),
            at_once(&[read(1, &[31]), read(2, &[12]), read(3, &[23])]),
        ],
    );
}

#[test]
fn a_read_only_anomaly_of_snapshot_isolation_is_found() {
    // Fekete, O'Neil and O'Neil, 2004: without the reader it would be serializable.
    has(
        Anomaly::G2Item,
        &SERIALIZABLE,
        &[
            at_once(&[read(1, &[]), read(2, &[]), Append(1, 11)]),
            at_once(&[Append(2, 22)]),
            at_once(&[read(1, &[]), read(2, &[22])]),
            at_once(&[read(1, &[11]), read(2, &[22])]),
        ],
    );
}

#[test]
fn a_stale_read_is_found_by_real_time_alone() {
    has(
        Anomaly::GSingle,
        &STRICT,
        &[
            during(0, 1, &[Append(1, 11)]),
            during(2, 3, &[read(1, &[])]),
            during(4, 5, &[read(1, &[11])]),
        ],
    );
    // A transaction that overlaps may see either.
    let overlaps = [
        during(0, 3, &[Append(1, 11)]),
        during(2, 4, &[read(1, &[])]),
        during(4, 5, &[read(1, &[11])]),
    ];
    assert_eq!(anomalies(&overlaps), []);
}

#[test]
fn writes_in_another_order_than_that_of_time_are_found() {
    has(
        Anomaly::G0,
        &STRICT,
        &[
            during(0, 1, &[Append(1, 11)]),
            during(2, 3, &[Append(1, 21)]),
            during(2, 9, &[read(1, &[21, 11])]),
        ],
    );
}

#[test]
fn what_no_isolation_allows_is_found() {
    let of = |transactions: &[Transaction]| anomalies(transactions)[0].0;
    let append = at_once(&[Append(1, 1), Append(1, 2)]);
    assert_eq!(of(&[at_once(&[read(1, &[9])])]), Anomaly::Garbage);
    assert_eq!(of(&[append.clone(), at_once(&[read(1, &[1, 2, 1])])]), Anomaly::Duplicate);
    assert_eq!(
        of(&[at_once(&[Append(1, 1)]), at_once(&[Append(2, 1)]), append.clone()]),
        Anomaly::Duplicate
    );
    let orders = [at_once(&[read(1, &[1, 2])]), at_once(&[read(1, &[2, 1])])];
    assert_eq!(of(&[&orders[..], &[append]].concat()), Anomaly::IncompatibleOrder);
    let blind = at_once(&[Append(1, 1), read(1, &[])]);
    assert_eq!(of(&[blind]), Anomaly::Internal);
    let twice = [at_once(&[Append(1, 1)]), at_once(&[read(1, &[]), read(1, &[1])])];
    assert!(anomalies(&twice).contains(&(Anomaly::Internal, false)));
}

#[test]
fn what_a_crash_took_or_tore_is_found() {
    // The append was acknowledged, and the next transaction does not find it.
    has(
        Anomaly::LostAppend,
        &STRICT,
        &[during(0, 1, &[Append(1, 11)]), during(2, 3, &[read(1, &[])])],
    );
    // Its outcome is unknown, but one half of it is there.
    let torn = ended(&[Append(1, 11), Append(2, 12)], Unknown);
    has(Anomaly::LostAppend, &ALL, &[torn.clone(), at_once(&[read(1, &[11]), read(2, &[])])]);
    // Whole or absent are both right.
    assert_eq!(anomalies(&[torn.clone(), at_once(&[read(1, &[]), read(2, &[])])]), []);
    assert_eq!(anomalies(&[torn, at_once(&[read(1, &[11]), read(2, &[12])])]), []);
}

#[test]
fn reads_count_only_of_transactions_that_happened() {
    // A crash took both: the second had read an append that was never durable.
    let gone = [ended(&[Append(1, 11)], Unknown), ended(&[read(1, &[11]), Append(2, 12)], Unknown)];
    let behind =
        [at_once(&[read(1, &[]), Append(1, 13)]), at_once(&[read(1, &[13]), read(2, &[])])];
    assert_eq!(anomalies(&[gone.clone(), behind].concat()), []);
    // The second is there, and so must be the one that it read from.
    let torn =
        [at_once(&[read(1, &[]), Append(1, 13)]), at_once(&[read(1, &[13]), read(2, &[12])])];
    assert!(anomalies(&[gone, torn].concat()).contains(&(Anomaly::IncompatibleOrder, false)));
}
