//! Moments in microseconds, and their text.

use std::{fmt, str::FromStr};

use crate::{Error, Result};

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// Days of the years of 400, after which the Gregorian calendar repeats.
const ERA_D: i64 = 146_097;

/// Days from 0000-03-01, where the count of eras begins, to 1970-01-01.
const EPOCH_D: i64 = 719_468;

/// A moment: microseconds since 1970-01-01 00:00:00 UTC, negative before.
///
/// Its text is `2026-11-27 02:04:30`, with `.123456` behind it unless the fraction is zero. Moments of years that do
/// not have four digits are written as the number of microseconds with `us` behind it. Both are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// The day of a date, counted from 1970-01-01. Years begin in March here, so that leap days end them.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA_D + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_D
}

/// Year, month and day of a day.
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + EPOCH_D;
    let (era, of_era) = (day.div_euclid(ERA_D), day.rem_euclid(ERA_D));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400, (month + 2) % 12 + 1);
    (if month <= 2 { year + 1 } else { year }, month, day)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0.div_euclid(SECOND_US), self.0.rem_euclid(SECOND_US));
        let (year, month, day) = date_of(seconds.div_euclid(DAY_S));
        if !(0..10_000).contains(&year) {
            return write!(f, "{}us", self.0);
        }
        let second = seconds.rem_euclid(DAY_S);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        match fraction {
            0 => Ok(()),
            _ => write!(f, ".{fraction:06}"),
        }
    }
}

/// `len` digits at the front of a text, and the text behind them and behind `end`.
fn digits<'a>(text: &'a str, len: usize, end: &str) -> Option<(i64, &'a str)> {
    let (front, rest) = text.split_at_checked(len)?;
    let whole = front.bytes().all(|byte| byte.is_ascii_digit());
    Some((front.parse().ok().filter(|_| whole)?, rest.strip_prefix(end)?))
}

fn parse(text: &str) -> Option<i64> {
    if let Some(microseconds) = text.strip_suffix("us") {
        return microseconds.parse().ok();
    }
    let (year, text) = digits(text, 4, "-")?;
    let (month, text) = digits(text, 2, "-")?;
    let (day, text) = digits(text, 2, "")?;
    let days = day_of(year, month, day);
    if !(1..=12).contains(&month) || date_of(days) != (year, month, day) {
        return None;
    }
    let Some(text) = text.strip_prefix([' ', 'T']) else {
        return text.is_empty().then_some(days * DAY_S * SECOND_US);
    };
    let (hour, text) = digits(text, 2, ":")?;
    let (minute, text) = digits(text, 2, ":")?;
    let (second, text) = digits(text, 2, "")?;
    let fraction = match text.strip_prefix('.') {
        None => text.is_empty().then_some(0)?,
        Some(fraction) => {
            let (value, _) =
                digits(fraction, fraction.len(), "").filter(|_| fraction.len() <= 6)?;
            value * 10_i64.pow(6 - fraction.len() as u32)
        }
    };
    (hour < 24 && minute < 60 && second < 60)
        .then_some(((days * DAY_S) + hour * 3600 + minute * 60 + second) * SECOND_US + fraction)
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map(Self).ok_or_else(|| {
            Error::not_a("TIMESTAMP", text, "write it as 2026-11-27 02:04:30.123456")
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments_have_their_text() {
        for (us, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (951_782_400_000_000, "2000-02-29 00:00:00"),
            (1_709_251_199_500_000, "2024-02-29 23:59:59.500000"),
            (253_402_300_799_999_999, "9999-12-31 23:59:59.999999"),
            (253_402_300_800_000_000, "253402300800000000us"),
            (-62_167_219_200_000_000, "0000-01-01 00:00:00"),
        ] {
            assert_eq!(Timestamp(us).to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap(), Timestamp(us));
        }
        assert_eq!("2024-02-29".parse::<Timestamp>().unwrap().0, 1_709_164_800_000_000);
        assert_eq!("1970-01-01T00:00:01.5".parse::<Timestamp>().unwrap().0, 1_500_000);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "us",
            "2023-02-29",
            "2023-13-01",
            "2023-00-01",
            "2023-01-00",
            "2023-01-01 24:00:00",
            "2023-01-01 00:60:00",
            "2023-01-01 00:00:60",
            "2023-01-01 00:00:00.",
            "2023-01-01 00:00:00.1234567",
            "2023-01-01 00:00",
            "+023-01-01",
            "2023-01-01x",
            "99999999999999999999us",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_read_from_its_text(us in any::<i64>(), near in 0..253_402_300_800_000_000_i64) {
            for us in [us, near, -near] {
                prop_assert_eq!(Timestamp(us).to_string().parse::<Timestamp>().unwrap(), Timestamp(us));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,30}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}
