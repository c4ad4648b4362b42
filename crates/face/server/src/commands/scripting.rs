//! EVAL and its variants, FCALL, and SCRIPT.

use std::sync::Arc;

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome};
use crate::lock::lock;
use crate::number::parse_i64;
use crate::resp::Args;
use crate::script::libraries::Draft;
use crate::script::registry::Script;
use crate::script::run::{Program, check};
use crate::script::{Registry, run, sha1};

use super::Command;

/// Whether a command runs a script that names keys which it does not declare.
pub(crate) fn roams(registry: &Registry, command: &Command, args: Args<'_>) -> bool {
    if !registry.some_roam() {
        return false;
    }
    let Some(word) = args.get(1) else { return false };
    if command.name.starts_with("fcall") {
        let libraries = registry.libraries();
        return libraries.is_ok_and(|libraries| {
            libraries.function(word).is_some_and(|(library, _)| library.roams())
        });
    }
    let digest = if command.name.starts_with("evalsha") {
        sha1::parse(word)
    } else {
        Some(sha1::digest(word))
    };
    digest.and_then(|digest| registry.find(&digest)).is_some_and(|script| script.roams())
}

/// The keys and the arguments of a script. `wrong` is the error of a number of keys that is none.
fn words<'a>(call: &Call<'a>, wrong: &'static str) -> Outcome<(Args<'a>, Args<'a>)> {
    let count = parse_i64(call.arg(2)).ok_or(wrong)?;
    let words = call.args.from(3);
    if count > words.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    Ok((words.first(count), words.from(count)))
}

const NO_COUNT: &str = crate::failure::NOT_AN_INTEGER;
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

fn evaluate(call: &mut Call<'_>, is_read_only: bool) -> Outcome {
    let (keys, args) = words(call, NO_COUNT)?;
    let script = call.service.shared.scripts.evaluated(call.arg(1))?;
    run(call, Program::Script(&script), keys, args, is_read_only)
}

fn evaluate_known(call: &mut Call<'_>, is_read_only: bool) -> Outcome {
    // An unknown script is told of first.
    let digest = sha1::parse(call.arg(1)).ok_or(NO_SCRIPT)?;
    let known = call.service.shared.scripts.find(&digest);
    let (keys, args) = words(call, NO_COUNT)?;
    let script = known.ok_or(NO_SCRIPT)?;
    run(call, Program::Script(&script), keys, args, is_read_only)
}

pub(super) fn eval(call: &mut Call<'_>) -> Outcome {
    evaluate(call, false)
}

pub(super) fn eval_ro(call: &mut Call<'_>) -> Outcome {
    evaluate(call, true)
}

pub(super) fn evalsha(call: &mut Call<'_>) -> Outcome {
    evaluate_known(call, false)
}

pub(super) fn evalsha_ro(call: &mut Call<'_>) -> Outcome {
    evaluate_known(call, true)
}

fn call_function(call: &mut Call<'_>, is_read_only: bool) -> Outcome {
    let libraries = call.service.shared.scripts.libraries()?;
    let found = libraries.function(call.arg(1));
    let (library, function) = found.ok_or("ERR Function not found")?;
    let (keys, args) = words(call, "ERR Bad number of keys provided")?;
    run(call, Program::Function(library, function), keys, args, is_read_only)
}

pub(super) fn fcall(call: &mut Call<'_>) -> Outcome {
    call_function(call, false)
}

pub(super) fn fcall_ro(call: &mut Call<'_>) -> Outcome {
    call_function(call, true)
}

/// Whether a word says that memory is to be given back later or at once: here it is as one.
pub(super) fn check_flush(call: &Call<'_>, text: &'static str) -> Outcome {
    match call.args.len() {
        2 => Ok(()),
        3 if is(call.arg(2), "SYNC") || is(call.arg(2), "ASYNC") => Ok(()),
        _ => Err(text.into()),
    }
}

pub(super) fn load(call: &mut Call<'_>) -> Outcome {
    let script: Arc<Script> = call.service.shared.scripts.evaluated(call.arg(2))?;
    check(call.service, &script)?;
    call.service.shared.scripts.load(&script)?;
    call.reply().bulk(&script.digest);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let (digests, start) = (call.args.from(2), call.out.len());
    call.reply().array(digests.len());
    for word in digests {
        let digest = sha1::parse(word);
        let known = digest.and_then(|digest| call.service.shared.scripts.find(&digest));
        call.reply().flag(known.is_some());
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_>) -> Outcome {
    check_flush(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.service.shared.scripts.flush();
    call.reply().ok();
    Ok(())
}

pub(super) fn kill(call: &mut Call<'_>) -> Outcome {
    call.service.shared.scripts.running.kill(false)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn debug(call: &mut Call<'_>) -> Outcome {
    let word = call.arg(2);
    match () {
        () if is(word, "NO") => {
            call.reply().ok();
            Ok(())
        }
        () if is(word, "YES") || is(word, "SYNC") => {
            Err("ERR there is no debugger of scripts".into())
        }
        () => Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into()),
    }
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DEBUG (YES|SYNC|NO)",
        "    NO is taken; the others are refused, since there is no debugger.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Tells which scripts are known.",
        "FLUSH [ASYNC|SYNC]",
        "    Forgets all scripts.",
        "KILL",
        "    Stops the script that runs for long.",
        "LOAD <script>",
        "    Makes a script known without running it.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

/// Adds libraries by their texts, and removes others: all of that, or nothing.
pub(super) fn change_libraries(
    call: &mut Call<'_>,
    change: impl FnOnce(&mut Call<'_>, &mut Draft<'_>) -> Outcome,
) -> Outcome {
    call.service.check_durable()?;
    let shared = Arc::clone(&call.service.shared);
    let _changing = lock(&shared.scripts.changing);
    let change = {
        let before = shared.scripts.libraries()?;
        let mut draft = Draft::of(&before);
        change(call, &mut draft)?;
        draft.finish()
    };
    let removed: Vec<_> = change.removed.iter().map(String::as_str).collect();
    let added = change.added.iter();
    let added: Vec<_> = added.map(|(name, library)| (name.as_str(), &*library.body)).collect();
    call.service.store.change_libraries(&removed, &added).map_err(Failure::from)?;
    shared.scripts.change_libraries(change);
    Ok(())
}
