//! Progress bars, for people at a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

const BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const BYTES_OF_STREAM: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";
const RECORDS: &str = "{msg} {wide_bar} {human_pos}/{human_len} records {eta}";
const ROWS: &str = "{msg} {spinner} {human_pos} rows {per_sec}";
const SHARE: &str = "{msg} {wide_bar} {percent}% {elapsed} {eta}";
const LAB: &str = "{wide_bar} {percent}% {elapsed} {msg}";

/// The length of a bar over shares.
const THOUSANDTHS: u64 = 1000;

/// A bar over bytes; without a length, a spinner that counts them.
pub(crate) fn bytes(doing: &'static str, len: Option<u64>) -> ProgressBar {
    let template = if len.is_some() { BYTES } else { BYTES_OF_STREAM };
    bar(doing, len, template)
}

/// A bar over records.
pub(crate) fn records(doing: &'static str, len: u64) -> ProgressBar {
    bar(doing, Some(len), RECORDS)
}

/// A spinner that counts rows, as their number is not known before.
pub(crate) fn rows(doing: &'static str) -> ProgressBar {
    bar(doing, None, ROWS)
}

/// A bar over shares of the whole, for [`set`].
pub(crate) fn share(doing: &'static str) -> ProgressBar {
    bar(doing, Some(THOUSANDTHS), SHARE)
}

/// Moves a bar of [`share`] to `done` of `all`.
pub(crate) fn set(bar: &ProgressBar, done: u128, all: u128) {
    let share = done.saturating_mul(THOUSANDTHS.into()) / all.max(1);
    bar.set_position(u64::try_from(share).unwrap_or(THOUSANDTHS).min(THOUSANDTHS));
}

/// A bar over the budget of a lab, in thousandths; its message has the counts so far.
pub(crate) fn lab() -> ProgressBar {
    bar("", Some(THOUSANDTHS), LAB)
}

/// It is drawn on standard error, only where both it and standard output are a terminal, and it is removed at the end.
fn bar(doing: &'static str, len: Option<u64>, template: &str) -> ProgressBar {
    if !(io::stderr().is_terminal() && io::stdout().is_terminal()) {
        return ProgressBar::hidden();
    }
    let bar = len.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(doing).with_finish(ProgressFinish::AndClear)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_well_formed() {
        for template in [BYTES, BYTES_OF_STREAM, RECORDS, ROWS, SHARE, LAB] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
