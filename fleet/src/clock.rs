//! Times as a record writes them, and as files count them: microseconds since 1970 in UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Of a time as RFC 3339 writes it.
pub(crate) fn microseconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}

/// `2026-11-26`.
pub(crate) fn day(microseconds: i64) -> String {
    let text = minute(microseconds);
    text[..text.len() - " 11:00".len()].into()
}

/// `2026-11-26 11:00`.
pub(crate) fn minute(microseconds: i64) -> String {
    let at = Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH);
    let zoned = at.to_zoned(TimeZone::UTC);
    format!("{} {:02}:{:02}", zoned.date(), zoned.hour(), zoned.minute())
}
