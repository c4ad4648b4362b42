//! The statistics of commands, in the text format of Prometheus.
//!
//! A command has its series from its first call on, and there are as many commands as the table has: so the number of
//! series is bounded, as is that of the codes of errors.

use std::fmt::Write as _;

use crate::command_stats::{Calls, Totals};

/// The ends of the histogram's buckets: a microsecond, and four times as much for each, up to 16 seconds.
const PLACES: [usize; 13] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24];

/// Appends the metrics of commands and errors since the start. CONFIG RESETSTAT does not set them to zero.
pub(super) fn write(totals: &Totals, text: &mut String) {
    histogram(totals, text);
    counter(
        totals,
        text,
        "halite_command_failed_calls_total",
        "Calls that were executed, and answered with an error.",
        |calls| calls.failed,
    );
    counter(
        totals,
        text,
        "halite_command_rejected_calls_total",
        "Calls that were refused before they were executed.",
        |calls| calls.rejected,
    );
    let name = "halite_error_replies_total";
    head(text, name, "counter", "Error replies, by the code that they begin with.");
    for (code, count) in &totals.errors {
        let _ = writeln!(text, "{name}{{code=\"{}\"}} {count}", label(code));
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn histogram(totals: &Totals, text: &mut String) {
    let name = "halite_command_duration_seconds";
    head(
        text,
        name,
        "histogram",
        "How long commands took; neither waiting nor the fence is in it.",
    );
    for (command, calls) in &totals.commands {
        let all = calls.histogram.calls();
        for place in PLACES {
            let (end, count) = ((1_u64 << place) as f64 / 1e6, calls.histogram.up_to(place));
            let _ = writeln!(text, "{name}_bucket{{command=\"{command}\",le=\"{end}\"}} {count}");
        }
        let sum = calls.took_s();
        let _ = write!(
            text,
            "{name}_bucket{{command=\"{command}\",le=\"+Inf\"}} {all}\n\
             {name}_sum{{command=\"{command}\"}} {sum}\n\
             {name}_count{{command=\"{command}\"}} {all}\n"
        );
    }
}

fn counter(totals: &Totals, text: &mut String, name: &str, help: &str, of: fn(&Calls) -> u64) {
    head(text, name, "counter", help);
    for (command, calls) in &totals.commands {
        let _ = writeln!(text, "{name}{{command=\"{command}\"}} {}", of(calls));
    }
}

/// The value of a label, with escapes where the format needs them.
fn label(bytes: &[u8]) -> String {
    let mut label = String::new();
    for letter in String::from_utf8_lossy(bytes).chars() {
        match letter {
            '\\' | '"' => label.extend(['\\', letter]),
            '\n' => label.push_str("\\n"),
            _ => label.push(letter),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command_stats::AllStats;
    use crate::commands;

    #[test]
    fn a_bucket_has_all_that_are_shorter() {
        let all = AllStats::new(1);
        let get = commands::find(b"get").unwrap();
        for us in [1, 3, 5, 20_000_000] {
            all.of_thread(0).note(get, Duration::from_micros(us), us == 5);
        }
        all.of_thread(0).note_error(b"A\\\"\nB text");
        let mut text = String::new();
        write(&all.since_start(), &mut text);
        for line in [
            "halite_command_duration_seconds_bucket{command=\"get\",le=\"0.000001\"} 1",
            "halite_command_duration_seconds_bucket{command=\"get\",le=\"0.000004\"} 2",
            "halite_command_duration_seconds_bucket{command=\"get\",le=\"16.777216\"} 3",
            "halite_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"} 4",
            "halite_command_duration_seconds_sum{command=\"get\"} 20.000009",
            "halite_command_duration_seconds_count{command=\"get\"} 4",
            "halite_command_failed_calls_total{command=\"get\"} 1",
            "halite_command_rejected_calls_total{command=\"get\"} 0",
            "halite_error_replies_total{code=\"A\\\\\\\"\\nB\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
