//! CONFIG: the settings that clients can read, and those that they can change.
//!
//! `parameters` has a row for each setting; `change` finds the row of a name, whose values `values` reads.

use std::collections::BTreeSet;
use std::sync::Arc;

mod change;
mod other_names;
mod parameters;
mod values;

use change::change;
pub(crate) use change::{Refusal, assign};
use parameters::PARAMETERS;

use crate::acl::Acl;
use crate::call::{Call, is};
use crate::config_file;
use crate::failure::{Outcome, SYNTAX};
use crate::glob;
use crate::lock::lock;

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let patterns = call.args.from(2);
    let mut found = Vec::new();
    for parameter in PARAMETERS {
        let name = parameter.name.as_bytes();
        for pattern in patterns {
            let matches =
                glob::matches_ignoring_case(pattern, name, || call.check_ending().is_ok());
            call.check_ending()?;
            if matches {
                // A name that the client gives comes back as it gave it.
                let name = if pattern.eq_ignore_ascii_case(name) { pattern } else { name };
                found.push((name, (parameter.get)(call.service)));
                break;
            }
        }
    }
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// Changes all of some settings, or none of them.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    if call.args.len() % 2 == 1 {
        return Err(SYNTAX.into());
    }
    let words = call.args.from(2);
    call.service.change_users(call.client, |common| {
        let settings = change(&common.settings, words)?;
        common.settings = settings;
        let mut names = words.iter().step_by(2);
        if names.any(|name| is(name, "requirepass")) {
            let password = common.settings.requirepass.as_deref();
            common.acl = Arc::new(common.acl.with_default_password(password));
        }
        Outcome::Ok(())
    })?;
    call.reply().ok();
    Ok(())
}

pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.service.shared.commands.reset();
    lock(&call.service.shared.acl_log).reset_counts();
    call.service.change(|common| common.resets += 1);
    call.reply().ok();
    Ok(())
}

/// Writes the settings to the config file.
pub(super) fn rewrite(call: &mut Call<'_>) -> Outcome {
    let settings = &call.service.settings;
    let Some(file) = settings.config_file.clone() else {
        return Err("ERR The server is running without a config file".into());
    };
    let values: Vec<_> = PARAMETERS
        .iter()
        .map(|parameter| config_file::Value {
            name: parameter.name,
            value: match parameter.name {
                // CONFIG GET tells the size that the pool may grow to where there is no limit.
                "maxmemory" => settings.memory_max.to_string(),
                _ => (parameter.get)(call.service),
            },
            change: change_of(&settings.changed, parameter.name),
        })
        .collect();
    let users = settings.acl_file.is_none().then(|| users_to_write(call));
    let users = users.as_ref().map(|(users, are_others)| (&users[..], *are_others));
    let rewritten = config_file::rewrite(&file, &values, users);
    rewritten.map_err(|error| format!("ERR Rewriting config file: {error}"))?;
    call.reply().ok();
    Ok(())
}

/// The settings that have two names.
const TWO_NAMES: [(&str, &str); 6] = [
    ("busy-reply-threshold", "lua-time-limit"),
    ("hash-max-listpack-entries", "hash-max-ziplist-entries"),
    ("hash-max-listpack-value", "hash-max-ziplist-value"),
    ("list-max-listpack-size", "list-max-ziplist-size"),
    ("zset-max-listpack-entries", "zset-max-ziplist-entries"),
    ("zset-max-listpack-value", "zset-max-ziplist-value"),
];

/// Whether the setting of a name has changed, by this name or its other one.
fn change_of(changed: &BTreeSet<&str>, name: &str) -> config_file::Change {
    let other = TWO_NAMES.iter().find_map(|&(first, second)| match name {
        _ if name == first => Some(second),
        _ if name == second => Some(first),
        _ => None,
    });
    match () {
        () if changed.contains(name) => config_file::Change::Yes,
        () if other.is_some_and(|other| changed.contains(other)) => {
            config_file::Change::ByOtherName
        }
        () => config_file::Change::No,
    }
}

/// The users, as they are written to the config file, and whether they are others than those that a server without it would
/// have: then they need no lines.
fn users_to_write(call: &Call<'_>) -> (Vec<Vec<u8>>, bool) {
    let texts = |acl: &Acl| acl.iter().map(|user| user.describe()).collect::<Vec<_>>();
    let users = texts(&call.service.acl);
    let initial = Acl::new(call.service.settings.requirepass.as_deref());
    let are_others = users != texts(&initial);
    (users, are_others)
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Returns the parameters that match.",
        "SET <parameter> <value> [<parameter> <value> ...]",
        "    Changes parameters.",
        "RESETSTAT",
        "    Sets the counters of INFO to zero.",
        "REWRITE",
        "    Writes changed parameters to the config file.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
