//! The progress of a run, for a person at a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Watch;

const TEMPLATE: &str = "{bar:20} {pos}/{len} {elapsed}, {eta} left  {wide_msg}";

/// A bar over measurements on standard error; hidden if that is no terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style);
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }
}

impl Watch for Progress {
    fn step(&self, done: u64, all: u64, what: &str) {
        self.0.set_length(all);
        self.0.set_position(done);
        self.0.set_message(what.to_owned());
    }
}

/// The bar is removed when it is dropped.
impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_well_formed() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
