//! The report of a scrub or a resilver, as text and as JSON.

use std::fmt::Write;

use halite::{KeyRange, Lost, ScrubReport};
use serde_json::{Value, json};

use crate::size::{count, grouped, human};
use crate::{escape, time};

/// The counts of a pass, on one line.
pub(super) fn summary(report: &ScrubReport) -> String {
    let (extents, bytes) = (count(report.extents, "extent"), human(report.bytes));
    let found = match report.damaged {
        0 if report.lost == 0 => "all whole".to_owned(),
        damaged => format!(
            "{} damaged, {} repaired, {} lost",
            grouped(damaged),
            grouped(report.repaired),
            grouped(report.lost)
        ),
    };
    format!("{extents}, {bytes} read, {found}")
}

/// The state of the last pass of a kind, on one line.
pub(super) fn state(report: Option<&ScrubReport>) -> String {
    match report {
        None => "none".to_owned(),
        Some(report) => {
            let state = if report.is_complete { "complete" } else { "stopped, and goes on there" };
            format!("{state}, {}: {}", time::of_second(report.second), summary(report))
        }
    }
}

/// The lost extents, a line each.
pub(super) fn losses(report: &ScrubReport) -> String {
    let mut text = String::new();
    for lost in &report.errors {
        let of = lost.dataset.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
        let keys = lost.keys.as_ref().map(|keys| format!(", {}", shown(keys))).unwrap_or_default();
        // A string takes every write.
        let _ =
            writeln!(text, "lost: the {} at {}{of}{keys}: {}", lost.what, lost.address, lost.why);
    }
    if report.lost > report.errors.len() as u64 {
        let more = grouped(report.lost - report.errors.len() as u64);
        let _ = writeln!(text, "lost: {more} more");
    }
    text
}

fn shown(keys: &KeyRange) -> String {
    let start = escape::to_text(keys.start());
    match keys.end() {
        Some(end) => format!("keys from `{start}` up to `{}`", escape::to_text(end)),
        None => format!("keys from `{start}` on"),
    }
}

/// A report as an object.
pub(super) fn as_json(report: &ScrubReport) -> Value {
    json!({
        "complete": report.is_complete,
        "bytes": report.bytes,
        "extents": report.extents,
        "damaged": report.damaged,
        "repaired": report.repaired,
        "lost": report.lost,
        "errors": report.errors.iter().map(lost_as_json).collect::<Vec<_>>(),
        "time": time::of_second(report.second),
    })
}

fn lost_as_json(lost: &Lost) -> Value {
    json!({
        "what": lost.what,
        "class": lost.address.class,
        "vdev": lost.address.vdev,
        "block": lost.address.block,
        "key_space": lost.dataset,
        "from": lost.keys.as_ref().map(|keys| escape::to_text(keys.start())),
        "to": lost.keys.as_ref().and_then(KeyRange::end).map(escape::to_text),
        "why": lost.why,
    })
}

#[cfg(test)]
mod tests {
    use halite::BlockPlace;

    use super::*;

    #[test]
    fn what_is_lost_is_told_with_its_keys() {
        let lost = Lost {
            what: "node",
            address: BlockPlace { class: 1, vdev: 0, block: 9 },
            dataset: Some("db0".into()),
            keys: Some(KeyRange::new(*b"a\0", None)),
            why: "two checksums differ".into(),
        };
        let report = ScrubReport {
            is_complete: true,
            bytes: 8192,
            extents: 2,
            damaged: 3,
            repaired: 1,
            lost: 2,
            errors: vec![lost],
            second: 0,
        };
        assert_eq!(
            losses(&report),
            "lost: the node at class 1, vdev 0, block 9 of `db0`, keys from `a\\0` on: two checksums differ\n\
             lost: 1 more\n"
        );
        assert_eq!(
            state(Some(&report)),
            "complete, 1970-01-01T00:00:00Z: 2 extents, 8.0 KiB read, 3 damaged, 1 repaired, 2 lost"
        );
        let json = as_json(&report);
        assert_eq!((&json["errors"][0]["from"], &json["lost"]), (&json!("a\\0"), &json!(2)));
        assert_eq!(json["errors"][0]["to"], Value::Null);
        assert_eq!(state(None), "none");
    }
}
