//! CONFIG: the settings that clients can read, and those that they can change.
//!
//! `parameters` has a row for each setting; `change` finds the row of a name, whose values `values` reads.

use std::sync::Arc;

mod change;
mod other_names;
mod parameters;
mod values;

use change::change;
pub(crate) use change::{Refusal, assign};
use parameters::PARAMETERS;

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
            is_changed: settings.changed.contains(parameter.name),
        })
        .collect();
    let rewritten = config_file::rewrite(&file, &values);
    rewritten.map_err(|error| format!("ERR Rewriting config file: {error}"))?;
    call.reply().ok();
    Ok(())
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
