//! FUNCTION: the libraries of functions.
//!
//! A change is durable when it is answered, and is no part of a transaction.

use std::sync::Arc;

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome};
use crate::glob;
use crate::script::libraries::{Draft, Libraries};
use crate::script::library::Library;
use crate::script::{dump as form, inspect};

use super::scripting::{change_libraries, check_flush};

/// Bytes that all libraries may take together.
const LEN_MAX: usize = 64 << 20;

fn exists(what: &str, name: &str) -> Failure {
    format!("ERR {what} {name} already exists").into()
}

/// Adds a library in the place of one of its name, if it may replace that.
fn insert(libraries: &mut Draft<'_>, library: Library, replaces: bool, quote: &str) -> Outcome {
    if !replaces && libraries.get(&library.name).is_some() {
        return Err(exists("Library", &format!("{quote}{}{quote}", library.name)));
    }
    if libraries.body_len() + library.body.len() > LEN_MAX {
        return Err(format!("OOM the libraries take more than {LEN_MAX} bytes").into());
    }
    libraries.insert(Arc::new(library)).map_err(|taken| exists("Function", &taken))
}

pub(super) fn load(call: &mut Call<'_>) -> Outcome {
    let options = call.args.from(2).first(call.args.len() - 3);
    if let Some(unknown) = options.iter().find(|word| !is(word, "REPLACE")) {
        return Err(Failure::quoting("ERR Unknown option given: ", unknown, ""));
    }
    let replaces = !options.is_empty();
    let mut name = String::new();
    let text = call.arg(call.args.len() - 1);
    change_libraries(call, |call, libraries| {
        let library = inspect(text, &call.service.settings.scripts)?;
        name.clone_from(&library.name);
        insert(libraries, library, replaces, "'")
    })?;
    call.reply().bulk(name.as_bytes());
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_>) -> Outcome {
    change_libraries(call, |call, libraries| {
        let name = std::str::from_utf8(call.arg(2)).unwrap_or_default();
        if libraries.remove(name) { Ok(()) } else { Err("ERR Library not found".into()) }
    })?;
    call.reply().ok();
    Ok(())
}

/// The error of a subcommand that has too many words.
fn wrong_count(call: &Call<'_>) -> Failure {
    let text = "ERR unknown subcommand or wrong number of arguments for '";
    Failure::quoting(text, call.arg(1), "'. Try FUNCTION HELP.")
}

pub(super) fn flush(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(wrong_count(call));
    }
    check_flush(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    let is_async = call.args.get(2).is_some_and(|word| is(word, "ASYNC"));
    let forgotten = call.service.shared.scripts.libraries()?.function_count();
    change_libraries(call, |_, libraries| {
        libraries.clear();
        Ok(())
    })?;
    // Redis counts the functions and the state of Lua, if there are many.
    if is_async && forgotten > 64 {
        call.service.counters.keys_flushed_async += forgotten as u64 + 1;
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let libraries = call.service.shared.scripts.libraries()?;
    let dumped = form::dump(libraries.iter().map(|library| library.body.as_slice()));
    call.reply().bulk(&dumped);
    Ok(())
}

pub(super) fn restore(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(wrong_count(call));
    }
    let policy = call.args.get(3).unwrap_or(b"APPEND");
    if !["FLUSH", "APPEND", "REPLACE"].iter().any(|known| is(policy, known)) {
        let text =
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
        return Err(text.into());
    }
    let texts = form::parse(call.arg(2))?;
    change_libraries(call, |call, libraries| {
        if is(policy, "FLUSH") {
            libraries.clear();
        }
        let none = Libraries::default();
        let mut restored = Draft::of(&none);
        for text in &texts {
            call.check_ending()?;
            let library = inspect(text, &call.service.settings.scripts)?;
            insert(&mut restored, library, false, "")?;
        }
        let restored = restored.finish().added;
        for name in restored.keys() {
            // All that are replaced go first: the functions of a new one may be those of another old one.
            if is(policy, "REPLACE") {
                libraries.remove(name);
            } else if libraries.get(name).is_some() {
                return Err(exists("Library", name));
            }
        }
        for library in restored.into_values() {
            libraries.insert(library).map_err(|taken| exists("Function", &taken))?;
        }
        Ok(())
    })?;
    call.reply().ok();
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.args.from(2).iter();
    while let Some(word) = words.next() {
        match () {
            () if !with_code && is(word, "WITHCODE") => with_code = true,
            () if pattern.is_none() && is(word, "LIBRARYNAME") => {
                let given = words.next().ok_or("ERR library name argument was not given")?;
                pattern = Some(given);
            }
            () => return Err(Failure::quoting("ERR Unknown argument ", word, "")),
        }
    }
    let libraries = call.service.shared.scripts.libraries()?;
    let is_wanted = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| {
            let name = library.name.as_bytes();
            glob::matches_ignoring_case(pattern, name, || call.check_ending().is_ok())
        })
    };
    let wanted: Vec<_> = libraries.iter().filter(is_wanted).collect();
    call.check_ending()?;
    let start = call.out.len();
    call.reply().array(wanted.len());
    for library in wanted {
        describe(call, library, with_code);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

fn describe(call: &mut Call<'_>, library: &Library, with_code: bool) {
    let mut reply = call.reply();
    reply.map(3 + usize::from(with_code));
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        reply.bulk_or_null(function.description.as_deref());
        reply.bulk(b"flags");
        let flags = function.flags.names();
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.body);
    }
}

pub(super) fn stats(call: &mut Call<'_>) -> Outcome {
    let registry = &call.service.shared.scripts;
    let (running, libraries) = (registry.running.first(), registry.libraries());
    let counts =
        libraries.map_or((0, 0), |libraries| (libraries.iter().len(), libraries.function_count()));
    let mut reply = call.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        Some(script) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(script.name.as_bytes());
            reply.bulk(b"command");
            reply.array(script.command.len());
            script.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(script.began.elapsed().as_millis() as i64);
        }
        None => reply.null(),
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(counts.0 as i64);
    reply.bulk(b"functions_count");
    reply.integer(counts.1 as i64);
    Ok(())
}

pub(super) fn kill(call: &mut Call<'_>) -> Outcome {
    call.service.shared.scripts.running.kill(true)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DELETE <library>",
        "    Removes a library.",
        "DUMP",
        "    Returns all libraries as one value.",
        "FLUSH [ASYNC|SYNC]",
        "    Removes all libraries.",
        "KILL",
        "    Stops the function that runs for long.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    Lists the libraries, with their texts if that is asked for.",
        "LOAD [REPLACE] <text>",
        "    Adds a library.",
        "RESTORE <value> [FLUSH|APPEND|REPLACE]",
        "    Adds the libraries that DUMP has returned.",
        "STATS",
        "    Describes the function that runs for long.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
