//! The checksum of files and payloads: CRC-64 with the polynomial of Jones, reflected, that begins with 0.

/// The polynomial, its bits reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[n][byte]`: the checksum of the byte with `n` zero bytes behind it.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The checksum of bytes behind others whose checksum is `crc`; 0 for the first.
#[must_use]
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        let of_byte = |(at, byte): (usize, u8)| TABLES[7 - at][usize::from(byte)];
        mixed.into_iter().enumerate().map(of_byte).fold(0, |sum, part| sum ^ part)
    });
    rest.iter()
        .fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_check_value_is_that_of_the_polynomial() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(0, b""), 0);
    }

    proptest! {
        #[test]
        fn bytes_may_come_in_pieces(bytes: Vec<u8>, at in 0..100usize) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc64(crc64(0, first), second), crc64(0, &bytes));
        }
    }
}
