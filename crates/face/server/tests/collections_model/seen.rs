//! The databases of a server, as a client sees them.

use std::collections::BTreeMap;

use halite_resp_client::Reply;

use super::model::{DATABASES, Group, Kept, Model, Value};

type Outcome<T> = Result<T, String>;

/// Asks a server.
pub(crate) type Ask<'a> = dyn FnMut(&[&str]) -> Outcome<Reply> + 'a;

fn failed<T>(what: impl Into<String>) -> Outcome<T> {
    Err(what.into())
}

/// The texts of a reply, without what is in it but collections, in order.
fn flat(reply: Reply, to: &mut Vec<String>) -> Outcome<()> {
    match reply {
        Reply::Status(text) => to.push(text),
        Reply::Integer(number) => to.push(number.to_string()),
        Reply::Bulk(bytes) => to.push(String::from_utf8_lossy(&bytes).into_owned()),
        Reply::Null => {}
        Reply::Array(all) => all.into_iter().try_for_each(|one| flat(one, to))?,
        Reply::Error(text) => return failed(text),
        other => return failed(format!("an unexpected reply: {other:?}")),
    }
    Ok(())
}

/// The texts of a reply to a request.
pub(crate) fn texts(ask: &mut Ask<'_>, words: &[&str]) -> Outcome<Vec<String>> {
    let mut all = Vec::new();
    let named = |why| format!("{}: {why}", words[..words.len().min(3)].join(" "));
    flat(ask(words)?, &mut all).map_err(named)?;
    Ok(all)
}

/// A number, or the first part of an id.
pub(crate) fn number(text: &str) -> Outcome<u64> {
    text.split('-')
        .next()
        .unwrap_or_default()
        .parse()
        .or_else(|_| failed(format!("`{text}` is no number")))
}

/// The text behind a name.
fn behind<'a>(all: &'a [String], name: &str) -> Outcome<&'a str> {
    let mut pairs = all.chunks_exact(2).filter(|pair| pair[0] == name);
    match pairs.next() {
        Some(pair) => Ok(&pair[1]),
        None => failed(format!("there is no {name} in {all:?}")),
    }
}

/// All that there is in some databases, and the names of the libraries of functions.
pub(crate) fn everything(ask: &mut Ask<'_>, databases: [usize; DATABASES]) -> Outcome<Model> {
    let mut model = Model::default();
    for (place, number) in databases.into_iter().enumerate() {
        texts(ask, &["SELECT", &number.to_string()])?;
        for key in texts(ask, &["KEYS", "*"])? {
            let kept = kept(ask, &key)?;
            model.databases[place].insert(key, kept);
        }
    }
    let libraries = texts(ask, &["FUNCTION", "LIST"])?;
    let names = libraries.windows(2).filter(|pair| pair[0] == "library_name");
    model.libraries = names.map(|pair| pair[1].clone()).collect();
    Ok(model)
}

fn kept(ask: &mut Ask<'_>, key: &str) -> Outcome<Kept> {
    let kind = texts(ask, &["TYPE", key])?.concat();
    let Some(mut value) = Value::of(&kind) else { return failed(format!("`{key}` is a {kind}")) };
    let deadline = texts(ask, &["PEXPIRETIME", key])?.concat().parse().ok();
    let (counted, count) = match &mut value {
        Value::String(text) => {
            *text = texts(ask, &["GET", key])?.concat();
            return Ok(Kept { value, deadline });
        }
        Value::Hash(fields) => {
            for pair in texts(ask, &["HGETALL", key])?.chunks_exact(2) {
                let times = ["HPEXPIRETIME", key, "FIELDS", "1", &pair[0][..]];
                let at = texts(ask, &times)?.concat().parse().ok();
                fields.insert(pair[0].clone(), (pair[1].clone(), at));
            }
            // Fields that have expired are counted until they are removed.
            if fields.is_empty() || fields.values().any(|(_, at)| at.is_some()) {
                return Ok(Kept { value, deadline });
            }
            ("HLEN", fields.len())
        }
        Value::List(list) => {
            *list = texts(ask, &["LRANGE", key, "0", "-1"])?;
            ("LLEN", list.len())
        }
        Value::Set(members) => {
            *members = texts(ask, &["SMEMBERS", key])?.into_iter().collect();
            ("SCARD", members.len())
        }
        Value::Sorted(members) => {
            let all = texts(ask, &["ZRANGE", key, "0", "-1", "WITHSCORES"])?;
            let mut order = Vec::new();
            for pair in all.chunks_exact(2) {
                let score = number(&pair[1])? as i64;
                order.push((score, pair[0].clone()));
                members.insert(pair[0].clone(), score);
            }
            if !order.is_sorted() {
                return failed(format!("`{key}` is out of order: {order:?}"));
            }
            ("ZCARD", members.len())
        }
        Value::Stream(stream) => {
            for entry in texts(ask, &["XRANGE", key, "-", "+"])?.chunks_exact(3) {
                stream.entries.insert(number(&entry[0])?, entry[2].clone());
            }
            let Reply::Array(groups) = ask(&["XINFO", "GROUPS", key])? else {
                return failed("no groups");
            };
            for group in groups {
                let mut all = Vec::new();
                flat(group, &mut all)?;
                // Without the lag of a group, which may be unknown.
                let (name, last) = (behind(&all, "name")?, behind(&all, "last-delivered-id")?);
                let mut pending = BTreeMap::new();
                for one in texts(ask, &["XPENDING", key, name, "-", "+", "9999"])?.chunks_exact(4) {
                    pending.insert(number(&one[0])?, one[1].clone());
                }
                let count = behind(&all, "pending")?;
                if *count != pending.len().to_string() {
                    return failed(format!("{key} {name}: {count} pending, not {pending:?}"));
                }
                stream.groups.insert(name.to_owned(), Group { last: number(last)?, pending });
            }
            let Reply::Array(mut info) = ask(&["XINFO", "STREAM", key])? else {
                return failed("no stream");
            };
            // The first and the last entry follow.
            info.truncate(14);
            let mut all = Vec::new();
            flat(Reply::Array(info), &mut all)?;
            stream.last = number(behind(&all, "last-generated-id")?)?;
            ("XLEN", stream.entries.len())
        }
    };
    let said = texts(ask, &[counted, key])?.concat();
    match said == count.to_string() {
        true => Ok(Kept { value, deadline }),
        false => failed(format!("{counted} {key} is {said}, and there are {count}")),
    }
}
