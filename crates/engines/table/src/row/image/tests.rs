use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    Type, Value,
    row::Field,
    strategies::{borrowed, conformed, schema, values_of},
    values,
};

fn schema_and_rows(rows: usize) -> impl Strategy<Value = (TableSchema, Vec<Vec<Value>>)> {
    schema().prop_flat_map(move |schema| {
        let values = vec(values_of(&schema), rows);
        (Just(schema), values)
    })
}

fn row(schema: &TableSchema, values: &[Value]) -> Row {
    Row::from_values(schema, &borrowed(values)).unwrap()
}

/// Two tables' worth of columns of all kinds: short, long, NULL.
fn mixed() -> (TableSchema, Row) {
    let schema = TableSchema::builder("mixed")
        .column("id", Type::Int32)
        .column("long", Type::VarChar(100))
        .nullable("none", Type::Int16)
        .column("short", Type::VarChar(5))
        .column("money", Type::Decimal(12, 2))
        .nullable("bytes", Type::Bytes(64))
        .column("code", Type::Char(4))
        .primary_key(["id"])
        .build()
        .unwrap();
    let money: crate::Decimal = "12.50".parse().unwrap();
    let values = values![-7, "a long text", None::<i64>, "abc", money, b"\0\x01\xff", "é"];
    let row = Row::from_values(&schema, &values).unwrap();
    (schema, row)
}

#[test]
fn an_image_has_its_documented_bytes() {
    let (schema, row) = mixed();
    let expected = [
        &[48, 0, 0, 0, 11, 0, 0, 0][..],
        &[59, 0, 0, 0, 3, 0, 0, 0],
        &1250_i64.to_le_bytes(),
        &(-7_i32).to_le_bytes(),
        &[0, 0],
        b"\x03abc\0\0",
        "é  ".as_bytes(),
        &[1],
        &[0; 7],
        b"a long text",
        b"\0\x01\xff",
    ];
    assert_eq!(row.bytes(), expected.concat());
    assert_eq!(schema.layout().fixed_len(), 48);
}

#[test]
fn values_that_do_not_make_a_row_are_refused() {
    let (schema, row) = mixed();
    let few = Row::from_values(&schema, &values![1]).unwrap_err();
    assert!(matches!(few, Error::ColumnCount { expected: 7, found: 1, .. }));
    let view = row.view(&schema).unwrap();
    let null = view.with(&[Change::new(0, None::<i64>)]);
    assert!(matches!(null, Err(Error::NullNotAllowed { .. })));
    let long = "x".repeat(101);
    let long = view.with(&[Change::new(1, &long), Change::new(1, "fits")]);
    assert!(matches!(long, Err(Error::TooLong { len: 101, .. })));
    let unknown = view.with(&[Change::new(7, 1)]);
    assert!(matches!(unknown, Err(Error::ColumnNumber { number: 7, columns: 7, .. })));
    assert!(matches!(view.get(7), Err(Error::ColumnNumber { .. })));
    assert!(matches!(view.int(1), Err(Error::NotOfKind { .. })));
    assert!(matches!(view.int(2), Err(Error::NotOfKind { found: "NULL", .. })));
}

#[test]
fn every_flipped_bit_of_an_image_is_damage_or_another_row() {
    let (schema, row) = mixed();
    let mut refused = 0;
    for bit in 0..row.bytes().len() * 8 {
        let mut bytes = row.bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match Row::from_bytes(&schema, bytes.clone()) {
            Ok(other) => {
                let view = other.view(&schema).unwrap();
                assert_ne!(view.values().unwrap(), row.view(&schema).unwrap().values().unwrap());
            }
            Err(Error::Damaged { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 200, "{refused}");
    for len in 0..row.bytes().len() {
        let cut = Row::from_bytes(&schema, row.bytes()[..len].to_vec());
        assert!(matches!(cut, Err(Error::Damaged { .. })), "{len}");
    }
    let longer = [row.bytes(), &[0]].concat();
    assert!(matches!(Row::from_bytes(&schema, longer), Err(Error::Damaged { .. })));
}

#[test]
fn a_cell_of_bytes_that_are_not_its_own_is_damage() {
    let (schema, row) = mixed();
    let reads = |cell: &[u8; 8]| {
        let mut bytes = row.bytes().to_vec();
        bytes[8..16].copy_from_slice(cell);
        let view = RowRef::new(&schema, &bytes).unwrap();
        (view.get(5).is_ok(), view.check().unwrap_err().to_string())
    };
    let (in_the_fixed_part, reason) = reads(&[40, 0, 0, 0, 3, 0, 0, 0]);
    assert!(!in_the_fixed_part, "{reason}");
    let (behind_the_end, reason) = reads(&[59, 0, 0, 0, 4, 0, 0, 0]);
    assert!(!behind_the_end, "{reason}");
    // Bytes of another column can be read, and do not pass a check: many cells of the same bytes would be a row that is
    // far longer than its image.
    let (of_another_column, reason) = reads(&[48, 0, 0, 0, 3, 0, 0, 0]);
    assert!(of_another_column && reason.contains("where they belong"), "{reason}");
}

proptest! {
    #[test]
    fn a_row_has_the_values_of_which_it_was_made((schema, rows) in schema_and_rows(1)) {
        let row = row(&schema, &rows[0]);
        let view = row.view(&schema).unwrap();
        let expected = conformed(schema.columns(), &rows[0]);
        prop_assert_eq!(view.values().unwrap(), expected);
        view.check().unwrap();
        for column in 0..schema.columns().len() {
            let long = view.long_bytes(column).unwrap();
            let is_cell = matches!(view.fixed().field(column).unwrap(), Field::Cell(_));
            prop_assert_eq!(long.is_some(), is_cell);
        }
    }

    #[test]
    fn a_changed_image_is_that_of_the_changed_values(
        (schema, rows) in schema_and_rows(3), picks in vec((any::<prop::sample::Index>(), 1..=2_usize), 0..8),
    ) {
        let mut values = rows[0].clone();
        let mut changes = Vec::new();
        for (column, from) in picks {
            let column = column.index(values.len());
            values[column] = rows[from][column].clone();
            changes.push(Change::new(column, &rows[from][column]));
        }
        let (before, expected) = (row(&schema, &rows[0]), row(&schema, &values));
        let view = before.view(&schema).unwrap();
        prop_assert_eq!(&view.with(&changes).unwrap(), &expected);
        let found = view.changes_to(expected.view(&schema).unwrap()).unwrap();
        prop_assert!(found.iter().all(|found| changes.iter().any(|change| change.column == found.column)));
        prop_assert_eq!(&view.with(&found).unwrap(), &expected);
    }

    #[test]
    fn a_row_is_assembled_of_its_fixed_part_and_its_long_columns((schema, rows) in schema_and_rows(1)) {
        let row = row(&schema, &rows[0]);
        let view = row.view(&schema).unwrap();
        let mut slot = view.fixed().bytes().to_vec();
        for &column in schema.layout().long() {
            if view.long_bytes(column).unwrap().is_some() {
                FixedMut::new(&schema, &mut slot).set_cell(column, 1000 + column as u64);
            }
        }
        let again = Row::assemble::<Error>(&schema, &slot, |column, word| {
            assert_eq!(word, 1000 + column as u64);
            Ok(view.long_bytes(column)?.unwrap())
        });
        prop_assert_eq!(again.unwrap(), row);
    }

    #[test]
    fn damaged_images_are_errors_or_rows_and_never_a_panic(
        (schema, rows) in schema_and_rows(1), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        noise in vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = row(&schema, &rows[0]).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for bytes in [bytes, noise] {
            if let Ok(view) = RowRef::new(&schema, &bytes) {
                let _ = (view.values(), view.with(&[]), view.primary_key());
                if view.check().is_ok() {
                    let again = Row::from_values(&schema, &view.values().unwrap()).unwrap();
                    prop_assert_eq!(again.bytes(), bytes);
                }
            }
        }
    }
}
