//! The figures of servers under load, which redraw those of Lersch's thesis.

use crate::html::figures::{BY_PERCENTILE, Figure, Form, LINES, PERCENTILES, Topic};

const SERVERS: &str = "Servers over the network";

/// The topics of `halite bench rstore`, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: SERVERS,
        title: "Servers",
        experiments: &["rstore.subject"],
        table_open: true,
        figures: &[],
    },
    Topic {
        part: SERVERS,
        title: "Throughput of servers",
        experiments: &["rstore.throughput"],
        table_open: false,
        figures: &[Figure {
            number: "Lersch, Fig. 5.11, 5.12",
            title: "YCSB over the network",
            caption: "Gets and puts of records that are there: 90 % gets, half of each, 90 % puts; \
                      with one request at a time on a connection, and with sixteen. Durability is \
                      not the same for all: it stands above. In the thesis RStore is slightly above \
                      memcached with values of 1000 bytes and slightly below with 100; Redis and \
                      RocksDB are behind.",
            form: Form::Bars,
            x: &["mix"],
            x_label: "Mix",
            same_scale: false,
            ..LINES
        }],
    },
    Topic {
        part: SERVERS,
        title: "Tail latency of servers",
        experiments: &["rstore.tail", "rstore.capacity"],
        table_open: false,
        figures: &[
            Figure {
                number: "Lersch, Fig. 5.13 to 5.16",
                title: "Tail latency on a schedule",
                caption: "Latencies from when a request was due, at parts of the throughput that \
                          the slowest server sustains. A good tail is low and flat.",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                same_scale: false,
                keep: |row| row.experiment == "rstore.tail" && row.metric.starts_with("latency"),
                ..LINES
            },
            Figure {
                title: "What servers sustain",
                caption: "Throughput of a closed loop, which the schedules are derived from.",
                form: Form::Bars,
                x: &["mix"],
                x_label: "Mix",
                keep: |row| row.experiment == "rstore.capacity",
                ..LINES
            },
        ],
    },
    Topic {
        part: SERVERS,
        title: "Collection",
        experiments: &["rstore.gc*"],
        table_open: false,
        figures: &[
            Figure {
                number: "Lersch, Fig. 5.9b",
                title: "Throughput of updates, by fill",
                caption: "Updates alone, in a store that is filled to so many percent. RocksDB holds \
                          the same records and has no limit.",
                form: Form::Bars,
                x: &["fill"],
                x_label: "Fill in percent",
                keep: |row| row.experiment == "rstore.gc",
                ..LINES
            },
            Figure {
                number: "Lersch, Fig. 5.9a",
                title: "Tail latency of updates, by fill",
                caption: "On a schedule that all easily sustain.",
                metric: "put-p99.9",
                form: Form::Bars,
                x: &["fill"],
                x_label: "Fill in percent",
                y_label: "p99.9",
                keep: |row| row.experiment == "rstore.gc-tail",
                ..LINES
            },
            Figure {
                title: "What a full store loses",
                caption: "By how much the throughput is lower at 90 % than at 30 %. The thesis found \
                          7 % for RStore and 38 % for RocksDB.",
                metric: "throughput-drop",
                form: Form::Bars,
                x: &["distribution"],
                x_label: "Distribution",
                y_label: "Drop",
                ..LINES
            },
            Figure {
                title: "Write amplification of collection",
                caption: "Records written for each record that is updated, under uniform updates; \
                          the limit is what greedy collection comes to by theory.",
                metric: "collection-amplification",
                x: &["fill"],
                x_label: "Fill in percent",
                y_label: "Written for each",
                ..LINES
            },
            Figure {
                title: "Bytes written for each byte of keys and values",
                caption: "",
                metric: "write-amplification",
                x: &["fill"],
                x_label: "Fill in percent",
                y_label: "Written for each",
                ..LINES
            },
        ],
    },
    Topic {
        part: SERVERS,
        title: "Recovery of servers",
        experiments: &["rstore.recovery"],
        table_open: false,
        figures: &[
            Figure {
                title: "Time to the first answer",
                caption: "From the start of the process, after it was killed or had ended as asked.",
                metric: "first-answer",
                form: Form::Bars,
                x: &["ended"],
                x_label: "How it had ended",
                y_label: "Time",
                ..LINES
            },
            Figure {
                title: "Time to answers from all partitions",
                caption: "Until keys all over the key space were answered.",
                metric: "all-answers",
                form: Form::Bars,
                x: &["ended"],
                x_label: "How it had ended",
                y_label: "Time",
                ..LINES
            },
        ],
    },
    Topic {
        part: SERVERS,
        title: "Memory and cost",
        experiments: &["rstore.memory"],
        table_open: false,
        figures: &[
            Figure {
                number: "Lersch, Fig. 5.18",
                title: "DRAM of a record",
                caption: "Beyond what an empty server takes.",
                metric: "dram",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "DRAM",
                ..LINES
            },
            Figure {
                title: "Storage of a record",
                caption: "What the files of a server's folder take; of Redis, its log of writes, \
                          which the thesis did not have.",
                metric: "storage",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "Storage",
                ..LINES
            },
            Figure {
                number: "Lersch, Table 5.1",
                title: "Cost of 16 GB of values",
                caption: "DRAM and storage at the run's prices.",
                metric: "cost",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "Cost",
                ..LINES
            },
        ],
    },
    Topic {
        part: SERVERS,
        title: "Scans over the network",
        experiments: &["rstore.scans"],
        table_open: false,
        figures: &[Figure {
            number: "Lersch, Fig. 5.17",
            title: "Scans",
            caption: "Requests of SCAN a second, by the number of keys that each returns. The \
                      thesis' scans return records, and saturate the network.",
            form: Form::LinesLog,
            x: &["count"],
            x_label: "Keys of a scan",
            ..LINES
        }],
    },
    Topic {
        part: SERVERS,
        title: "Scaling of servers",
        experiments: &["rstore.scaling"],
        table_open: false,
        figures: &[Figure {
            title: "Throughput by threads",
            caption: "The balanced mix, pipelines of sixteen.",
            form: Form::Bars,
            x: &["server-threads"],
            x_label: "Threads of the server",
            ..LINES
        }],
    },
    Topic {
        part: SERVERS,
        title: "Loading of servers",
        experiments: &["rstore.load"],
        table_open: false,
        figures: &[Figure {
            title: "Inserts with deep pipelines",
            caption: "The load phases of the experiments.",
            form: Form::Bars,
            x: &["before"],
            x_label: "Before which experiment",
            ..LINES
        }],
    },
];
