//! The figures of stores under the workloads of YCSB and PiBench.

use crate::html::figures::{BY_EXPERIMENT, BY_PERCENTILE, Figure, Form, LINES, PERCENTILES, Topic};

const STORES: &str = "Key-value stores";

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: STORES,
        title: "YCSB",
        experiments: &["kv.ycsb*"],
        table_open: false,
        figures: &[
            Figure {
                title: "YCSB: throughput",
                caption: "A: half reads, half updates. B: 95 % reads. C: reads. D: reads of what \
                          was inserted last. E: short scans. F: read, then write back.",
                metric: "throughput",
                form: Form::Bars,
                x: &["workload", BY_EXPERIMENT],
                x_label: "Workload",
                ..LINES
            },
            Figure {
                title: "YCSB: latency",
                caption: "How long the operations took that were faster than all but a few: p99 is \
                          the latency that one in a hundred exceeds.",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                ..LINES
            },
        ],
    },
    Topic {
        part: STORES,
        title: "PiBench",
        experiments: &["kv.pibench*"],
        table_open: false,
        figures: &[
            Figure {
                title: "PiBench: throughput",
                caption: "One kind of operation at a time, over keys that are chosen uniformly or \
                          with skew (Lersch, appendix A).",
                metric: "throughput",
                form: Form::Bars,
                x: &["workload", "op", BY_EXPERIMENT],
                x_label: "Operation",
                ..LINES
            },
            Figure {
                title: "PiBench: latency",
                caption: "p99 is the latency that one operation in a hundred exceeds.",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                ..LINES
            },
        ],
    },
    Topic {
        part: STORES,
        title: "Other workloads",
        experiments: &["kv.*"],
        table_open: false,
        figures: &[
            Figure {
                title: "Other workloads: throughput",
                caption: "",
                metric: "throughput",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Operation",
                same_scale: false,
                ..LINES
            },
            Figure {
                title: "Other workloads: latency",
                caption: "p99 is the latency that one operation in a hundred exceeds.",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                same_scale: false,
                ..LINES
            },
        ],
    },
];
