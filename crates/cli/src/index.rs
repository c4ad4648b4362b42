//! Indexes as people name them.

use halite::IndexKind;

/// The index called `hash`, `ordered` or `ordered:BYTES`.
pub(crate) fn parse(text: &str) -> Result<IndexKind, String> {
    let kind = match text.split_once(':') {
        None if text == "hash" => IndexKind::Hash,
        None if text == "ordered" => IndexKind::default(),
        Some(("ordered", bytes)) => {
            let key_bytes = bytes.parse().map_err(|_| format!("`{bytes}` is not a number"))?;
            IndexKind::Ordered { key_bytes }
        }
        _ => return Err("an index is hash, ordered or ordered:BYTES".to_owned()),
    };
    kind.check().map_err(|error| error.to_string())?;
    Ok(kind)
}

/// The name of one of the options that only the engine with indexes has, if one was given.
pub(crate) fn asked(index: Option<IndexKind>, change_log: Option<u64>) -> Option<&'static str> {
    index.map(|_| "--index").or(change_log.map(|_| "--change-log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_as_it_is_named() {
        assert_eq!(parse("hash"), Ok(IndexKind::Hash));
        assert_eq!(parse("ordered"), Ok(IndexKind::Ordered { key_bytes: 8 }));
        assert_eq!(parse("ordered:2"), Ok(IndexKind::Ordered { key_bytes: 2 }));
        assert!(parse("ordered:3").is_err_and(|why| why.contains("0, 2, 4 or 8")));
        assert!(parse("ordered:x").is_err() && parse("tree").is_err() && parse("hash:8").is_err());
    }
}
