//! Keys, values and numbers: few keys, so that commands meet, and values at the edges of what commands take.

use fastrand::Rng;

/// Keys of strings; one of them in two is among the first few.
const KEYS: u64 = 12;

/// A key.
pub(crate) fn key(random: &mut Rng) -> Vec<u8> {
    let number = if random.bool() { random.u64(..4) } else { random.u64(..KEYS) };
    match number {
        10 => b"key\0\r\n\xff".to_vec(),
        11 => Vec::new(),
        number => format!("key:{number}").into_bytes(),
    }
}

/// A key that few other commands use: those of a family of their own meet there.
pub(crate) fn own_key(random: &mut Rng, family: &str) -> Vec<u8> {
    match random.u8(..10) {
        0 => key(random),
        _ => format!("{family}:{}", random.u8(..4)).into_bytes(),
    }
}

/// A value: often a number, sometimes bytes of all kinds, sometimes long.
pub(crate) fn value(random: &mut Rng) -> Vec<u8> {
    match random.u8(..20) {
        0..=5 => integer(random),
        6..=8 => float(random),
        9 => Vec::new(),
        10..=12 => text(random, 8),
        13..=15 => bytes(random, 12),
        16 => bytes(random, 60),
        17 => bytes(random, 400),
        18 => vec![*random.choice([0, 0xff, b'0', b'a'].iter()).unwrap_or(&0); random.usize(..80)],
        _ => text(random, 44),
    }
}

/// Any bytes.
pub(crate) fn bytes(random: &mut Rng, len_max: usize) -> Vec<u8> {
    (0..random.usize(..=len_max)).map(|_| random.u8(..)).collect()
}

/// A few letters.
pub(crate) fn text(random: &mut Rng, len_max: usize) -> Vec<u8> {
    (0..random.usize(..=len_max)).map(|_| b'a' + random.u8(..4)).collect()
}

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "8",
    "9",
    "10",
    "63",
    "64",
    "100",
    "255",
    "256",
    "1000",
    "-100",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
];

const NO_INTEGERS: &[&str] = &[
    "",
    "-",
    "+1",
    "01",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "abc",
    "-0",
    "0x10",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1\0",
    "--1",
    "99999999999999999999999",
];

/// An integer, often a small one, rarely none.
pub(crate) fn integer(random: &mut Rng) -> Vec<u8> {
    match random.u8(..40) {
        0 => pick(random, NO_INTEGERS),
        1..=8 => pick(random, INTEGERS),
        9..=14 => random.i64(-40..40).to_string().into_bytes(),
        _ => random.u64(..20).to_string().into_bytes(),
    }
}

const FLOATS: &[&str] = &[
    "0.1",
    "-0.5",
    "3.0",
    "1.5e3",
    "1e-5",
    "1e17",
    "-1e17",
    "3.14159265358979",
    ".5",
    "5.",
    "1e400",
    "1e5000",
    "inf",
    "-inf",
    "+inf",
    "infinity",
    "nan",
    "1e",
    "e1",
    "0x1p3",
    "1.2.3",
    "1,5",
    " 1.5",
    "1.5 ",
    "-0",
    "-0.0",
    "1e308",
    "123456789012345678",
    "0.00000000000000001",
];

/// A floating-point number, rarely none.
pub(crate) fn float(random: &mut Rng) -> Vec<u8> {
    match random.u8(..4) {
        0 => pick(random, FLOATS),
        1 => integer(random),
        _ => format!("{}", random.i32(-2000..2000) as f64 / 8.0).into_bytes(),
    }
}

/// A time to live that does not pass while requests are sent, or none at all.
pub(crate) fn time_to_live(random: &mut Rng) -> Vec<u8> {
    match random.u8(..12) {
        0 => pick(random, NO_INTEGERS),
        1 => b"0".to_vec(),
        2 => pick(random, &["9223372036854775807", "9223372036854775", "9223372036854776", "-5"]),
        _ => random.u64(1_000_000..9_000_000).to_string().into_bytes(),
    }
}

/// A time in the future or the past, in so many units a second.
pub(crate) fn time(random: &mut Rng, units: u64) -> Vec<u8> {
    match random.u8(..12) {
        0 => integer(random),
        1 => b"1".to_vec(),
        2 => pick(random, &["9223372036854775807", "9223372036854775", "0", "-1"]),
        _ => (33_177_117_420 * units + random.u64(..5000)).to_string().into_bytes(),
    }
}

/// The offset of a bit.
pub(crate) fn bit_offset(random: &mut Rng) -> Vec<u8> {
    match random.u8(..30) {
        0 => integer(random),
        1 => pick(
            random,
            &["8388607", "8388608", "4294967296", "-1", "9223372036854775807", "#1", "a"],
        ),
        2..=4 => random.u32(..100_000).to_string().into_bytes(),
        _ => random.u32(..200).to_string().into_bytes(),
    }
}

/// The type of a bit field.
pub(crate) fn field(random: &mut Rng) -> Vec<u8> {
    match random.u8(..30) {
        0 => pick(
            random,
            &["u64", "i65", "u0", "i0", "I8", "8", "", "u", "u-1", "u08", "i64x", "u1\0"],
        ),
        1..=6 => pick(random, &["u63", "i64", "u1", "i1", "u8", "i8", "u16", "i16", "u32", "i32"]),
        _ => {
            let sign = if random.bool() { 'i' } else { 'u' };
            format!("{sign}{}", random.u8(1..64)).into_bytes()
        }
    }
}

/// The offset of a bit field.
pub(crate) fn field_offset(random: &mut Rng) -> Vec<u8> {
    match random.u8(..20) {
        0 => bit_offset(random),
        1 => pick(random, &["#", "#-1", "#x", "-1", "#131072", "#1048575", "##1"]),
        2..=8 => format!("#{}", random.u8(..12)).into_bytes(),
        _ => random.u8(..200).to_string().into_bytes(),
    }
}

/// A word that no command expects.
pub(crate) fn odd(random: &mut Rng) -> Vec<u8> {
    match random.u8(..4) {
        0 => bytes(random, 10),
        1 => integer(random),
        _ => pick(
            random,
            &["NX", "XX", "GET", "EX", "PX", "KEEPTTL", "foo", "", "LIMIT", "COUNT", "BIT"],
        ),
    }
}

/// An element of a collection: few, so that they meet, and some that are long, or look like numbers.
pub(crate) fn element(random: &mut Rng) -> Vec<u8> {
    match random.u8(..24) {
        0 => value(random),
        1 => vec![b'x'; random.usize(60..70)],
        2..=7 => random.u8(..12).to_string().into_bytes(),
        8..=9 => text(random, 3),
        _ => vec![b'a' + random.u8(..8)],
    }
}

/// A score.
pub(crate) fn score(random: &mut Rng) -> Vec<u8> {
    match random.u8(..12) {
        0 => float(random),
        1 => pick(random, &["inf", "-inf", "+inf", "-0", "0", "1e300", "0.1", "nan", "x"]),
        _ => format!("{}", f64::from(random.i16(-20..60)) / 4.0).into_bytes(),
    }
}

/// An end of a range of scores.
pub(crate) fn limit(random: &mut Rng) -> Vec<u8> {
    match random.u8(..10) {
        0 => pick(random, &["-inf", "+inf", "inf", "(inf", "(-inf", "(", "", "(x", "((1"]),
        1 => b"-inf".to_vec(),
        2 => b"+inf".to_vec(),
        3..=4 => [b"(", &score(random)[..]].concat(),
        _ => score(random),
    }
}

/// An end of a range of members.
pub(crate) fn lexical_limit(random: &mut Rng) -> Vec<u8> {
    match random.u8(..10) {
        0 => pick(random, &["", "[", "(", "a", "--", "+x"]),
        1..=2 => b"-".to_vec(),
        3..=4 => b"+".to_vec(),
        5..=6 => [b"(", &element(random)[..]].concat(),
        _ => [b"[", &element(random)[..]].concat(),
    }
}

/// The id of an entry of a stream.
pub(crate) fn id(random: &mut Rng) -> Vec<u8> {
    match random.u8(..20) {
        0 => pick(
            random,
            &["0", "0-0", "", "-", "1-", "-1", "a-1", "1-1-1", "18446744073709551615", "1-a", "+1"],
        ),
        1..=3 => random.u8(..30).to_string().into_bytes(),
        _ => format!("{}-{}", random.u8(..30), random.u8(..3)).into_bytes(),
    }
}

/// The id of an entry that is added. None depends on the time.
pub(crate) fn new_id(random: &mut Rng) -> Vec<u8> {
    match random.u8(..8) {
        0 => id(random),
        1..=2 => format!("{}-*", random.u8(..30)).into_bytes(),
        _ => format!("{}-{}", random.u8(..30), random.u8(..30)).into_bytes(),
    }
}

/// An end of a range of ids.
pub(crate) fn id_bound(random: &mut Rng) -> Vec<u8> {
    match random.u8(..10) {
        0..=1 => b"-".to_vec(),
        2..=3 => b"+".to_vec(),
        4 => [b"(", &id(random)[..]].concat(),
        _ => id(random),
    }
}

/// Degrees, up to a bit too many.
pub(crate) fn degrees(random: &mut Rng, most: f64) -> Vec<u8> {
    match random.u8(..30) {
        0 => float(random),
        1 => format!("{:.6}", (random.f64() * 2.0 - 1.0) * most).into_bytes(),
        _ => format!("{:.4}", 10.0 + random.f64() * 4.0).into_bytes(),
    }
}

/// A distance in an area where places are.
pub(crate) fn distance(random: &mut Rng) -> Vec<u8> {
    match random.u8(..12) {
        0 => float(random),
        1 => integer(random),
        _ => random.u16(..800).to_string().into_bytes(),
    }
}

/// One of some texts.
pub(crate) fn pick(random: &mut Rng, texts: &[&str]) -> Vec<u8> {
    texts.get(random.usize(..texts.len())).unwrap_or(&"").as_bytes().to_vec()
}
