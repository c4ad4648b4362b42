//! Models as worlds: names are `DB KEY ! TYPE DEADLINE` for each key, one for each of its elements behind `DB KEY`,
//! `library NAME`, and `now MS` for the time, if it has gone on. All values are in the names, so a model is read from a world, too.

use halite_lab::{Digest, World};

use super::collections_model::model::{Group, Kept, Model, Stream, Value, number};

fn time(deadline: Option<u64>) -> String {
    deadline.map_or_else(|| "-".to_owned(), |at| at.to_string())
}

/// The model of a world.
pub(super) fn model_of(world: &World) -> Model {
    let mut model = Model::default();
    let mut parts: Vec<Vec<&str>> = Vec::new();
    for name in world.keys() {
        let name = std::str::from_utf8(name).expect("names are texts");
        parts.push(name.split(' ').collect());
    }
    for name in &parts {
        match name[..] {
            ["library", name] => drop(model.libraries.insert(name.to_owned())),
            ["now", ms] => model.now = number(ms),
            [db, key, "!", kind, at] => {
                let value = Value::of(kind).expect("a type");
                let kept = Kept { value, deadline: at.parse().ok() };
                model.databases[number(db) as usize].insert(key.to_owned(), kept);
            }
            _ => {}
        }
    }
    for name in &parts {
        let [db, key, what, rest @ ..] = &name[..] else { continue };
        if *what == "!" {
            continue;
        }
        let database = &mut model.databases[number(db) as usize];
        let value = &mut database.get_mut(*key).expect("a key has a type").value;
        match (value, *what, rest) {
            (Value::String(text), "is", [of]) => (*of).clone_into(text),
            (Value::Hash(fields), "f", [field, value, at]) => {
                fields.insert((*field).to_owned(), ((*value).to_owned(), at.parse().ok()));
            }
            (Value::List(list), "l", [_, value]) => list.push((*value).to_owned()),
            (Value::Set(members), "s", [member]) => drop(members.insert((*member).to_owned())),
            (Value::Sorted(members), "z", [member, score]) => {
                members.insert((*member).to_owned(), score.parse().expect("a score"));
            }
            (Value::Stream(stream), "x", [id, value]) => {
                stream.entries.insert(number(id), (*value).to_owned());
            }
            (Value::Stream(stream), "last", [id]) => stream.last = number(id),
            (Value::Stream(stream), "g", [group, last]) => {
                stream.groups.entry((*group).to_owned()).or_default().last = number(last);
            }
            (Value::Stream(stream), "p", [group, id, consumer]) => {
                let group = stream.groups.entry((*group).to_owned()).or_default();
                group.pending.insert(number(id), (*consumer).to_owned());
            }
            _ => panic!("no name of a world: {name:?}"),
        }
    }
    model
}

/// The world that it is.
pub(super) fn world_of(model: &Model) -> World {
    let mut world = World::new();
    let mut put = |name: String| {
        world.insert(name.into_bytes(), Digest::of(b""));
    };
    if model.now > 0 {
        put(format!("now {:06}", model.now));
    }
    model.libraries.iter().for_each(|name| put(format!("library {name}")));
    for (db, database) in model.databases.iter().enumerate() {
        for (key, Kept { value, deadline }) in database {
            let of = format!("{db} {key}");
            put(format!("{of} ! {} {}", value.kind(), time(*deadline)));
            match value {
                Value::String(text) => put(format!("{of} is {text}")),
                Value::Hash(fields) => fields.iter().for_each(|(field, (value, at))| {
                    put(format!("{of} f {field} {value} {}", time(*at)));
                }),
                Value::List(list) => list.iter().enumerate().for_each(|(at, value)| {
                    put(format!("{of} l {at:06} {value}"));
                }),
                Value::Set(members) => members.iter().for_each(|m| put(format!("{of} s {m}"))),
                Value::Sorted(members) => members.iter().for_each(|(member, score)| {
                    put(format!("{of} z {member} {score}"));
                }),
                Value::Stream(Stream { entries, last, groups }) => {
                    entries.iter().for_each(|(id, value)| put(format!("{of} x {id} {value}")));
                    put(format!("{of} last {last}"));
                    for (group, Group { last, pending }) in groups {
                        put(format!("{of} g {group} {last}"));
                        for (id, consumer) in pending {
                            put(format!("{of} p {group} {id} {consumer}"));
                        }
                    }
                }
            }
        }
    }
    world
}
