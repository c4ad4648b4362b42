//! The figures on the foundations of RStore's design, which redraw those of Lersch's thesis.

use crate::html::figures::{Figure, Form, LINES, Topic};

const RSTORE: &str = "RStore";

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: RSTORE,
        title: "Shared memory or messages",
        experiments: &["rstore.messages"],
        table_open: false,
        figures: &[
            Figure {
                number: "Lersch, Fig. 5.1a",
                title: "Increments of one counter",
                caption: "Under a mutex that all threads share, or by messages to the thread that \
                          owns the counter. The thesis found messages faster on a few cores and \
                          falling behind on many, where the mutex stayed constant.",
                x: &["threads"],
                x_label: "Threads",
                ..LINES
            },
            Figure {
                number: "Lersch, Fig. 5.1b",
                title: "What an increment costs",
                caption: "Time that the processors of all threads together are busy. The thesis \
                          found it growing with the cores under the mutex, and constant with \
                          messages.",
                metric: "cpu",
                x: &["threads"],
                x_label: "Threads",
                y_label: "Processor time",
                ..LINES
            },
        ],
    },
    Topic {
        part: RSTORE,
        title: "Prefetching in scans",
        experiments: &["rstore.prefetch"],
        table_open: false,
        figures: &[Figure {
            number: "Lersch, Fig. 5.6",
            title: "Scans of 100 records",
            caption: "Copied to a buffer, out of an array in key order, out of a log in the order of \
                      writing, and out of that with the next record on its way; with a predicate on \
                      each record there is more to do meanwhile. In the thesis prefetching brings the \
                      log nearer to the array, which stays ahead.",
            metric: "time",
            form: Form::LinesLog,
            x: &["record-len"],
            x_label: "Bytes of a record",
            y_label: "Time",
            ..LINES
        }],
    },
    Topic {
        part: RSTORE,
        title: "Scans of records",
        experiments: &["rstore.ranges"],
        table_open: false,
        figures: &[
            Figure {
                number: "Lersch, Fig. 5.17",
                title: "Ranges read whole",
                caption: "In this process, by one thread. The thesis' scans are over the network, \
                          which they saturate.",
                form: Form::LinesLog,
                x: &["count"],
                x_label: "Records of a scan",
                ..LINES
            },
            Figure {
                title: "Records read by scans",
                caption: "",
                metric: "pairs",
                form: Form::LinesLog,
                x: &["count"],
                x_label: "Records of a scan",
                ..LINES
            },
        ],
    },
];
