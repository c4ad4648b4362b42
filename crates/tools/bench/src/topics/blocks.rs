//! The figures of the building blocks, which redraw those of van Renen et al.

use crate::html::figures::{Figure, Form, LINES, Topic};
use crate::row::Row;

const BLOCKS: &str = "Building blocks";

/// The pages of Fig. 7c have all their lines dirty.
fn whole_page_dirty(row: &Row) -> bool {
    let number = |name: &str| row.params.get(name).and_then(serde_json::Value::as_u64);
    match (number("page"), number("dirty")) {
        (Some(page), Some(dirty)) => dirty.saturating_mul(64) >= page,
        _ => true,
    }
}

/// Their topics, in the order of the report.
pub(crate) static TOPICS: &[Topic] = &[
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
];
