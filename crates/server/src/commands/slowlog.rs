//! SLOWLOG and LATENCY: what took long.

use std::fmt::Write as _;

use crate::call::Call;
use crate::failure::Outcome;
use crate::shared::lock;

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => 10,
        3 => match call.integer(2)? {
            -1 => usize::MAX,
            count => usize::try_from(count)
                .map_err(|_| "ERR count should be greater than or equal to -1")?,
        },
        _ => return Err("ERR wrong number of arguments for 'slowlog|get' command".into()),
    };
    let entries = lock(&call.service.shared.slowlog).newest(count);
    let mut reply = call.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.at_s as i64);
        reply.integer(entry.took_us as i64);
        reply.array(entry.words.len());
        entry.words.iter().for_each(|word| reply.bulk(word));
        reply.bulk(entry.addr.to_string().as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}

pub(super) fn len(call: &mut Call<'_>) -> Outcome {
    let len = lock(&call.service.shared.slowlog).len();
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    lock(&call.service.shared.slowlog).clear();
    call.reply().ok();
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    Returns the newest slow commands, 10 if no count is given, all for -1.",
        "LEN",
        "    Counts the slow commands that are kept.",
        "RESET",
        "    Forgets them.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

pub(super) fn latest(call: &mut Call<'_>) -> Outcome {
    let shared = std::sync::Arc::clone(&call.service.shared);
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
    let shared = std::sync::Arc::clone(&call.service.shared);
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

pub(super) fn reset_latency(call: &mut Call<'_>) -> Outcome {
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

pub(super) fn help_latency(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Sums the spikes up.",
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
