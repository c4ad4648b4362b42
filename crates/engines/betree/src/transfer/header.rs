//! The header of a stream, and the token with which a receiver asks for the rest of one: a part.
//!
//! ```text
//! header   id u128 | pool u128 | dataset | snapshot | from | part
//! part     identity u128 | from's identity u128 | 0, or 1 and the first key that it may have
//! ```
//!
//! Names and keys lie behind their lengths, as varints. The identity of no snapshot is 0.

use std::fmt;
use std::str::FromStr;

use halite_codec::{Reader, put_bytes};
use halite_contract::KEY_SPACE_NAME_LEN_MAX;

use super::content::KEY_MAX;
use super::error::StreamError;

/// The beginning of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// The stream's number.
    pub(super) id: u128,
    /// The number of the pool that it was sent from.
    pub(super) pool: u128,
    /// The names of the dataset and the snapshot there.
    pub(super) dataset: String,
    pub(super) snapshot: String,
    pub(super) from: String,
    pub(super) part: StreamPart,
}

/// The part of a transfer that a stream has, or lacks still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamPart {
    /// The snapshot.
    pub(super) identity: u128,
    /// The snapshot that it has the changes since.
    pub(super) from: Option<u128>,
    /// The first key that it may have; `None`: it has all.
    pub(super) start: Option<Vec<u8>>,
}

/// The part that a receiver lacks of a stream that was interrupted: [`Betree::send`](crate::Betree::send) sends it.
///
/// Its text is hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveToken(pub(super) StreamPart);

fn read_number(from: &mut Reader<'_>) -> Option<u128> {
    Some(u128::from_le_bytes(from.take(16).ok()?.try_into().ok()?))
}

fn read_name(from: &mut Reader<'_>) -> Option<String> {
    let name = from.bytes().ok().filter(|name| name.len() <= KEY_SPACE_NAME_LEN_MAX)?;
    Some(std::str::from_utf8(name).ok()?.to_owned())
}

impl StreamPart {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.identity.to_le_bytes());
        to.extend_from_slice(&self.from.unwrap_or_default().to_le_bytes());
        to.push(self.start.is_some().into());
        self.start.iter().for_each(|key| put_bytes(to, key));
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let identity = read_number(from)?;
        let base = read_number(from)?;
        let start = match from.u8().ok()? {
            0 => None,
            1 => Some(from.bytes().ok().filter(|key| key.len() <= KEY_MAX)?.to_vec()),
            _ => return None,
        };
        let base = Some(base).filter(|base| *base != 0);
        (identity != 0).then_some(Self { identity, from: base, start })
    }

    /// The part that is all of some bytes.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        Self::decode(&mut from).filter(|_| from.is_empty())
    }
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        to.extend_from_slice(&self.id.to_le_bytes());
        to.extend_from_slice(&self.pool.to_le_bytes());
        for name in [&self.dataset, &self.snapshot, &self.from] {
            put_bytes(&mut to, name.as_bytes());
        }
        self.part.encode(&mut to);
        to
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let (id, pool) = (read_number(&mut from)?, read_number(&mut from)?);
        let (dataset, snapshot) = (read_name(&mut from)?, read_name(&mut from)?);
        let of = read_name(&mut from)?;
        let part = StreamPart::decode(&mut from)?;
        from.is_empty().then_some(Self { id, pool, dataset, snapshot, from: of, part })
    }
}

impl fmt::Display for ReceiveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        self.0.encode(&mut bytes);
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ReceiveToken {
    type Err = StreamError;

    fn from_str(text: &str) -> Result<Self, StreamError> {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |two: &[u8]| Some((digit(two[0])? << 4 | digit(two[1])?) as u8);
        let bytes = match text.len().is_multiple_of(2) {
            true => text.as_bytes().chunks_exact(2).map(byte).collect::<Option<Vec<u8>>>(),
            false => None,
        };
        let part = bytes.and_then(|bytes| StreamPart::of_bytes(&bytes));
        part.map(Self).ok_or(StreamError::NotResumable { why: "the token is none" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_and_tokens_come_back_and_damaged_ones_are_refused_without_panic(
            numbers in any::<[u128; 4]>(),
            names in prop::array::uniform3("[a-zß]{0,9}"),
            start in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
            flip in any::<(prop::sample::Index, u8)>(),
        ) {
            let [id, pool, identity, from] = numbers;
            let from = Some(from).filter(|from| *from != 0);
            let part = StreamPart { identity: identity.max(1), from, start };
            let [dataset, snapshot, of] = names;
            let header = Header { id, pool, dataset, snapshot, from: of, part: part.clone() };
            let mut bytes = header.encode();
            prop_assert_eq!(Header::decode(&bytes), Some(header));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Header::decode(&bytes[..cut]), None);
            }
            let token = ReceiveToken(part);
            let text = token.to_string();
            prop_assert_eq!(text.parse::<ReceiveToken>().ok(), Some(token));
            prop_assert!(text[..text.len() - 1].parse::<ReceiveToken>().is_err());
            let at = flip.0.index(bytes.len());
            bytes[at] = flip.1;
            let _ = Header::decode(&bytes);
        }
    }
}
