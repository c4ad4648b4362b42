//! Times as people and programs read them: UTC, in the form of RFC 3339.

use std::time::{Duration, SystemTime};

/// The date of a day, by its number since 1970-01-01 (Hinnant, "chrono-Compatible Low-Level Date Algorithms"): an era
/// has 400 years, and a year begins with March.
fn date(day: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    let day = day + 719_468;
    let (era, of_era) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// The time of so many seconds since 1970, as `2026-01-31T23:59:59Z`.
pub(crate) fn of_second(second: u64) -> String {
    let (year, month, day) = date(second / 86_400);
    let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A time to the second; one before 1970 is 1970.
pub(crate) fn to_second(time: SystemTime) -> String {
    of_second(since_1970(time).as_secs())
}

/// A time to the nanosecond.
pub(crate) fn to_nanosecond(time: SystemTime) -> String {
    let since = since_1970(time);
    let text = of_second(since.as_secs());
    format!("{}.{:09}Z", text.trim_end_matches('Z'), since.subsec_nanos())
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (second, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(of_second(second), text);
        }
        let time = SystemTime::UNIX_EPOCH + Duration::new(59, 7);
        assert_eq!(to_nanosecond(time), "1970-01-01T00:00:59.000000007Z");
        assert_eq!(to_second(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), of_second(0));
    }
}
