//! The promises of a report, for any rows.
#![forbid(unsafe_code)]

mod fixture;

use std::fs;

use halite_bench::{Error, Params, Row, html};
use serde_json::json;

fn page(rows: &[Row]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = html::write(rows, &folder.path().join("new/report")).expect("a report");
    fs::read_to_string(file).expect("its text")
}

fn row(experiment: &str, subject: &str, params: serde_json::Value, value: f64) -> Row {
    Row {
        experiment: experiment.to_owned(),
        subject: subject.to_owned(),
        params: params.as_object().cloned().unwrap_or_else(Params::new),
        metric: "throughput".to_owned(),
        unit: "op/s".to_owned(),
        value,
        min: value,
        max: value,
        limit: None,
        source: None,
    }
}

/// Every element of every chart is closed, every attribute quoted, every coordinate a number.
fn assert_charts_are_well_formed(html: &str) {
    let mut rest = html;
    while let Some(start) = rest.find("<svg") {
        let end =
            rest[start..].find("</svg>").expect("an end of the chart") + start + "</svg>".len();
        let svg = &rest[start..end];
        let mut open: Vec<&str> = Vec::new();
        let mut pieces = svg.split('<');
        assert_eq!(pieces.next(), Some(""));
        for piece in pieces {
            let (tag, text) = piece.split_once('>').expect("an end of the tag");
            assert!(!text.contains('>'), "{piece}");
            for reference in text.split('&').skip(1).chain(tag.split('&').skip(1)) {
                let name = reference.split_once(';').map(|(name, _)| name);
                assert!(matches!(name, Some("amp" | "lt" | "gt" | "quot" | "#39")), "{piece}");
            }
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{svg}");
                continue;
            }
            let name = tag.split([' ', '/']).next().expect("a name");
            assert!(["svg", "path", "text", "rect", "title"].contains(&name), "{tag}");
            let quotes: Vec<&str> = tag.split('"').collect();
            assert_eq!(quotes.len() % 2, 1, "{tag}");
            for (place, quoted) in quotes.iter().enumerate().filter(|(place, _)| place % 2 == 1) {
                assert!(quotes[place - 1].ends_with('='), "{tag}");
                let drawing = !quotes[place - 1].ends_with("label=")
                    && !quotes[place - 1].ends_with("class=");
                assert!(!(drawing && (quoted.contains("NaN") || quoted.contains("inf"))), "{tag}");
            }
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{svg}");
        rest = &rest[end..];
    }
}

/// The cells of all tables.
fn cells(html: &str) -> Vec<Vec<&str>> {
    let rows = html.split("\n<tr>").skip(1).map(|row| row.split("\n<").next().unwrap_or(row));
    let rows = rows.map(|row| row.split('\n').next().unwrap_or(row));
    rows.map(|row| row.split("<td>").skip(1).collect()).collect()
}

#[test]
fn a_whole_run_is_one_file_that_loads_nothing() {
    let html = page(&fixture::rows(false));
    for forbidden in ["http://", "https://", "<script", "src=", "@import", "url(", "<link", "//cdn"]
    {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
    assert_charts_are_well_formed(&html);
    assert!(html.matches("<figure").count() >= 18, "{}", html.matches("<figure").count());
    for figure in [
        "Fig. 1:",
        "Fig. 2:",
        "Fig. 3:",
        "Fig. 4, Table 2:",
        "Fig. 5:",
        "Fig. 7a, b:",
        "Fig. 7c:",
        "Fig. 8:",
        "Fig. 10:",
        "Fig. 12a:",
        "Fig. 12b, c:",
        "Lersch, Fig. 5.9a:",
        "Lersch, Fig. 5.11, 5.12:",
        "Lersch, Fig. 5.13 to 5.16:",
        "Lersch, Fig. 5.17:",
        "Lersch, Fig. 5.18:",
        "Lersch, Table 5.1:",
    ] {
        assert!(html.contains(&format!("<h4>{figure}")), "{figure}");
    }
    assert!(!html.contains("Interrupted"));
}

#[test]
fn every_row_is_in_a_table() {
    let rows = fixture::rows(false);
    let html = page(&rows);
    let cells = cells(&html);
    let count = rows.iter().filter(|row| row.experiment != "run").count();
    assert_eq!(cells.len(), count);
    let mut wanted: Vec<(&str, &str, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.experiment != "run") {
        wanted.push((&row.subject, &row.metric, row.value));
    }
    let mut shown: Vec<(&str, &str, f64)> = Vec::new();
    for row in &cells {
        let [.., subject, metric, value, _, _, _] = row[..] else { panic!("{row:?}") };
        shown.push((subject, metric, number(value)));
    }
    // Rounding to three digits keeps the order.
    for list in [&mut wanted, &mut shown] {
        list.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
    }
    for (wanted, shown) in wanted.iter().zip(&shown) {
        assert_eq!((wanted.0, wanted.1), (shown.0, shown.1));
        assert!((wanted.2 - shown.2).abs() <= 0.006 * wanted.2.abs(), "{wanted:?} {shown:?}");
    }
}

/// The value that a text shows.
fn number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && !".-".contains(c)).unwrap_or(text.len());
    let (number, prefix) = (&text[..end], text[end..].trim_start());
    let factor = match prefix {
        p if p.starts_with("GB") => 1e9,
        p if p.starts_with("MB") || p.starts_with("M ") || p.starts_with("ms") => 1e6,
        p if p.starts_with("kB") || p.starts_with("k ") || p.starts_with("µs") => 1e3,
        _ => 1.0,
    };
    number.parse::<f64>().expect("a number") * factor
}

#[test]
fn an_interrupted_run_says_so() {
    assert!(page(&fixture::rows(true)).contains("<p class=\"banner\" role=\"status\">Interrupted"));
    assert!(page(&fixture::rows(true)).contains("<dt>processor<dd>Intel(R)"));
}

#[test]
fn names_from_outside_are_text() {
    let evil = "</svg><script>alert('x')</script>&\"\u{1b}[2J";
    let rows = [
        row("kv.ycsb-a", evil, json!({ "threads": 1, evil: evil }), 1e6),
        row(evil, evil, json!({ "bytes": 64, evil: 1 }), 2e6),
        row(evil, evil, json!({ "bytes": 128, evil: 2 }), 3e6),
        row(evil, evil, json!({ "bytes": 256, evil: 3 }), 3e6),
        Row {
            metric: evil.to_owned(),
            unit: evil.to_owned(),
            ..row("run", evil, json!({ evil: evil }), 1.0)
        },
        Row {
            metric: evil.to_owned(),
            unit: evil.to_owned(),
            ..row("blocks.cell", evil, json!({}), 1.0)
        },
    ];
    let html = page(&rows);
    assert!(!html.contains("<script") && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    assert_charts_are_well_formed(&html);
}

#[test]
fn nothing_and_little_are_reports_too() {
    assert!(page(&[]).contains("Nothing was measured."));
    for experiment in ["blocks.log", "blocks.page", "device.persist", "kv.ycsb-a", "something.else"]
    {
        let html = page(&[row(experiment, "only", json!({"bytes": 64}), 5e5)]);
        assert_charts_are_well_formed(&html);
        assert!(
            html.contains("<figure") && html.contains("<td>500 k op/s"),
            "{experiment}: {html}"
        );
    }
    let bare = Row { unit: String::new(), metric: String::new(), ..row("", "", json!({}), 0.0) };
    let html = page(&[bare]);
    assert_charts_are_well_formed(&html);
    assert_eq!(cells(&html).len(), 1);
}

#[test]
fn values_that_no_axis_shows_are_in_the_table() {
    let odd =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -5.0, 0.0, 1e-320, 1e12];
    for experiment in ["blocks.log", "device.persist", "other"] {
        for params in [json!({"pattern": "same"}), json!({})] {
            let mut rows = Vec::new();
            for (place, &value) in odd.iter().enumerate() {
                for other in odd {
                    let mut params = params.clone();
                    params["bytes"] = json!(64 * (place + 1));
                    let mut row = row(experiment, &format!("subject {other:e}"), params, value);
                    (row.min, row.max) = (other, value);
                    (row.limit, row.source) = (Some(other), Some(value));
                    rows.push(row);
                }
            }
            let html = page(&rows);
            assert_charts_are_well_formed(&html);
            assert_eq!(cells(&html).len(), rows.len());
            assert!(html.contains("<td>NaN<td>") && html.contains("<td>∞ op/s"));
            assert!(html.contains("Not in the chart: "));
        }
    }
}

#[test]
fn numbers_at_any_distance_are_an_axis() {
    for places in
        [[0.0, 1e-9, 5e-9], [-1e18, 0.0, 1e18], [1.0, 2.0, 1e15], [7.0, 7.000_000_1, 7.000_000_2]]
    {
        let rows = places.map(|place| row("other", "one", json!({ "place": place }), 1.0));
        assert_charts_are_well_formed(&page(&rows));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    let below = file.join("report");
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("index.html")).expect("a folder in the way");
    for place in [&file, &below, &taken] {
        for error in [html::check(place).err(), html::write(&[], place).err()] {
            let error = error.expect("an error");
            assert!(matches!(error, Error::Unwritable { .. } | Error::Write { .. }), "{error:?}");
            assert!(error.to_string().contains(&*place.to_string_lossy()), "{error}");
        }
    }
}

#[test]
fn checking_makes_the_folder_and_leaves_an_older_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("a/b");
    html::check(&place).expect("a folder that can be written");
    assert_eq!(fs::read_dir(&place).expect("the folder").count(), 0);
    let file = html::write(&[], &place).expect("a report");
    let before = fs::read(&file).expect("its text");
    html::check(&place).expect("still");
    assert_eq!(fs::read(&file).expect("its text"), before);
}
