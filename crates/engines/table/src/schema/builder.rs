//! The building of a schema, with all its checks.

use std::collections::HashSet;

use super::{COLUMNS_MAX, INDEXES_MAX, IndexSchema, Layout, NAME_LEN_MAX, TableSchema};
use crate::{
    Column, Error, KeySchema, Result, Type,
    value::{DIGITS_MAX, FIELD_LEN_MAX},
};

/// Builds a [`TableSchema`]: columns in their order, the primary key, secondary indexes.
#[derive(Clone, Debug)]
pub struct TableBuilder {
    name: Box<str>,
    columns: Vec<Column>,
    primary_key: Vec<String>,
    indexes: Vec<Index>,
}

/// An index that was declared: its name, its columns, and whether it is unique.
#[derive(Clone, Debug)]
struct Index {
    name: String,
    columns: Vec<String>,
    is_unique: bool,
}

fn names<'a>(columns: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    columns.into_iter().map(String::from).collect()
}

impl TableBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
        }
    }

    pub(super) fn of(schema: &TableSchema) -> Self {
        let names = |key: &KeySchema| {
            key.columns().map(|number| schema.columns[number].name().to_owned()).collect()
        };
        let index = |index: &IndexSchema| Index {
            name: index.name().to_owned(),
            columns: names(index.key()),
            is_unique: index.is_unique(),
        };
        Self {
            name: schema.name.clone(),
            columns: schema.columns.to_vec(),
            primary_key: names(&schema.primary_key),
            indexes: schema.indexes.iter().map(index).collect(),
        }
    }

    /// Gives the table another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a column that always has a value.
    #[must_use]
    pub fn column(mut self, name: &str, ty: Type) -> Self {
        self.columns.push(Column::new(name, ty, false));
        self
    }

    /// Adds a column that may be NULL.
    #[must_use]
    pub fn nullable(mut self, name: &str, ty: Type) -> Self {
        self.columns.push(Column::new(name, ty, true));
        self
    }

    /// Names the columns of the primary key.
    #[must_use]
    pub fn primary_key<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.primary_key = names(columns);
        self
    }

    /// Adds a secondary index: any number of rows may have one key.
    #[must_use]
    pub fn index<'a>(self, name: &str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.any_index(name, columns, false)
    }

    /// Adds a unique secondary index: no two rows may have one key, unless a column of it is NULL.
    #[must_use]
    pub fn unique_index<'a>(self, name: &str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.any_index(name, columns, true)
    }

    fn any_index<'a>(
        mut self,
        name: &str,
        columns: impl IntoIterator<Item = &'a str>,
        is_unique: bool,
    ) -> Self {
        self.indexes.push(Index { name: name.into(), columns: names(columns), is_unique });
        self
    }

    /// Leaves out the index of this name, if there is one.
    #[must_use]
    pub fn without_index(mut self, name: &str) -> Self {
        self.indexes.retain(|index| index.name != name);
        self
    }

    /// The schema.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Columns`], [`Error::Indexes`], [`Error::TypeLimits`], [`Error::Twice`],
    /// [`Error::NoPrimaryKey`], [`Error::NullableKey`], [`Error::EmptyIndex`], [`Error::UnknownColumn`].
    pub fn build(self) -> Result<TableSchema> {
        let Self { name, columns, primary_key, indexes } = self;
        check_name("table", &name)?;
        if !(1..=COLUMNS_MAX).contains(&columns.len()) {
            return Err(Error::Columns { table: name, columns: columns.len() });
        }
        for column in &columns {
            check_name("column", column.name())?;
            check_type(column)?;
        }
        check_distinct(&name, "its columns", columns.iter().map(Column::name))?;
        if primary_key.is_empty() {
            return Err(Error::NoPrimaryKey { table: name });
        }
        let key = |key_name: String, among, names: &[String]| {
            check_distinct(&name, among, names.iter().map(String::as_str))?;
            let found = names.iter().map(|wanted| {
                let number = columns.iter().position(|column| column.name() == wanted);
                let unknown =
                    || Error::UnknownColumn { table: name.clone(), column: wanted.as_str().into() };
                number.map(|number| (number, columns[number].clone())).ok_or_else(unknown)
            });
            let found: Vec<_> = found.collect::<Result<_>>()?;
            Ok::<_, Error>(KeySchema::new(key_name, found.into_iter()))
        };
        let primary =
            key(format!("primary key of {name}"), "the columns of its primary key", &primary_key)?;
        let nullable = primary.columns().find(|&number| columns[number].is_nullable());
        if let Some(number) = nullable {
            return Err(Error::NullableKey { column: columns[number].name().into() });
        }
        if indexes.len() > INDEXES_MAX {
            return Err(Error::Indexes { table: name });
        }
        check_distinct(&name, "its indexes", indexes.iter().map(|index| index.name.as_str()))?;
        let indexes = indexes.into_iter().map(|index| {
            check_name("index", &index.name)?;
            if index.columns.is_empty() {
                return Err(Error::EmptyIndex { index: index.name.into() });
            }
            let key_name = format!("index {} of {name}", index.name);
            let key = key(key_name, "the columns of an index", &index.columns)?;
            Ok(IndexSchema::new(index.name.into(), index.is_unique, key))
        });
        let indexes = indexes.collect::<Result<_>>()?;
        let layout = Layout::of(&columns);
        Ok(TableSchema { name, columns: columns.into(), primary_key: primary, indexes, layout })
    }
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    let fits = (1..=NAME_LEN_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err(Error::Name { what, name: name.chars().take(NAME_LEN_MAX).collect() }),
    }
}

fn check_type(column: &Column) -> Result<()> {
    let (fits, range) = match column.ty() {
        Type::Decimal(precision, scale) => (
            (1..=DIGITS_MAX).contains(&precision) && scale <= precision,
            "it has 1 to 38 digits, and at most all of them behind the point",
        ),
        Type::Char(len) | Type::VarChar(len) | Type::Bytes(len) => {
            ((1..=FIELD_LEN_MAX).contains(&len), "its length is 1 byte to 1 MiB")
        }
        _ => return Ok(()),
    };
    match fits {
        true => Ok(()),
        false => Err(Error::TypeLimits { column: column.name().into(), ty: column.ty(), range }),
    }
}

fn check_distinct<'a>(
    table: &str,
    among: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::Twice { table: table.into(), name: name.into(), among });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> TableBuilder {
        TableSchema::builder("t").column("a", Type::Int8).nullable("b", Type::Char(4))
    }

    /// Names of a wrong schema's error, which has to tell the thing.
    macro_rules! refused {
        ($builder:expr, $error:pat, $($word:expr),+) => {{
            let error = $builder.build().unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, $error), "{error:?}");
            $(assert!(text.contains($word), "{text}");)+
        }};
    }

    #[test]
    fn every_wrong_schema_is_an_error_with_its_name() {
        let long = "n".repeat(NAME_LEN_MAX + 1);
        refused!(two(), Error::NoPrimaryKey { .. }, "\"t\"");
        refused!(two().primary_key([]), Error::NoPrimaryKey { .. }, "\"t\"");
        refused!(two().primary_key(["c"]), Error::UnknownColumn { .. }, "\"c\"");
        refused!(two().primary_key(["b"]), Error::NullableKey { .. }, "\"b\"");
        refused!(two().primary_key(["a", "a"]), Error::Twice { .. }, "\"a\"", "primary key");
        let keyed = || two().primary_key(["a"]);
        refused!(keyed().named(""), Error::Name { what: "table", .. }, "800");
        refused!(keyed().named(&long), Error::Name { what: "table", .. }, "800");
        refused!(keyed().column("x\0", Type::Int8), Error::Name { what: "column", .. }, "x");
        refused!(keyed().column("a", Type::Int16), Error::Twice { .. }, "\"a\"", "columns");
        refused!(
            keyed().index("i", ["a"]).index("i", ["b"]),
            Error::Twice { .. },
            "\"i\"",
            "indexes"
        );
        refused!(keyed().index("i", ["b", "b"]), Error::Twice { .. }, "\"b\"", "index");
        refused!(keyed().index("i", []), Error::EmptyIndex { .. }, "\"i\"");
        refused!(keyed().index("", ["b"]), Error::Name { what: "index", .. }, "index");
        refused!(keyed().index("i", ["z"]), Error::UnknownColumn { .. }, "\"z\"");
        for ty in [
            Type::Decimal(0, 0),
            Type::Decimal(39, 0),
            Type::Decimal(4, 5),
            Type::Char(0),
            Type::VarChar(FIELD_LEN_MAX + 1),
            Type::Bytes(u32::MAX),
        ] {
            refused!(keyed().column("c", ty), Error::TypeLimits { .. }, "\"c\"", &ty.to_string());
        }
        refused!(
            TableSchema::builder("t").primary_key(["a"]),
            Error::Columns { columns: 0, .. },
            "1024"
        );
        let many = |count| {
            (0..count).fold(TableSchema::builder("t"), |builder, at| {
                builder.column(&format!("c{at}"), Type::Int8)
            })
        };
        refused!(many(1025).primary_key(["c0"]), Error::Columns { columns: 1025, .. }, "1024");
        assert!(many(1024).primary_key(["c1023"]).build().is_ok());
        let indexed = (0..65).fold(keyed(), |builder, at| builder.index(&format!("i{at}"), ["b"]));
        refused!(indexed.clone(), Error::Indexes { .. }, "\"t\"");
        assert!(indexed.without_index("i7").build().is_ok());
    }

    #[test]
    fn a_schema_built_again_is_the_same() {
        let schema = two()
            .primary_key(["a"])
            .index("i", ["b", "a"])
            .unique_index("u", ["b"])
            .build()
            .unwrap();
        assert_eq!(schema.to_builder().build().unwrap(), schema);
        assert_eq!((schema.column("b").unwrap(), schema.index("u").unwrap()), (1, 1));
        assert!(matches!(schema.column("i"), Err(Error::UnknownColumn { .. })));
        assert!(matches!(schema.index("b"), Err(Error::UnknownIndex { .. })));
    }
}
