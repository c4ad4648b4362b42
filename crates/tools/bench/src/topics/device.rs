//! The figures of the medium.

use crate::html::figures::{Figure, Form, LINES, Topic};
use crate::row::Row;

const DEVICE: &str = "The device";

/// Fig. 4 has the size of the medium's block, and sizes far above it.
fn one_block_or_many(row: &Row) -> bool {
    let bytes = |name: &str, unit: u64| Some(row.params.get(name)?.as_u64()?.saturating_mul(unit));
    let bytes = bytes("bytes", 1).or(bytes("lines", 64)).or(bytes("granularity", 1));
    bytes.is_none_or(|bytes| bytes == 256 || bytes >= 1 << 20)
}

/// Their topics, in the order of the report.
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
];
