//! The figures of the LSM engine, which redraw those of Yan et al.

use crate::html::figures::{BY_EXPERIMENT, BY_PERCENTILE, Figure, Form, LINES, PERCENTILES, Topic};

const LSM: &str = "The LSM engine";

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: LSM,
        title: "YCSB, with persistent memory and with a log",
        experiments: &["lsm.ycsb*"],
        table_open: false,
        figures: &[
            Figure {
                number: "Yan, Fig. 10a",
                title: "Throughput, all records alike, and D by the latest",
                caption: "The paper found xp faster than xs by 3.8x in A, 2.7x in F, 1.7x in B and 1.4x in D, \
                          and alike in C and E.",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                keep: |row| row.params.get("distribution").is_none_or(|name| name != "zipfian"),
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 10a",
                title: "Throughput, zipfian",
                caption: "",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                keep: |row| row.params.get("distribution").is_some_and(|name| name == "zipfian"),
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 10b",
                title: "Latency in A, all records alike",
                caption: "Of one operation in eight, by chance.",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                same_scale: false,
                keep: |row| {
                    let alike =
                        row.params.get("distribution").is_some_and(|name| name == "uniform");
                    alike && row.experiment == "lsm.ycsb-a"
                },
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 10c",
                title: "Bytes written to the SSD for each operation",
                caption: "As the kernel counts them for the process. In A, xp wrote 94 % less than xs in the paper.",
                metric: "disk-written",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                y_label: "Written",
                keep: |row| row.params.get("distribution").is_none_or(|name| name != "zipfian"),
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 10c",
                title: "Processor time of an operation",
                caption: "Of all threads of the process, those that compact too.",
                metric: "cpu",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                y_label: "Time",
                keep: |row| row.params.get("distribution").is_none_or(|name| name != "zipfian"),
                ..LINES
            },
        ],
    },
    Topic {
        part: LSM,
        title: "The size of the database",
        experiments: &["lsm.size"],
        table_open: false,
        figures: &[Figure {
            number: "Yan, Fig. 12",
            title: "YCSB D while the database grows",
            caption: "Bytes of the database for each byte of persistent memory. From the smallest to six \
                      times as large, the paper's xp lost 27 % and its xs 88 %.",
            x: &["fill"],
            x_label: "Size of the database",
            ..LINES
        }],
    },
    Topic {
        part: LSM,
        title: "Memtables",
        experiments: &["lsm.memtable", "lsm.rebuild"],
        table_open: false,
        figures: &[
            Figure {
                number: "Yan, Fig. 14a, b",
                title: "Inserts",
                caption: "Fifty records at once. The paper found up to 5.9x of a skip list in sequence, and up \
                          to 2.9x at random.",
                metric: "insert-throughput",
                form: Form::Bars,
                x: &["order"],
                x_label: "Order of keys",
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 14c",
                title: "Lookups",
                caption: "The paper found up to 2.7x of a skip list.",
                metric: "lookup-throughput",
                form: Form::Bars,
                x: &["order"],
                x_label: "Order of keys",
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 14d",
                title: "Scans",
                caption: "The paper's skip list was faster: its records lie in DRAM.",
                metric: "scan-throughput",
                form: Form::Bars,
                x: &["order"],
                x_label: "Order of keys",
                ..LINES
            },
            Figure {
                title: "Rebuilding the index of a memtable",
                caption: "",
                metric: "rebuild",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "Time",
                ..LINES
            },
        ],
    },
    Topic {
        part: LSM,
        title: "Indexes in volatile memory",
        experiments: &["lsm.index"],
        table_open: false,
        figures: &[
            Figure {
                title: "Lookups in indexes",
                caption: "A lookup reads the record that it finds.",
                metric: "lookup-throughput",
                form: Form::Bars,
                x: &["keys"],
                x_label: "Keys",
                ..LINES
            },
            Figure {
                title: "Inserts into indexes",
                caption: "",
                metric: "insert-throughput",
                form: Form::Bars,
                x: &["keys"],
                x_label: "Keys",
                ..LINES
            },
            Figure {
                title: "Scans of 100 entries",
                caption: "",
                metric: "scan-throughput",
                form: Form::Bars,
                x: &["keys"],
                x_label: "Keys",
                ..LINES
            },
        ],
    },
    Topic {
        part: LSM,
        title: "Commits",
        experiments: &["lsm.commit", "lsm.commit-wait"],
        table_open: false,
        figures: &[
            Figure {
                number: "Yan, Fig. 16a",
                title: "Records inserted a second, by the records of a commit",
                caption: "The paper's throughput grew by 49x from 1 to 90.",
                x: &["batch"],
                x_label: "Records of a commit",
                keep: |row| row.experiment == "lsm.commit",
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 16a",
                title: "Latency of a commit, p99",
                caption: "",
                metric: "commit-p99",
                x: &["batch"],
                x_label: "Records of a commit",
                y_label: "Latency",
                keep: |row| row.experiment == "lsm.commit",
                ..LINES
            },
            Figure {
                number: "Yan, Fig. 16b",
                title: "Waiting for one another",
                caption: "Commits of one record.",
                x: &["threads"],
                x_label: "Threads",
                keep: |row| row.experiment == "lsm.commit-wait",
                ..LINES
            },
        ],
    },
    Topic {
        part: LSM,
        title: "The global index",
        experiments: &["lsm.global-index"],
        table_open: false,
        figures: &[Figure {
            number: "Yan, Fig. 15a to c",
            title: "Reads, scans and writes beside a tiered level zero",
            caption: "Nothing was merged into level one. The paper found up to 113x in reads and 21x in scans.",
            form: Form::Bars,
            x: &["value-len"],
            x_label: "Bytes of a value",
            same_scale: false,
            ..LINES
        }],
    },
    Topic {
        part: LSM,
        title: "Throughput over time",
        experiments: &["lsm.stability*"],
        table_open: false,
        figures: &[Figure {
            number: "Yan, Fig. 15d",
            title: "Half reads, half writes",
            caption: "The paper's xp lost up to 35 %, the others more than 85 %.",
            x: &["second"],
            x_label: "Seconds",
            keep: |row| row.experiment == "lsm.stability-over-time",
            ..LINES
        }],
    },
    Topic {
        part: LSM,
        title: "Recovery",
        experiments: &["lsm.recovery"],
        table_open: false,
        figures: &[
            Figure {
                number: "Yan, Fig. 18a",
                title: "Time to the first answer, for each GiB",
                caption: "After the process was killed.",
                metric: "first-answer-per-gib",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "Time",
                ..LINES
            },
            Figure {
                title: "Time to full speed, for each GiB",
                caption: "",
                metric: "full-speed-per-gib",
                form: Form::Bars,
                x: &["value-len"],
                x_label: "Bytes of a value",
                y_label: "Time",
                ..LINES
            },
        ],
    },
    Topic {
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
    },
];
