//! Two messages of one key as one, and a message on a value.

use super::held::{HeldMessage, Payload};
use super::kinds::{Kind, Message};
use super::large_value::LargeValue;
use super::{Parsed, upsert};

/// The meaning of a dataset's own messages.
///
/// For all messages and values: applying `merge(newer, older)` is applying `older` and then `newer`, and it does not
/// matter which two neighbours of three messages merge first.
pub trait MessageAction: Send + Sync {
    /// Changes the value of a key; `None` is no value.
    fn apply(&self, key: &[u8], message: &[u8], value: &mut Option<Vec<u8>>);

    /// The message with the effect of `newer` after `older`.
    fn merge(&self, key: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8>;
}

/// The message that two merged to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Merged<'a> {
    /// The newer one, as it was.
    Newer(Message<'a>),
    /// One of their parts.
    Owned(Kind, Vec<u8>),
}

impl Merged<'_> {
    /// The message.
    #[cfg(test)]
    pub(crate) fn message(&self) -> Message<'_> {
        match self {
            Self::Newer(message) => *message,
            Self::Owned(kind, payload) => Message { kind: *kind, payload },
        }
    }
}

/// One message with the effect of `newer` after `older`. A large value of the older one to which the result does not
/// refer is reported to `dropped`.
///
/// # Errors
/// The defect of a payload; an upsert and a custom message that meet; a custom message without an action.
pub(crate) fn merge<'a>(
    key: &[u8],
    newer: Message<'a>,
    older: Message<'_>,
    action: Option<&dyn MessageAction>,
    dropped: &mut dyn FnMut(LargeValue),
) -> Parsed<Merged<'a>> {
    if newer.kind.is_complete() {
        older.large()?.into_iter().for_each(dropped);
        return Ok(Merged::Newer(newer));
    }
    match older.kind {
        Kind::Delete | Kind::Insert => {
            let value = (older.kind == Kind::Insert).then(|| older.payload.to_vec());
            Ok(match change(key, newer, value, action)? {
                Some(value) => Merged::Owned(Kind::Insert, value),
                None => Merged::Owned(Kind::Delete, Vec::new()),
            })
        }
        Kind::Upsert | Kind::Custom => {
            Ok(Merged::Owned(newer.kind, compose(key, newer, older, action)?))
        }
        Kind::InsertLarge => {
            older.large()?;
            Ok(patched(older.payload, newer.kind, newer.payload))
        }
        Kind::PatchedLarge => {
            let (_, patch) = older.patched()?;
            let reference = &older.payload[..older.payload.len() - patch.payload.len() - 1];
            Ok(patched(reference, newer.kind, &compose(key, newer, patch, action)?))
        }
    }
}

/// A patch on the large value of an encoded reference.
fn patched(reference: &[u8], kind: Kind, patch: &[u8]) -> Merged<'static> {
    Merged::Owned(Kind::PatchedLarge, [reference, &[kind as u8], patch].concat())
}

/// The payload of one message with the effect of two that are not complete.
fn compose(
    key: &[u8],
    newer: Message<'_>,
    older: Message<'_>,
    action: Option<&dyn MessageAction>,
) -> Parsed<Vec<u8>> {
    match (newer.kind, older.kind) {
        (Kind::Upsert, Kind::Upsert) => upsert::compose(newer.payload, older.payload),
        (Kind::Custom, Kind::Custom) => {
            let action = action.ok_or(NO_ACTION)?;
            Ok(action.merge(key, newer.payload, older.payload))
        }
        _ => Err("an upsert and a custom message of one key meet"),
    }
}

const NO_ACTION: &str = "the dataset was opened without the action that its custom messages need";

/// The value after a message that is not complete.
fn change(
    key: &[u8],
    message: Message<'_>,
    mut value: Option<Vec<u8>>,
    action: Option<&dyn MessageAction>,
) -> Parsed<Option<Vec<u8>>> {
    match message.kind {
        Kind::Upsert => upsert::apply(message.payload, value.get_or_insert_default())?,
        _ => action.ok_or(NO_ACTION)?.apply(key, message.payload, &mut value),
    }
    Ok(value)
}

/// The value after a message. `value` is the older one; for a message that refers to a large value
/// ([`Message::large`]), the bytes of that, which the caller has read.
///
/// # Errors
/// See [`merge`].
pub(crate) fn apply(
    key: &[u8],
    message: Message<'_>,
    value: Option<Vec<u8>>,
    action: Option<&dyn MessageAction>,
) -> Parsed<Option<Vec<u8>>> {
    match message.kind {
        Kind::Delete => Ok(None),
        Kind::Insert => Ok(Some(message.payload.to_vec())),
        Kind::Upsert | Kind::Custom => change(key, message, value, action),
        Kind::InsertLarge => Ok(value),
        Kind::PatchedLarge => change(key, message.patched()?.1, value, action),
    }
}

impl HeldMessage {
    /// This message after an older one of the same key: [`merge`], and no copy if that keeps the newer one.
    pub(crate) fn after(
        self,
        key: &[u8],
        older: Message<'_>,
        action: Option<&dyn MessageAction>,
        dropped: &mut dyn FnMut(LargeValue),
    ) -> Parsed<Self> {
        if let Merged::Owned(kind, payload) = merge(key, self.message(), older, action, dropped)? {
            return Ok(Self { kind, payload: Payload::Owned(payload) });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Piece;
    use super::*;
    use crate::storage::{Address, Extent};

    /// Messages that append bytes (0), set the value (1) or delete it (2).
    struct Append;

    impl MessageAction for Append {
        fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
            match message.split_first() {
                Some((0, rest)) => value.get_or_insert_default().extend_from_slice(rest),
                Some((1, rest)) => *value = Some(rest.to_vec()),
                _ => *value = None,
            }
        }

        fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
            match (newer.split_first(), older.first()) {
                (Some((0, rest)), Some(0 | 1)) => [older, rest].concat(),
                (Some((0, rest)), _) => [&[1], rest].concat(),
                _ => newer.to_vec(),
            }
        }
    }

    /// A large value of so many bytes, all of which are its birth.
    fn large(len: u64, birth: u64) -> LargeValue {
        let extent = Extent { address: Address::new(1, 2, birth), blocks: 1 };
        LargeValue { entered: birth, len, birth, pieces: vec![Piece { extent, checksum: 5 }] }
    }

    fn messages(is_custom: bool) -> impl Strategy<Value = (Kind, Vec<u8>)> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..20);
        let change = if is_custom {
            let custom =
                |(tag, bytes): (u8, Vec<u8>)| (Kind::Custom, [&[tag], &bytes[..]].concat());
            (0_u8..3, bytes()).prop_map(custom).boxed()
        } else {
            upsert::tests::payloads().prop_map(|payload| (Kind::Upsert, payload)).boxed()
        };
        prop_oneof![
            1 => Just((Kind::Delete, Vec::new())),
            1 => bytes().prop_map(|value| (Kind::Insert, value)),
            1 => (0_u64..30, 0_u64..200).prop_map(|(len, birth)| {
                let mut payload = Vec::new();
                large(len, birth).encode(&mut payload);
                (Kind::InsertLarge, payload)
            }),
            3 => change,
        ]
    }

    type Owned = (Kind, Vec<u8>);

    fn view((kind, payload): &Owned) -> Message<'_> {
        Message { kind: *kind, payload }
    }

    fn merged(newer: &Owned, older: &Owned) -> (Owned, Vec<LargeValue>) {
        let mut dropped = Vec::new();
        let merged =
            merge(b"k", view(newer), view(older), Some(&Append), &mut |large| dropped.push(large))
                .unwrap();
        ((merged.message().kind, merged.message().payload.to_vec()), dropped)
    }

    fn applied(message: &Owned, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let value = match view(message).large().unwrap() {
            Some(large) => Some(vec![large.birth as u8; large.len as usize]),
            None => value,
        };
        apply(b"k", view(message), value, Some(&Append)).unwrap()
    }

    fn laws(a: Owned, b: Owned, c: Owned, value: Option<Vec<u8>>) {
        let (ab, dropped) = merged(&b, &a);
        assert_eq!(applied(&ab, value.clone()), applied(&b, applied(&a, value.clone())));
        // A large value of the two is in the result, or was dropped; the newer one's is never dropped.
        let larges = |messages: &[&Owned]| -> Vec<LargeValue> {
            messages.iter().filter_map(|message| view(message).large().unwrap()).collect()
        };
        let mut left = dropped.clone();
        left.extend(larges(&[&ab]));
        assert_eq!(left, larges(&[&a, &b]));
        let (left, mut left_dropped) = merged(&c, &ab);
        let (bc, mut right_dropped) = merged(&c, &b);
        let (right, more) = merged(&bc, &a);
        assert_eq!(left, right);
        left_dropped.extend(dropped);
        right_dropped.extend(more);
        let order = |large: &LargeValue| (large.birth, large.len);
        left_dropped.sort_by_key(order);
        right_dropped.sort_by_key(order);
        assert_eq!(left_dropped, right_dropped);
        // The same without copies.
        let held =
            HeldMessage::from(view(&b)).after(b"k", view(&a), Some(&Append), &mut |_| {}).unwrap();
        assert_eq!(held.message(), view(&ab));
    }

    proptest! {
        #[test]
        fn merging_upserts_is_applying_one_after_the_other_and_associative(
            (a, b, c) in (messages(false), messages(false), messages(false)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            laws(a, b, c, value);
        }

        #[test]
        fn merging_custom_messages_is_applying_one_after_the_other_and_associative(
            (a, b, c) in (messages(true), messages(true), messages(true)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            laws(a, b, c, value);
        }

        #[test]
        fn any_payloads_are_merged_and_applied_without_panic(
            newer in (0_u8..6, prop::collection::vec(any::<u8>(), 0..40)),
            older in (0_u8..6, prop::collection::vec(any::<u8>(), 0..40)),
        ) {
            let owned = |(code, payload): (u8, Vec<u8>)| (Kind::of_code(code).unwrap(), payload);
            let (newer, older) = (owned(newer), owned(older));
            if let Ok(merged) = merge(b"k", view(&newer), view(&older), Some(&Append), &mut |_| {}) {
                let _ = merged.message().large();
            }
        }
    }

    #[test]
    fn complete_messages_win_without_a_copy_and_strangers_are_refused() {
        let newer = Message::insert(b"new");
        let merged = merge(b"k", newer, Message::insert(b"old"), None, &mut |_| {}).unwrap();
        assert!(
            matches!(merged, Merged::Newer(message) if std::ptr::eq(message.payload, newer.payload))
        );
        let custom = Message { kind: Kind::Custom, payload: b"\0x" };
        let upsert = Message { kind: Kind::Upsert, payload: b"" };
        let refused =
            |newer, older, action| merge(b"k", newer, older, action, &mut |_| {}).is_err();
        assert!(refused(custom, Message::DELETE, None) && refused(custom, custom, None));
        assert!(refused(custom, upsert, Some(&Append)) && refused(upsert, custom, Some(&Append)));
        assert!(Kind::of_code(6).is_err());
    }
}
