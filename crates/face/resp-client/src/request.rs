//! Requests: arrays of bulk strings.

/// Appends a request of these words to `to`.
pub fn encode<W: AsRef<[u8]>>(to: &mut Vec<u8>, words: &[W]) {
    array(to, words.len());
    words.iter().for_each(|word| bulk(to, word.as_ref()));
}

/// Appends the head of an array of `len` items.
#[inline]
pub fn array(to: &mut Vec<u8>, len: usize) {
    head(to, b'*', len);
}

/// Appends a bulk string.
#[inline]
pub fn bulk(to: &mut Vec<u8>, bytes: &[u8]) {
    head(to, b'$', bytes.len());
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
}

#[inline]
fn head(to: &mut Vec<u8>, kind: u8, len: usize) {
    // The decimal digits of a length, from the last one on: a load generator encodes millions of them a second.
    let mut digits = [0; 20];
    let (mut start, mut rest) = (digits.len(), len);
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    to.push(kind);
    to.extend_from_slice(&digits[start..]);
    to.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        let mut request = Vec::new();
        encode(&mut request, &[&b"SET"[..], b"", &[b'v'; 1234]]);
        let expected = [b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1234\r\n", &[b'v'; 1234][..], b"\r\n"];
        assert_eq!(request, expected.concat());
        request.clear();
        array(&mut request, usize::MAX);
        assert_eq!(request, format!("*{}\r\n", usize::MAX).as_bytes());
    }
}
