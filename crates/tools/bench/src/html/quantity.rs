//! Figures as people read them: three digits, an SI prefix, the unit.

use serde_json::Value;

/// A number with its prefix and its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// The digits.
    pub(crate) number: String,
    /// The prefix, or a prefixed unit where the two are written as one (`ns`, `GB/s`).
    pub(crate) prefix: String,
    /// The rest of the unit.
    pub(crate) unit: String,
}

impl Quantity {
    /// `value` in `unit`, scaled.
    pub(crate) fn of(value: f64, unit: &str) -> Self {
        let words = |number: String, prefix: &str, unit: &str| Self {
            number,
            prefix: prefix.to_owned(),
            unit: unit.to_owned(),
        };
        if value.is_nan() {
            return words("NaN".to_owned(), "", "");
        }
        if value.is_infinite() {
            return words(if value > 0.0 { "∞" } else { "-∞" }.to_owned(), "", unit);
        }
        if let Some(nanoseconds) = nanoseconds_of(unit) {
            let (number, prefix) =
                scaled(value * nanoseconds, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]);
            return words(number, prefix, "");
        }
        let (number, prefix) = scaled(
            value,
            &[(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
        );
        if unit == "B" || unit.starts_with("B/") {
            return words(number, &format!("{prefix}{unit}"), "");
        }
        match unit.strip_prefix("1/") {
            Some(each) => words(number, prefix, &format!("per {each}")),
            None => words(number, prefix, unit),
        }
    }

    /// Returns the text without the part of the unit that an axis or a column names already.
    pub(crate) fn short(&self) -> String {
        join(&[&self.number, &self.prefix])
    }

    /// Returns the text of a tick of an axis: short, and without zeros at the end.
    pub(crate) fn tick(&self) -> String {
        let number = match self.number.split_once('.') {
            Some((_, decimals)) if !decimals.contains('e') => {
                self.number.trim_end_matches('0').trim_end_matches('.')
            }
            _ => &self.number,
        };
        join(&[number, &self.prefix])
    }
}

/// `value` with its unit: `1.23 M op/s`, `340 ns`, `12.0 GB/s`.
pub(crate) fn text(value: f64, unit: &str) -> String {
    let quantity = Quantity::of(value, unit);
    join(&[&quantity.number, &quantity.prefix, &quantity.unit])
}

/// Returns the text from the least to the largest, the prefix once if both have the same; empty if there is no spread.
pub(crate) fn spread(min: f64, max: f64, unit: &str) -> String {
    if min == max {
        return String::new();
    }
    let (low, high) = (Quantity::of(min, unit), Quantity::of(max, unit));
    if low.prefix == high.prefix {
        format!("{}–{}", low.number, high.short())
    } else {
        format!("{}–{}", low.short(), high.short())
    }
}

/// How much of its limit a value is; empty without a limit that can be divided by.
pub(crate) fn of_limit(value: f64, limit: Option<f64>) -> String {
    match limit {
        Some(limit) if limit != 0.0 && (value / limit).is_finite() => {
            let percent = value / limit * 100.0;
            if percent.abs() < 1e4 { format!("{percent:.0} %") } else { format!("{percent:.0e} %") }
        }
        _ => String::new(),
    }
}

/// The addition of that unit to an axis's label; empty where the ticks have it.
pub(crate) fn unit_of_axis(unit: &str) -> String {
    Quantity::of(1.0, unit).unit
}

/// A parameter's value; lengths in bytes have their unit.
pub(crate) fn param(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if is_length(name) => length(bytes),
            _ => number.to_string(),
        },
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// Whether a parameter of that name is a length in bytes.
pub(crate) fn is_length(name: &str) -> bool {
    let last = name.rsplit(['-', '_']).next().unwrap_or(name);
    matches!(
        last,
        "bytes"
            | "page"
            | "entry"
            | "block"
            | "size"
            | "granularity"
            | "pmem"
            | "memory"
            | "database"
    )
}

/// A length in bytes, in the largest binary unit that divides it.
pub(crate) fn length(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

fn nanoseconds_of(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

fn scaled(value: f64, prefixes: &[(f64, &'static str)]) -> (String, &'static str) {
    // From 999.5 on, three digits show as 1000.
    let fits = |&&(factor, _): &&(f64, _)| value.abs() / factor >= 0.9995;
    let smallest = prefixes.last().copied().unwrap_or((1.0, ""));
    let (factor, prefix) = prefixes.iter().find(fits).copied().unwrap_or(smallest);
    let number = value / factor;
    let size = number.abs();
    let digits = if size >= 9999.5 || (size < 0.000_95 && size > 0.0) {
        format!("{number:.2e}")
    } else if size >= 99.95 || (number.fract() == 0.0 && factor == smallest.0) {
        format!("{number:.0}")
    } else if size >= 9.995 {
        format!("{number:.1}")
    } else if size >= 0.9995 {
        format!("{number:.2}")
    } else if size >= 0.0995 {
        format!("{number:.3}")
    } else {
        format!("{number:.4}")
    };
    (digits, prefix)
}

fn join(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_prefix() {
        for (value, unit, shown) in [
            (1_234_567.0, "op/s", "1.23 M op/s"),
            (999.7, "op/s", "1.00 k op/s"),
            (340.2, "ns", "340 ns"),
            (1_500.0, "ns", "1.50 µs"),
            (2.5, "ms", "2.50 ms"),
            (12e9, "B/s", "12.0 GB/s"),
            (2.0, "1/op", "2 per op"),
            (0.25, "1/op", "0.250 per op"),
            (1.84, "x", "1.84 x"),
            (0.0, "ns", "0 ns"),
            (-1_234.0, "op/s", "-1.23 k op/s"),
            (0.000_012, "", "1.20e-5"),
            (1e300, "op/s", "1.00e285 P op/s"),
            (f64::NAN, "op/s", "NaN"),
            (f64::NEG_INFINITY, "ns", "-∞ ns"),
        ] {
            assert_eq!(text(value, unit), shown);
        }
    }

    #[test]
    fn ticks_have_no_zeros_at_the_end() {
        assert_eq!(Quantity::of(1_500_000.0, "op/s").tick(), "1.5 M");
        assert_eq!(Quantity::of(2_000_000.0, "op/s").tick(), "2 M");
        assert_eq!(Quantity::of(300.0, "ns").tick(), "300 ns");
    }

    #[test]
    fn a_spread_has_its_prefix_once() {
        assert_eq!(spread(1.2e6, 1.3e6, "op/s"), "1.20–1.30 M");
        assert_eq!(spread(900.0, 1_100.0, "ns"), "900 ns–1.10 µs");
        assert_eq!(spread(5.0, 5.0, "ns"), "");
    }

    #[test]
    fn lengths_are_in_binary_units() {
        assert_eq!(param("bytes", &Value::from(64)), "64 B");
        assert_eq!(param("page", &Value::from(16384)), "16 KiB");
        assert_eq!(param("threads", &Value::from(1024)), "1024");
        assert_eq!(length(1 << 30), "1 GiB");
        assert_eq!(length(1000), "1000 B");
    }
}
