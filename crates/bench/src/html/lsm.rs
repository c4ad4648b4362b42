//! The figures of the LSM engine, which redraw those of Yan et al.

use super::figures::{Figure, Form, LINES, Topic};

const LSM: &str = "The LSM engine";

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[Topic {
    part: LSM,
    title: "Allocation in persistent memory",
    experiments: &["lsm.halloc"],
    table_open: false,
    figures: &[
        Figure {
            number: "Yan, Fig. 17",
            title: "What an allocation takes",
            caption: "Each durable before the next; nothing is written to what is allocated. The \
                      paper found less than a microsecond at every size, zones below pools, and \
                      pmemobj the slowest.",
            metric: "latency",
            form: Form::LinesLog,
            x: &["bytes"],
            x_label: "Bytes of an allocation",
            y_label: "Latency",
            ..LINES
        },
        Figure {
            title: "What a release takes",
            caption: "One object after the other, each durable before the next; all of a zone at once.",
            metric: "release-latency",
            form: Form::LinesLog,
            x: &["bytes"],
            x_label: "Bytes of an allocation",
            y_label: "Latency",
            ..LINES
        },
    ],
}];
