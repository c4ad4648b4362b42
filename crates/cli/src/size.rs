//! Sizes and counts as people write and read them.

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A size in bytes from `64MiB`, `2GiB` or plain bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let bytes_per_unit = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit) || (unit.is_empty() && *name == "B"))
        .map(|(_, bytes)| *bytes)
        .ok_or("the units are KiB, MiB, GiB, TiB; none means bytes, as in 64MiB or 67108864")?;
    let number: u64 = digits.trim_end().parse().map_err(|_| "not a whole number".to_owned())?;
    number.checked_mul(bytes_per_unit).ok_or_else(|| "more than 2^64 bytes".to_owned())
}

/// A size as people read it, for example `1.5 MiB`.
pub(crate) fn human(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if *unit > 1 => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        _ => format!("{bytes} B"),
    }
}

/// A number with a comma before every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 record`, `2,000 records`.
pub(crate) fn count(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("2gib", 2 << 30), ("1 TiB", 1 << 40)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "10MB", "99999999999TiB", "1e9"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_are_short() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(3 << 19), "1.5 MiB");
        assert_eq!(count(1, "record"), "1 record");
        assert_eq!(count(1_234_567, "record"), "1,234,567 records");
        assert_eq!(grouped(999), "999");
    }
}
