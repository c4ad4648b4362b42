use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    Row, TableSchema, Type,
    strategies::{borrowed, conformed, ty, value, value_of},
    values,
};

fn key_of(columns: &[Column]) -> KeySchema {
    KeySchema::new("key".into(), columns.iter().cloned().enumerate())
}

fn columns_and_values(keys: usize) -> impl Strategy<Value = (Vec<Column>, Vec<Vec<Value>>)> {
    let column = (ty(), any::<bool>()).prop_map(|(ty, nullable)| Column::new("c", ty, nullable));
    vec(column, 1..=4).prop_flat_map(move |columns| {
        let one: Vec<_> = columns.iter().map(value_of).collect();
        (Just(columns), vec(one, keys))
    })
}

#[test]
fn a_key_has_its_documented_bytes() {
    let key = key_of(&[
        Column::new("a", Type::Int16, false),
        Column::new("b", Type::VarChar(9), false),
        Column::new("c", Type::UInt8, true),
        Column::new("d", Type::UInt8, true),
        Column::new("e", Type::Decimal(4, 2), false),
    ]);
    let bytes = key.encode(&values![-2, "a\0\x01", None::<u8>, 7, 1]).unwrap();
    let expected =
        [&[0x7f, 0xfe][..], b"a\x01\x01\x01\x02\0", &[0], &[1, 7], &[0x80, 0, 0, 0, 0, 0, 0, 100]];
    assert_eq!(bytes, expected.concat());
    assert_eq!(key.describe(&bytes), "(-2, a\0\x01, NULL, 7, 1.00)");
    assert_eq!(key.describe(&[7]), "\\x07");
}

#[test]
fn keys_of_a_wrong_number_of_values_or_too_long_are_refused() {
    let columns = [Column::new("a", Type::Bytes(4000), false), Column::new("b", Type::Int8, false)];
    let key = key_of(&columns);
    let found = |result: Result<Vec<u8>>| match result.unwrap_err() {
        Error::KeyParts { expected: 2, found, .. } => found,
        error => panic!("{error}"),
    };
    assert_eq!(found(key.encode(&values![b"a"])), 1);
    assert_eq!(found(key.encode(&values![b"a", 1, 2])), 3);
    assert_eq!(found(key.prefix(&values![b"a", 1, 2])), 3);
    let bytes = vec![7; KEY_LEN_MAX - 2];
    assert_eq!(key.encode(&values![&bytes, 1]).unwrap().len(), KEY_LEN_MAX);
    let bytes = vec![7; KEY_LEN_MAX - 1];
    let long = key.encode(&values![&bytes, 1]);
    assert!(matches!(long, Err(Error::KeyTooLong { len, .. }) if len == KEY_LEN_MAX + 1));
}

#[test]
fn an_entry_ends_with_the_primary_key_unless_its_index_is_unique_and_has_no_null() {
    let schema = TableSchema::builder("t")
        .column("id", Type::Int32)
        .nullable("name", Type::VarChar(20))
        .index("by_name", ["name"])
        .unique_index("one_name", ["name"])
        .primary_key(["id"])
        .build()
        .unwrap();
    let [by_name, one_name] = schema.indexes() else { panic!("two indexes") };
    for (name, unique_appends) in [(Some("Ann"), false), (None, true)] {
        let row = Row::from_values(&schema, &values![7, name]).unwrap();
        let view = row.view(&schema).unwrap();
        let primary = view.primary_key().unwrap();
        let prefix = by_name.key().prefix(&values![name]).unwrap();
        let entry = view.index_entry(by_name).unwrap();
        assert_eq!(by_name.key().split(&entry).unwrap(), (&prefix[..], &primary[..]));
        let entry = view.index_entry(one_name).unwrap();
        let expected = if unique_appends { &primary[..] } else { &[] };
        assert_eq!(one_name.key().split(&entry).unwrap(), (&prefix[..], expected));
    }
    let error = by_name.key().duplicate(&by_name.key().prefix(&values!["Ann"]).unwrap());
    assert_eq!(
        error.to_string(),
        "there is a row with the index by_name of t (Ann) already; change that row, or choose another key"
    );
}

#[test]
fn an_entry_with_its_primary_key_is_no_longer_than_a_key() {
    let schema = TableSchema::builder("t")
        .column("id", Type::Bytes(3000))
        .column("name", Type::VarChar(3000))
        .index("by_name", ["name"])
        .primary_key(["id"])
        .build()
        .unwrap();
    let (id, name) = (vec![9; 1500], "n".repeat(1571));
    let row = Row::from_values(&schema, &values![&id, &name]).unwrap();
    let error = row.view(&schema).unwrap().index_entry(&schema.indexes()[0]).unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { len: 3073, .. }), "{error}");
}

#[test]
fn a_successor_is_above_all_keys_of_its_prefix_and_below_the_next() {
    use super::super::successor;
    assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!(successor(b"\xff\xff"), None);
    assert_eq!(successor(b""), None);
    let key = key_of(&[Column::new("a", Type::UInt8, false)]);
    let behind = key.range(Bound::Excluded(&values![255]), Bound::Unbounded).unwrap();
    assert!(behind.is_empty() && !behind.contains(&[255]) && !behind.contains(&[0]));
    let last = key.range(Bound::Included(&values![255]), Bound::Unbounded).unwrap();
    assert!(!last.is_empty() && last.contains(&[255]) && !last.contains(&[254]));
    assert!(KeyRange::all().contains(&[]) && KeyRange::all().contains(&[255, 255]));
}

proptest! {
    #[test]
    fn the_order_of_keys_is_the_order_of_values((columns, keys) in columns_and_values(2)) {
        let key = key_of(&columns);
        let [one, two] = [&keys[0], &keys[1]].map(|values| key.encode(&borrowed(values)).unwrap());
        let [a, b] = [&keys[0], &keys[1]].map(|values| conformed(&columns, values));
        prop_assert_eq!(one.cmp(&two), a.cmp(&b));
        let decoded = key.decode(&one).unwrap();
        prop_assert_eq!(borrowed(&decoded), a);
        let both = [&one[..], &two[..]].concat();
        prop_assert_eq!(key.split(&both).unwrap(), (&one[..], &two[..]));
    }

    #[test]
    fn values_of_one_type_are_ordered_as_keys(
        (ty, pairs) in ty().prop_flat_map(|ty| (Just(ty), vec((value(ty), value(ty)), 8)))
    ) {
        let columns = [Column::new("c", ty, false)];
        let key = key_of(&columns);
        for (a, b) in pairs {
            let [one, two] = [&a, &b].map(|value| key.encode(&[value.as_ref()]).unwrap());
            let [a, b] = [&a, &b].map(|value| columns[0].conform(value.as_ref()).unwrap());
            prop_assert_eq!(one.cmp(&two), a.cmp(&b), "{} {} {}", ty, a, b);
        }
    }

    #[test]
    fn a_range_has_the_keys_whose_first_values_are_in_it((columns, keys) in columns_and_values(3), of in 1..=4_usize) {
        let key = key_of(&columns);
        let of = of.min(columns.len());
        let values: Vec<_> = keys.iter().map(|values| conformed(&columns, values)).collect();
        let probe = key.encode(&values[0]).unwrap();
        let (first, from, to) = (&values[0][..of], &values[1][..of], &values[2][..of]);
        for (from_in, to_in) in [(true, true), (true, false), (false, true), (false, false)] {
            let bound = |inclusive, values| if inclusive { Bound::Included(values) } else { Bound::Excluded(values) };
            let range = key.range(bound(from_in, from), bound(to_in, to)).unwrap();
            let above = if from_in { first >= from } else { first > from };
            let below = if to_in { first <= to } else { first < to };
            prop_assert_eq!(range.contains(&probe), above && below);
            prop_assert!(!(range.is_empty() && range.contains(&probe)));
        }
        let prefix = KeyRange::of_prefix(key.prefix(from).unwrap());
        prop_assert_eq!(prefix.contains(&probe), first == from);
    }

    #[test]
    fn damaged_keys_are_errors_or_keys_and_never_a_panic(
        (columns, keys) in columns_and_values(1), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        noise in vec(any::<u8>(), 0..60),
    ) {
        let key = key_of(&columns);
        let whole = key.encode(&borrowed(&keys[0])).unwrap();
        for len in 0..whole.len() {
            prop_assert!(key.decode(&whole[..len]).is_err());
        }
        prop_assert!(key.decode(&[&whole[..], &[0]].concat()).is_err());
        let mut changed = whole;
        let at = at.index(changed.len());
        changed[at] = byte;
        for bytes in [changed, noise] {
            let _ = (key.split(&bytes), key.describe(&bytes));
            if let Ok(values) = key.decode(&bytes) {
                key.encode(&borrowed(&values)).unwrap();
            }
        }
    }
}
