//! Columns and indexes on the command line.

use std::str::FromStr;

use halite_table::{Column, TableSchema, Type};

use crate::{Error, Result};

/// A column from `NAME TYPE`, with `null` behind it if it may be NULL.
pub(super) fn column(text: &str) -> std::result::Result<Column, String> {
    let form = || "a column is NAME TYPE, as in 'id int64', or NAME TYPE null".to_owned();
    let (name, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(form)?;
    let lower = rest.trim().to_ascii_lowercase();
    let (ty, nullable) = match lower.strip_suffix("null").map(str::trim_end) {
        None => (lower.as_str(), false),
        Some(rest) => match rest.strip_suffix("not") {
            Some(ty) => (ty.trim_end(), false),
            None => (rest, true),
        },
    };
    let ty: Type = ty.parse().map_err(|error: halite_table::Error| error.to_string())?;
    Ok(Column::new(name, ty, nullable))
}

/// An index that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewIndex {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

impl FromStr for NewIndex {
    type Err = String;

    /// An index from `NAME(COLUMN,..)`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.trim().split_once('(');
        let parts = parts.and_then(|(name, rest)| Some((name.trim_end(), rest.strip_suffix(')')?)));
        let (name, columns) =
            parts.ok_or("an index is NAME(COLUMN,..), as in 'by_name(last,first)'")?;
        let columns = columns.split(',').map(|column| column.trim().to_owned()).collect();
        Ok(Self { name: name.to_owned(), columns })
    }
}

impl NewIndex {
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }
}

/// Refuses unique indexes that partitions cannot keep unique: equal entries have to meet in one.
pub(super) fn check_unique<'a>(
    schema: &TableSchema,
    unique: impl IntoIterator<Item = &'a NewIndex>,
    partitions: usize,
) -> Result<()> {
    let first = schema.primary_key().columns().next().unwrap_or(0);
    let first = schema.columns()[first].name();
    let is_spread = |index: &&NewIndex| partitions > 1 && !index.columns().any(|it| it == first);
    match unique.into_iter().find(is_spread) {
        None => Ok(()),
        Some(NewIndex { name, .. }) => Err(Error::Usage(format!(
            "the unique index {name:?} must have the column {first:?}, by which rows are spread over {partitions} \
             partitions: a partition does not see the keys of the others"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read() {
        for (text, ty, nullable) in [
            ("id int64", Type::Int64, false),
            (" id  INT64 NULL ", Type::Int64, true),
            ("id varchar(20) not null", Type::VarChar(20), false),
            ("id decimal(12, 2)null", Type::Decimal(12, 2), true),
        ] {
            assert_eq!(column(text), Ok(Column::new("id", ty, nullable)), "{text}");
        }
        for text in ["", "id", "id int", "id int64 nil", "id null", "id int64 null null"] {
            assert!(column(text).is_err(), "{text}");
        }
    }

    #[test]
    fn indexes_are_read() {
        let index: NewIndex = "by_name(last, first)".parse().unwrap();
        assert_eq!((&*index.name, index.columns().collect()), ("by_name", vec!["last", "first"]));
        for text in ["", "by_name", "by_name(last", "last)"] {
            assert!(text.parse::<NewIndex>().is_err(), "{text}");
        }
    }
}
