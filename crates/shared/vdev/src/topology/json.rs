//! The JSON form of a topology.
//!
//! ```text
//! {"classes": [{"preferred_access": "random" | "sequential", "vdevs": [VDEV, ...]}, ...]}
//! VDEV = LEAF | {"mirror" | "parity1" | "parity2" | "parity3": [LEAF, ...]}
//! LEAF = {"file" | "pmem": PATH, "size": SIZE} | {"memory": SIZE}
//! SIZE = bytes, or a string as in the text form
//! ```
//!
//! `preferred_access` and `size` may be left out.

use serde_json::{Map, Value, json};

use super::{Class, LeafPlace, PreferredAccess, TopologyError, VdevTopology, size};
use crate::Arrangement;

type Result<T> = std::result::Result<T, TopologyError>;

const COMPOSITES: [(&str, Arrangement); 4] = [
    ("mirror", Arrangement::Mirror),
    ("parity1", Arrangement::Parity(1)),
    ("parity2", Arrangement::Parity(2)),
    ("parity3", Arrangement::Parity(3)),
];

fn wrong<T>(at: &str, wanted: &'static str) -> Result<T> {
    Err(TopologyError::Json { at: at.to_owned(), wanted })
}

/// The object at a place, which has no other keys than the known ones.
fn object<'a>(at: &str, json: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>> {
    let Value::Object(object) = json else { return wrong(at, "an object is to be here") };
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let (at, key) = (at.to_owned(), key.clone());
            Err(TopologyError::UnknownKey { at, key, known: known.join(", ") })
        }
        None => Ok(object),
    }
}

/// The elements of a list, each with its place.
fn list<'a>(at: &str, json: Option<&'a Value>) -> Result<Vec<(String, &'a Value)>> {
    let Some(Value::Array(list)) = json else { return wrong(at, "a list is to be here") };
    Ok(list.iter().enumerate().map(|(number, json)| (format!("{at}[{number}]"), json)).collect())
}

/// Reads classes, of which nothing else is checked.
pub(super) fn read(json: &Value) -> Result<Vec<Class>> {
    let pool = object("the description", json, &["classes"])?;
    let classes = list("classes", pool.get("classes"))?;
    classes.into_iter().map(|(at, json)| read_class(&at, json)).collect()
}

fn read_class(at: &str, json: &Value) -> Result<Class> {
    let class = object(at, json, &["vdevs", "preferred_access"])?;
    let preferred_access = match class.get("preferred_access") {
        None => None,
        Some(access) => match access.as_str().and_then(PreferredAccess::of_name) {
            None => {
                let at = format!("{at}.preferred_access");
                return wrong(&at, "\"random\" or \"sequential\" is to be here");
            }
            access => access,
        },
    };
    let vdevs = list(&format!("{at}.vdevs"), class.get("vdevs"))?;
    let vdevs = vdevs.into_iter().map(|(at, json)| read_vdev(&at, json)).collect::<Result<_>>()?;
    Ok(Class { preferred_access, vdevs })
}

fn read_vdev(at: &str, json: &Value) -> Result<VdevTopology> {
    let named = COMPOSITES.into_iter().find(|(name, _)| json.get(name).is_some());
    let Some((name, arrangement)) = named else {
        let known = ["file", "pmem", "memory", "size", "mirror", "parity1", "parity2", "parity3"];
        object(at, json, &known)?;
        return Ok(VdevTopology {
            arrangement: Arrangement::Single,
            leaves: vec![read_leaf(at, json)?],
        });
    };
    if object(at, json, &COMPOSITES.map(|(name, _)| name))?.len() > 1 {
        return wrong(at, "a vdev is to be here, and there are several");
    }
    let leaves = list(&format!("{at}.{name}"), json.get(name))?;
    let leaves =
        leaves.into_iter().map(|(at, json)| read_leaf(&at, json)).collect::<Result<_>>()?;
    Ok(VdevTopology { arrangement, leaves })
}

fn read_leaf(at: &str, json: &Value) -> Result<LeafPlace> {
    let leaf = object(at, json, &["file", "pmem", "memory", "size"])?;
    let size = leaf.get("size").map(|json| read_size(&format!("{at}.size"), json)).transpose()?;
    let path = |key: &str, json: &Value| match json.as_str() {
        Some(path) => Ok(path.to_owned()),
        None => wrong(&format!("{at}.{key}"), "a path is to be here"),
    };
    match (leaf.get("file"), leaf.get("pmem"), leaf.get("memory")) {
        (Some(json), None, None) => Ok(LeafPlace::File { path: path("file", json)?, size }),
        (None, Some(json), None) => Ok(LeafPlace::Pmem { path: path("pmem", json)?, size }),
        (None, None, Some(json)) if size.is_none() => {
            Ok(LeafPlace::Memory { size: read_size(&format!("{at}.memory"), json)? })
        }
        _ => wrong(
            at,
            "either \"file\" or \"pmem\" with a path, or \"memory\" with a size, is to be here",
        ),
    }
}

fn read_size(at: &str, json: &Value) -> Result<u64> {
    match json {
        Value::String(text) => size::read(text),
        Value::Number(number) => match number.as_u64() {
            Some(size) if size::is_size(size) => Ok(size),
            _ => Err(TopologyError::Size { size: number.to_string() }),
        },
        _ => wrong(at, "a size is to be here"),
    }
}

pub(super) fn write(classes: &[Class]) -> Value {
    json!({ "classes": classes.iter().map(write_class).collect::<Vec<_>>() })
}

fn write_class(Class { preferred_access, vdevs }: &Class) -> Value {
    let mut class = json!({ "vdevs": vdevs.iter().map(write_vdev).collect::<Vec<_>>() });
    if let Some(access) = preferred_access {
        class["preferred_access"] = access.name().into();
    }
    class
}

fn write_vdev(VdevTopology { arrangement, leaves }: &VdevTopology) -> Value {
    match (arrangement, &leaves[..]) {
        (Arrangement::Single, [leaf]) => write_leaf(leaf),
        _ => {
            json!({ arrangement.to_string(): leaves.iter().map(write_leaf).collect::<Vec<_>>() })
        }
    }
}

fn write_leaf(leaf: &LeafPlace) -> Value {
    let (mut json, size) = match leaf {
        LeafPlace::File { path, size } => (json!({ "file": path }), *size),
        LeafPlace::Pmem { path, size } => (json!({ "pmem": path }), *size),
        LeafPlace::Memory { size } => (json!({ "memory": size::write(*size) }), None),
    };
    if let Some(size) = size {
        json["size"] = size::write(size).into();
    }
    json
}
