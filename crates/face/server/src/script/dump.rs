//! The form in which FUNCTION DUMP hands libraries on, and FUNCTION RESTORE takes them.
//!
//! ```text
//! for each library: the byte 245, the length of its text, its text
//! at the end:       the version of the form, 2 bytes, and a checksum of all before it, 8 bytes, both little-endian
//! ```
//!
//! Redis compresses long texts; those are read, and none is written.

/// Begins a library.
const LIBRARY: u8 = 245;
/// The newest version of the form that is read, of Redis 7.2, and the one that is written.
const VERSION_MAX: u16 = 11;
const VERSION: u16 = 10;
/// Bytes of a text that was compressed.
const TEXT_LEN_MAX: usize = 64 << 20;

/// The libraries of these texts as one value.
pub(crate) fn dump<'a>(bodies: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for body in bodies {
        out.push(LIBRARY);
        match body.len() {
            len @ 0..64 => out.push(len as u8),
            len @ 64..16384 => out.extend([0x40 | (len >> 8) as u8, len as u8]),
            len => {
                out.push(0x80);
                out.extend_from_slice(&(len as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(body);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The texts of a value; `Err`: why it is refused.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
    let (rest, sum) = bytes.split_last_chunk::<8>().ok_or(WRONG)?;
    let (mut rest, version) = rest.split_last_chunk::<2>().ok_or(WRONG)?;
    let summed = &bytes[..bytes.len() - 8];
    if u16::from_le_bytes(*version) > VERSION_MAX || u64::from_le_bytes(*sum) != checksum(summed) {
        return Err(WRONG);
    }
    let mut bodies = Vec::new();
    while let Some((&mark, text)) = rest.split_first() {
        if mark != LIBRARY {
            return Err("ERR given type is not a function");
        }
        rest = text;
        bodies.push(text_of(&mut rest).ok_or("ERR failed loading functions payload")?);
    }
    Ok(bodies)
}

/// The text at the front.
fn text_of(rest: &mut &[u8]) -> Option<Vec<u8>> {
    match rest.first()? {
        0xC3 => {
            *rest = &rest[1..];
            let (packed, len) = (length(rest)?, length(rest)?);
            let packed = rest.split_off(..packed)?;
            decompress(packed, Some(len).filter(|&len| len <= TEXT_LEN_MAX)?)
        }
        _ => {
            let len = length(rest)?;
            rest.split_off(..len).map(<[u8]>::to_vec)
        }
    }
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (&first, behind) = rest.split_first()?;
    *rest = behind;
    match first {
        0..0x40 => Some(usize::from(first)),
        0x40..0x80 => {
            let second = *rest.split_off_first()?;
            Some(usize::from(first & 0x3F) << 8 | usize::from(second))
        }
        0x80 => {
            let bytes = rest.split_off(..4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
        }
        _ => None,
    }
}

/// The `len` bytes that were compressed by LZF: runs of bytes, and references to bytes before.
fn decompress(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some(&control) = packed.split_off_first() {
        let control = usize::from(control);
        if control < 32 {
            out.extend_from_slice(packed.split_off(..control + 1)?);
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(*packed.split_off_first()?);
            }
            let back = (control & 31) << 8 | usize::from(*packed.split_off_first()?);
            let start = out.len().checked_sub(back + 1)?;
            for at in start..start + count + 2 {
                let byte = out[at];
                out.push(byte);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// The checksum of Redis: a CRC of 64 bits by the polynomial of Jones.
fn checksum(bytes: &[u8]) -> u64 {
    /// The polynomial, its lowest bit first.
    const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut sum = index as u64;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
                bit += 1;
            }
            table[index] = sum;
            index += 1;
        }
        table
    };
    bytes.iter().fold(0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_redis_own() {
        assert_eq!(checksum(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn libraries_come_back() {
        let bodies = [&b"short"[..], &[b'x'; 100], &[b'y'; 20000]];
        let dumped = dump(bodies.into_iter());
        assert_eq!(parse(&dumped).unwrap(), bodies);
        assert_eq!(parse(&dump([].into_iter())).unwrap(), Vec::<Vec<u8>>::new());
        for len in 0..dumped.len() {
            assert!(parse(&dumped[..len]).is_err());
        }
    }

    #[test]
    fn what_redis_has_dumped_is_read() {
        let dumped = b"\xf5\xc3@\xae@\xf1\x1f#!lua name=mylib\nredis.register_\x0efunction(\"f1\", \xe0\x00\x0e\x11keys\
            , args) return`\x0c\x07[1] end)\xe0\x0fF\x00{\xc0@\x00_`r\x02\"f2 T\x08callback=\xc0\x1c\xe0\x0b\
            ]\x80\x97@*\x04(\"get 6@\x82 o\x00)@p \x99\x1alags={\"no-writes\"}, descrip@\xc0\x01=\"@\x0c\x01\
            \"}\n\x00\x87A\xa7\xd1C6\x03\x9c";
        let texts = parse(dumped).unwrap();
        let [text] = &texts[..] else { panic!("there is one library") };
        assert!(text.starts_with(b"#!lua name=mylib\nredis.register_function(\"f1\", "));
        assert!(text.ends_with(b"description=\"desc\"}"));
    }

    #[test]
    fn compressed_texts_are_read() {
        // A run of `ab`, and six bytes from two before on.
        let packed = [1, b'a', b'b', 4 << 5, 1];
        assert_eq!(decompress(&packed, 8).unwrap(), b"abababab");
        assert!(decompress(&packed, 7).is_none());
        assert!(decompress(&[32, 5], 3).is_none());
    }
}
