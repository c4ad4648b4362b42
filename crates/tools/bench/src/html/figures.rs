//! The figures of the report, and the rows that each is drawn from.
//!
//! A topic takes the rows of its experiments; its figures are drawn from those of them that have their metric. Rows
//! that no figure takes are drawn by [`super::plot`]'s general choice, and every row is in the topic's table.

use crate::row::Row;

/// The names for the horizontal axis, or for the groups of bars: parameters, and these two.
pub(crate) const BY_EXPERIMENT: &str = "@experiment";
/// See [`BY_EXPERIMENT`]; for the metrics that [`PERCENTILES`] names.
pub(crate) const BY_PERCENTILE: &str = "@percentile";
/// The metrics `get-p50`, `get-p99.9`, `put-max`...
pub(crate) const PERCENTILES: &str = "@percentiles";

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Values over a number, evenly spaced.
    Lines,
    /// Values over the logarithm of a number.
    LinesLog,
    /// A bar a value.
    Bars,
}

/// Experiments that belong together.
pub(crate) struct Topic {
    /// The part of the report that it is in.
    pub(crate) part: &'static str,
    /// The heading.
    pub(crate) title: &'static str,
    /// Their names; one that ends in `*` is a prefix.
    pub(crate) experiments: &'static [&'static str],
    /// The figures.
    pub(crate) figures: &'static [Figure],
    /// Whether the table is the topic's main content, and so unfolded.
    pub(crate) table_open: bool,
}

/// A figure.
pub(crate) struct Figure {
    /// Its number in van Renen's paper, or in another source that it names; empty if no source has it.
    pub(crate) number: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// The finding in it, and that of the paper.
    pub(crate) caption: &'static str,
    /// The metric; a prefix, if it ends in `*`; all, if it is `*`.
    pub(crate) metric: &'static str,
    /// How it is drawn.
    pub(crate) form: Form,
    /// The horizontal axis or the groups: the first of these that rows have.
    pub(crate) x: &'static [&'static str],
    /// The label of that axis.
    pub(crate) x_label: &'static str,
    /// The label of the axis of values.
    pub(crate) y_label: &'static str,
    /// Subjects that end so have a panel of their own, beside that of the others: the ending and the
    /// two panels' names.
    pub(crate) split: Option<(&'static str, [&'static str; 2])>,
    /// Whether all panels have the same axis of values.
    pub(crate) same_scale: bool,
    /// Which rows it is about.
    pub(crate) keep: fn(&Row) -> bool,
}

/// Whether `name` is `pattern`, begins with the part of `pattern` before the `*` at its end, or is one of the
/// [`PERCENTILES`].
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if pattern == PERCENTILES {
        return percentile(name).is_some();
    }
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Splits `get-p99.9` into `get` and `p99.9`.
pub(crate) fn percentile(metric: &str) -> Option<(&str, &str)> {
    let (operation, rank) = metric.rsplit_once('-')?;
    let digits = rank.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
    (digits || rank == "max").then_some((operation, rank))
}

const DEVICE: &str = "The device";
const BLOCKS: &str = "Building blocks";
const STORES: &str = "Key-value stores";

const fn all(_: &Row) -> bool {
    true
}

/// The common settings of most figures.
pub(crate) const LINES: Figure = Figure {
    number: "",
    title: "",
    caption: "",
    metric: "throughput",
    form: Form::Lines,
    x: &[],
    x_label: "",
    y_label: "Throughput",
    split: None,
    same_scale: true,
    keep: all,
};

/// The pages of Fig. 7c have all their lines dirty.
fn whole_page_dirty(row: &Row) -> bool {
    let number = |name: &str| row.params.get(name).and_then(serde_json::Value::as_u64);
    match (number("page"), number("dirty")) {
        (Some(page), Some(dirty)) => dirty.saturating_mul(64) >= page,
        _ => true,
    }
}

/// Fig. 4 has the size of the medium's block, and sizes far above it.
fn one_block_or_many(row: &Row) -> bool {
    let bytes = |name: &str, unit: u64| Some(row.params.get(name)?.as_u64()?.saturating_mul(unit));
    let bytes = bytes("bytes", 1).or(bytes("lines", 64)).or(bytes("granularity", 1));
    bytes.is_none_or(|bytes| bytes == 256 || bytes >= 1 << 20)
}

/// All topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        part: DEVICE,
        title: "Read latency",
        experiments: &["device.read"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 1",
            title: "Read latency",
            caption: "Each load waits for the one before it. The steps are the caches; the last \
                      one is the medium. The paper measured random loads over 8 GB, and found \
                      Optane slower than DRAM by a factor of 3.3.",
            metric: "latency*",
            form: Form::LinesLog,
            x: &["bytes"],
            x_label: "Bytes that are read over",
            y_label: "Latency of a load",
            ..LINES
        }],
    },
    Topic {
        part: DEVICE,
        title: "Persist latency",
        experiments: &["device.persist"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 2",
            title: "Persistent write latency",
            caption: "The time until one stored line is durable, by where the next line lies and \
                      by instruction. The paper found about 100 ns, and much more where the same \
                      line is written back again and again, except with stores that bypass the \
                      cache.",
            metric: "latency*",
            form: Form::Bars,
            x: &["pattern"],
            x_label: "Where the next line lies",
            y_label: "Latency of a persist",
            ..LINES
        }],
    },
    Topic {
        part: DEVICE,
        title: "Bandwidth",
        experiments: &["device.bandwidth"],
        table_open: false,
        figures: &[
            Figure {
                number: "Fig. 3",
                title: "Bandwidth by access granularity",
                caption: "Random places, so many adjacent bytes each. The paper found that Optane \
                          needs multiples of 256 bytes, its internal block, and that DRAM does \
                          not care.",
                metric: "bandwidth*",
                form: Form::LinesLog,
                x: &["lines", "bytes", "granularity"],
                x_label: "Adjacent bytes or lines",
                y_label: "Bandwidth",
                same_scale: false,
                ..LINES
            },
            Figure {
                number: "Fig. 4, Table 2",
                title: "Bandwidth by threads",
                caption: "The paper's peaks: DRAM reads 113.8 GB/s with 15 threads and writes \
                          92.5 GB/s with 17; Optane reads 39.1 GB/s with 17 and writes 12.5 GB/s \
                          with 3, and less with more.",
                metric: "bandwidth*",
                x: &["threads"],
                x_label: "Threads",
                y_label: "Bandwidth",
                same_scale: false,
                keep: one_block_or_many,
                ..LINES
            },
        ],
    },
    Topic {
        part: DEVICE,
        title: "Interference",
        experiments: &["device.interference"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 5",
            title: "Readers beside another task",
            caption: "What is left to scans and lookups while another task runs beside them. In \
                      the paper, writers of persistent memory took scans of DRAM from 113.5 to \
                      65.6 GB/s (log) and 49.2 GB/s (pages), and scans of Optane from 40.3 to \
                      15.6 and 13.0 GB/s.",
            metric: "*",
            form: Form::Bars,
            x: &["beside"],
            x_label: "What runs beside",
            y_label: "",
            ..LINES
        }],
    },
    Topic {
        part: DEVICE,
        title: "Emulation profile",
        experiments: &["device.profile"],
        table_open: true,
        figures: &[],
    },
    Topic {
        part: BLOCKS,
        title: "Logs",
        experiments: &["blocks.log"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 8",
            title: "Transaction log: appends",
            caption: "Entries a second, each durable before the next. Entries that share a line \
                      with their neighbour (naive) write it twice in a row; aligned ones do not. \
                      The paper found alignment worth about 8x, and PopLog and RAWL, with one \
                      fence an entry, about twice as fast as Classic and Header.",
            x: &["entry_bytes", "bytes", "entry"],
            x_label: "Bytes of an entry",
            split: Some(("-naive", ["aligned", "naive"])),
            ..LINES
        }],
    },
    Topic {
        part: BLOCKS,
        title: "Logs, with preparation and reuse",
        experiments: &["blocks.log-cycle"],
        table_open: false,
        figures: &[Figure {
            title: "Transaction log: whole cycles",
            caption: "Appends, with the time counted that the log needs before it is first written \
                      and before it is used again. RAWL and PopLog rely on a log of zeros; the \
                      paper did not count what that takes.",
            x: &["entry_bytes", "bytes", "entry"],
            x_label: "Bytes of an entry",
            split: Some(("-naive", ["aligned", "naive"])),
            ..LINES
        }],
    },
    Topic {
        part: BLOCKS,
        title: "Page propagation",
        experiments: &["blocks.page"],
        table_open: false,
        figures: &[
            Figure {
                number: "Fig. 7a, b",
                title: "Failure-atomic page flush, by dirty lines",
                caption: "The micro log wins while few lines are dirty, copy-on-write after that; \
                          the hybrid is to follow the better of the two. In the paper, on pages \
                          of 16 KiB, they cross at 28 dirty lines (one thread) and 40 (seven).",
                form: Form::LinesLog,
                x: &["dirty"],
                x_label: "Dirty lines of a page",
                same_scale: false,
                ..LINES
            },
            Figure {
                number: "Fig. 7c",
                title: "Failure-atomic page flush, by threads",
                caption: "All lines dirty. In the paper, copy-on-write takes about 300 k pages a \
                          second with one thread and 700 k at its peak with five, 90 % of the \
                          bandwidth of its medium.",
                x: &["threads"],
                x_label: "Threads",
                same_scale: false,
                keep: whole_page_dirty,
                ..LINES
            },
        ],
    },
    Topic {
        part: BLOCKS,
        title: "In-place updates",
        experiments: &["blocks.cell"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 10",
            title: "Failure-atomic cells",
            caption: "FAM writes with one fence instead of two, and pays for it when it reads. The \
                      paper found twice the writes of the others for 16 bytes in sequence, and 1.6 \
                      times at random.",
            x: &["bytes"],
            x_label: "Bytes of a cell",
            same_scale: false,
            ..LINES
        }],
    },
    Topic {
        part: BLOCKS,
        title: "Interleaved inserts",
        experiments: &["blocks.insert"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 12a",
            title: "Interleaved inserts",
            caption: "Inserts into FPTree leaves that share one fence a group. The paper found 6.2 \
                      times the speed of one at a time, nearly all of it from a group of 20 on.",
            x: &["group"],
            x_label: "Operations in a group",
            ..LINES
        }],
    },
    Topic {
        part: BLOCKS,
        title: "Interleaved lookups",
        experiments: &["blocks.lookup"],
        table_open: false,
        figures: &[Figure {
            number: "Fig. 12b, c",
            title: "Interleaved lookups",
            caption: "Lookups in FPTree leaves that prefetch and yield. The paper found 5 times \
                      the speed of one at a time on Optane, and 2.6 times on DRAM.",
            x: &["group"],
            x_label: "Operations in a group",
            ..LINES
        }],
    },
    Topic {
        part: BLOCKS,
        title: "Switches of the executor",
        experiments: &["blocks.switch"],
        table_open: false,
        figures: &[Figure {
            title: "What a switch costs",
            caption: "The executor beside a state machine written by hand; the difference is what \
                      the abstraction costs.",
            metric: "*",
            form: Form::Bars,
            y_label: "",
            ..LINES
        }],
    },
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

/// The part and the heading of rows that no topic takes.
pub(crate) const OTHERS: &str = "Other experiments";
