//! SLOWLOG: the commands that took long.

use crate::call::Call;
use crate::failure::Outcome;
use crate::lock::lock;

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
