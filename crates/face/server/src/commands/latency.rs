//! LATENCY: latency spikes by event, and the execution times of commands.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::call::{Call, is};
use crate::clock::unix_time;
use crate::command_stats::Calls;
use crate::failure::{Failure, Outcome};
use crate::lock::lock;

pub(super) fn latest(call: &mut Call<'_>) -> Outcome {
    let shared = Arc::clone(&call.service.shared);
    let latency = lock(&shared.latency);
    let mut reply = call.reply();
    reply.array(latency.events().len());
    for (name, event) in latency.events() {
        let (at_s, ms) = event.samples.back().copied().unwrap_or_default();
        reply.array(4);
        reply.bulk(name.as_bytes());
        [at_s, ms, event.max_ms].into_iter().for_each(|number| reply.integer(number as i64));
    }
    Ok(())
}

pub(super) fn history(call: &mut Call<'_>) -> Outcome {
    let shared = Arc::clone(&call.service.shared);
    let latency = lock(&shared.latency);
    let samples = latency.event(call.arg(2)).map(|event| &event.samples);
    let mut reply = call.reply();
    reply.array(samples.map_or(0, |samples| samples.len()));
    for (at_s, ms) in samples.into_iter().flatten() {
        reply.array(2);
        reply.integer(*at_s as i64);
        reply.integer(*ms as i64);
    }
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    let names = call.args.from(2);
    let count = {
        let mut latency = lock(&call.service.shared.latency);
        match names.is_empty() {
            true => latency.reset(None),
            false => names.iter().map(|name| latency.reset(Some(name))).sum(),
        }
    };
    call.reply().integer(count as i64);
    Ok(())
}

pub(super) fn doctor(call: &mut Call<'_>) -> Outcome {
    let mut text = String::new();
    if call.service.settings.latency_threshold_ms == 0 {
        text.push_str(
            "Latency is not monitored. `CONFIG SET latency-monitor-threshold <milliseconds>` \
             begins.\n",
        );
    }
    for (name, event) in lock(&call.service.shared.latency).events() {
        let count = event.samples.len();
        let sum: u64 = event.samples.iter().map(|(_, ms)| ms).sum();
        let mean = sum / (count as u64).max(1);
        let _ = writeln!(
            text,
            "{name}: {count} spikes, {mean} ms on average, {} at most.",
            event.max_ms
        );
    }
    if text.is_empty() {
        text.push_str("No spike of latency was seen.\n");
    }
    call.reply().verbatim(&text);
    Ok(())
}

/// Lines of a graph, and spikes in it.
const HEIGHT: u64 = 4;
const WIDTH: usize = 80;

pub(super) fn graph(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    let text = {
        let latency = lock(&call.service.shared.latency);
        let Some(event) = latency.event(name) else {
            return Err(Failure::quoting("ERR No samples available for event '", name, "'"));
        };
        let first = event.samples.len().saturating_sub(WIDTH);
        let samples: Vec<_> = event.samples.iter().skip(first).copied().collect();
        draw(&String::from_utf8_lossy(name), &samples, event.max_ms, unix_time().as_secs())
    };
    call.reply().verbatim(&text);
    Ok(())
}

/// Draws spikes as columns between the lowest and the highest, with their ages below, top down.
fn draw(name: &str, samples: &[(u64, u64)], max_ms: u64, now_s: u64) -> String {
    let high = samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {max_ms} ms)\n");
    let _ = writeln!(text, "{}", "-".repeat(WIDTH));
    let height = |ms: u64| 1 + (ms - low) * (HEIGHT - 1) / (high - low).max(1);
    for line in (1..=HEIGHT).rev() {
        let column = |&(_, ms): &(u64, u64)| match height(ms) {
            top if top < line => ' ',
            _ if line == 1 => '_',
            _ => '#',
        };
        let line: String = samples.iter().map(column).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let ages: Vec<_> = samples.iter().map(|(at_s, _)| age(now_s.saturating_sub(*at_s))).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    text.push('\n');
    for row in 0..longest {
        let letter =
            |age: &String| age.as_bytes().get(row).map_or(' ', |&letter| char::from(letter));
        let line: String = ages.iter().map(letter).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

pub(super) fn histogram(call: &mut Call<'_>) -> Outcome {
    let mut found = Vec::new();
    let wanted = call.args.from(2);
    // The name of a command is that of all its parts, too.
    let is_wanted = |name: &str| {
        let whole = name.split('|').next().unwrap_or(name);
        wanted.iter().any(|word| is(word, name) || is(word, whole))
    };
    for (name, calls) in call.service.shared.commands.since_reset().commands {
        call.check_ending()?;
        if calls.histogram.calls() > 0 && (wanted.is_empty() || is_wanted(name)) {
            found.push((name, calls));
        }
    }
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, Calls { histogram, .. }) in found {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(histogram.calls() as i64);
        reply.bulk(b"histogram_usec");
        let cumulative = histogram.cumulative();
        reply.map(cumulative.len());
        for (us, count) in cumulative {
            reply.integer(us as i64);
            reply.integer(count as i64);
        }
    }
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Sums the spikes up.",
        "GRAPH <event>",
        "    Draws the spikes of an event.",
        "HISTOGRAM [<command> ...]",
        "    Tells how many commands took how long.",
        "HISTORY <event>",
        "    Returns the spikes of an event: seconds since 1970, milliseconds.",
        "LATEST",
        "    Returns the last spike of each event, and the longest.",
        "RESET [<event> ...]",
        "    Forgets events, or all.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_a_column_for_each_spike() {
        let text = draw("command", &[(0, 10), (950, 40), (998, 20)], 100, 1000);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "command - high 40 ms, low 10 ms (all time high 100 ms)");
        assert_eq!(lines[2..], [" #", " #", " ##", "___", "", "152", "60s", "ms"]);
    }
}
