//! The figures of the Bε-tree engine, which redraw those of Haura (Karim et al.).

use crate::html::figures::{BY_EXPERIMENT, BY_PERCENTILE, Figure, Form, LINES, PERCENTILES, Topic};

const BETREE: &str = "The Bε-tree engine";

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: BETREE,
        title: "Ways to persistent memory",
        experiments: &["betree.access"],
        table_open: false,
        figures: &[
            Figure {
                number: "Haura, Fig. 2",
                title: "Writes in sequence, each buffer durable",
                caption: "The paper found libpmem (pool) consistent, libpmemblk (blocks) worst with small buffers, and \
                          the file API far behind with small buffers, less so with large ones.",
                metric: "write",
                form: Form::LinesLog,
                x: &["buffer"],
                x_label: "Bytes of a buffer",
                ..LINES
            },
            Figure {
                number: "Haura, Fig. 2",
                title: "Reads in sequence",
                caption: "",
                metric: "read",
                form: Form::LinesLog,
                x: &["buffer"],
                x_label: "Bytes of a buffer",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Objects",
        experiments: &["betree.objects*"],
        table_open: false,
        figures: &[
            Figure {
                number: "Haura, Fig. 3",
                title: "Objects written, then read, over time",
                caption: "In the paper persistent memory was the fastest in writes, and behind an NVMe SSD in reads.",
                x: &["second"],
                x_label: "Seconds",
                keep: |row| row.experiment == "betree.objects-over-time",
                ..LINES
            },
            Figure {
                title: "Writes of all objects",
                caption: "The limit is a file of the medium that is written in sequence.",
                metric: "write",
                form: Form::Bars,
                x: &["medium"],
                x_label: "Medium",
                ..LINES
            },
            Figure {
                title: "Reads of all objects",
                caption: "The limit is a file of the medium that is read in sequence.",
                metric: "read",
                form: Form::Bars,
                x: &["medium"],
                x_label: "Medium",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Blocks of a medium",
        experiments: &["betree.block-size"],
        table_open: true,
        figures: &[
            Figure {
                number: "Haura, Fig. 4",
                title: "The time to read a block",
                caption: "In the paper, the lead of persistent memory was large with small blocks, and shrank.",
                metric: "read",
                form: Form::LinesLog,
                x: &["block"],
                x_label: "Bytes of a block",
                y_label: "Time",
                ..LINES
            },
            Figure {
                number: "Haura, Fig. 4",
                title: "The time to write a block durably",
                caption: "",
                metric: "write",
                form: Form::LinesLog,
                x: &["block"],
                x_label: "Bytes of a block",
                y_label: "Time",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Entries of an archive",
        experiments: &["betree.archive"],
        table_open: false,
        figures: &[Figure {
            number: "Haura, Fig. 5",
            title: "The time of a fetch, by the cache",
            caption: "In the paper it fell with workers and with the cache. Mixed: contents on the disk, all else in \
                      persistent memory.",
            metric: "time",
            form: Form::LinesLog,
            x: &["cache"],
            x_label: "Bytes of the cache",
            y_label: "Time",
            ..LINES
        }],
    },
    Topic {
        part: BETREE,
        title: "Sizes of nodes",
        experiments: &["betree.node-size"],
        table_open: false,
        figures: &[Figure {
            number: "Haura, Fig. 6",
            title: "Ingest, reads and scans, by the sizes of leaves and buffers",
            caption: "The geometric mean of the three. In the paper sizes decided, that of internal nodes \
                      (here: buffers) more than that of leaves.",
            metric: "geometric-mean",
            form: Form::LinesLog,
            x: &["leaf"],
            x_label: "Bytes of a leaf",
            keep: |row| row.params.contains_key("leaf"),
            ..LINES
        }],
    },
    Topic {
        part: BETREE,
        title: "Bytes written for a byte of the user",
        experiments: &["betree.in-place"],
        table_open: false,
        figures: &[
            Figure {
                number: "Haura, §6",
                title: "Bytes written for each byte of the user",
                caption: "Copy-on-write of nodes of 4 MiB is the paper's way; it asks for updates in place in persistent \
                          memory.",
                metric: "write-amplification",
                form: Form::Bars,
                x: &["op"],
                x_label: "Workload",
                y_label: "Written",
                ..LINES
            },
            Figure {
                number: "Haura, §6",
                title: "Throughput",
                caption: "",
                form: Form::Bars,
                x: &["op"],
                x_label: "Workload",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Random inserts, reads and scans beyond the cache",
        experiments: &["betree.insert", "betree.reads", "betree.scans"],
        table_open: false,
        figures: &[
            Figure {
                title: "Throughput",
                caption: "Inserts are records in commits of a thousand; a scan reads a thousand pairs.",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Work",
                same_scale: false,
                ..LINES
            },
            Figure {
                title: "Bytes written for each byte of the user",
                caption: "By calls of the kernel and in lines of the pool.",
                metric: "write-amplification",
                form: Form::Bars,
                x: &["medium"],
                x_label: "Medium",
                y_label: "Written",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "YCSB beside the LSM engine and peers",
        experiments: &["betree.ycsb*"],
        table_open: false,
        figures: &[
            Figure {
                title: "Throughput",
                caption: "Values of 1000 bytes; the data is eight times as large as the cache.",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                same_scale: false,
                ..LINES
            },
            Figure {
                title: "Bytes written for each operation",
                caption: "",
                metric: "written",
                form: Form::Bars,
                x: &[BY_EXPERIMENT],
                x_label: "Workload",
                y_label: "Written",
                same_scale: false,
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Commits",
        experiments: &["betree.commit"],
        table_open: false,
        figures: &[
            Figure {
                title: "Latency of a durable commit",
                caption: "",
                metric: PERCENTILES,
                x: &[BY_PERCENTILE],
                x_label: "Percentile",
                y_label: "Latency",
                same_scale: false,
                keep: |row| row.params.get("batch").is_some_and(|batch| *batch == 1),
                ..LINES
            },
            Figure {
                title: "Records a second, by the records of a commit",
                caption: "",
                form: Form::LinesLog,
                x: &["batch"],
                x_label: "Records of a commit",
                same_scale: false,
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Snapshots, clones, removals",
        experiments: &["betree.constant"],
        table_open: true,
        figures: &[],
    },
    Topic {
        part: BETREE,
        title: "Scrubs, damage, resilvering",
        experiments: &["betree.scrub", "betree.damage", "betree.resilver"],
        table_open: true,
        figures: &[Figure {
            title: "Bytes that a scrub reads and checks",
            caption: "The limit is a file of the medium that one thread reads in sequence.",
            metric: "read",
            form: Form::Bars,
            x: &["medium"],
            x_label: "Medium",
            keep: |row| row.experiment == "betree.scrub",
            ..LINES
        }],
    },
    Topic {
        part: BETREE,
        title: "Migration between storage classes",
        experiments: &["betree.migration"],
        table_open: false,
        figures: &[
            Figure {
                title: "Skewed reads",
                caption: "A fifth of the data fits in persistent memory; the rest lies on the disk.",
                form: Form::Bars,
                x: &["medium"],
                x_label: "Medium",
                ..LINES
            },
            Figure {
                title: "Reads that persistent memory served",
                caption: "",
                metric: "fast-share",
                form: Form::Bars,
                x: &["medium"],
                x_label: "Medium",
                y_label: "Share",
                ..LINES
            },
        ],
    },
    Topic {
        part: BETREE,
        title: "Targets",
        experiments: &["betree.targets"],
        table_open: true,
        figures: &[],
    },
];
