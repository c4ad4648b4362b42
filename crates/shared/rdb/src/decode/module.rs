//! Values of modules, which only their modules understand: they are passed over.

use std::io::BufRead;

use crate::Value;
use crate::codes::module_parts;
use crate::error::{Defect, Result};
use crate::source::Source;

const PART: &str = "a value of a module";

/// The letters of the names of types, each of six bits.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Bits of the version, below the name.
const VERSION_BITS: u32 = 10;
/// Letters of a name.
const NAME_LEN: u32 = 9;

/// A module's value without its content.
pub(super) fn value<R: BufRead>(source: &mut Source<R>) -> Result<Value> {
    let id = source.length(PART)?;
    skip_parts(source)?;
    Ok(Value::Module { name: name(id), version: (id & ((1 << VERSION_BITS) - 1)) as u16 })
}

/// Passes over what a module has in a file beside its values, and returns the name of the module's type.
pub(crate) fn skip<R: BufRead>(source: &mut Source<R>) -> Result<String> {
    let id = source.length(PART)?;
    let begin = source.offset();
    if source.length(PART)? != module_parts::UNSIGNED {
        return source.refuse(PART, begin, Defect::new("it does not say when it is to be read"));
    }
    source.length(PART)?;
    skip_parts(source)?;
    Ok(name(id))
}

fn skip_parts<R: BufRead>(source: &mut Source<R>) -> Result<()> {
    loop {
        let begin = source.offset();
        match source.length(PART)? {
            module_parts::END => return Ok(()),
            module_parts::SIGNED | module_parts::UNSIGNED => drop(source.length(PART)?),
            module_parts::FLOAT => source.skip(PART, 4)?,
            module_parts::DOUBLE => source.skip(PART, 8)?,
            module_parts::STRING => source.skip_string(PART)?,
            _ => {
                return source.refuse(
                    PART,
                    begin,
                    Defect::new("a part of it is of no kind that there is"),
                );
            }
        }
    }
}

/// The name in an id of a type.
fn name(id: u64) -> String {
    let letter = |at: u32| {
        let shift = VERSION_BITS + 6 * (NAME_LEN - 1 - at);
        char::from(LETTERS[(id >> shift & 0x3f) as usize])
    };
    (0..NAME_LEN).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn a_value_is_passed_over_and_named() {
        let letters = b"ReJSON-RL"
            .iter()
            .map(|letter| LETTERS.iter().position(|known| known == letter).unwrap() as u64);
        let id = letters.fold(0, |id, letter| id << 6 | letter) << 10 | 3;
        let mut bytes = vec![0x81];
        bytes.extend(id.to_be_bytes());
        bytes.extend(b"\x02\x05\x01\x40\xff\x03abcd\x04abcdefgh\x05\x03abc\x05\xc0\x07\0rest");
        let mut source = Source::new(&bytes[..], Limits::default());
        let read = value(&mut source).unwrap();
        assert_eq!(read, Value::Module { name: "ReJSON-RL".into(), version: 3 });
        assert_eq!(source.into_inner(), b"rest");
    }

    #[test]
    fn unknown_parts_are_refused() {
        let mut source = Source::new(&b"\x01\x06"[..], Limits::default());
        let error = value(&mut source).unwrap_err().to_string();
        assert!(error.ends_with("a part of it is of no kind that there is"), "{error}");
    }
}
