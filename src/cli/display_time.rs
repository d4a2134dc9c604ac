//! Times for display: local times for people at a terminal, ages, durations, and UTC timestamps as in the log file.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::console;
use punie_text::output::number_format;

/// Formats a time for a table: on a terminal the local time of today, or the day and the minute; else in UTC.
pub fn format_when(at_ms: i64, now_ms: i64) -> String {
    if console::is_terminal() {
        format_in_zone(at_ms, now_ms, TimeZone::system())
    } else {
        format_utc(at_ms)
    }
}

/// Formats a moment: on a terminal the local date and time, else in UTC.
pub fn format_moment(at_ms: i64) -> String {
    if console::is_terminal() {
        format_zoned(at_ms, "%F %T", TimeZone::system())
    } else {
        format_utc(at_ms)
    }
}

/// Formats the local time of the day: `15:04:05`.
pub fn format_clock(at_ms: i64) -> String {
    format_zoned(at_ms, "%T", TimeZone::system())
}

fn format_in_zone(at_ms: i64, now_ms: i64, zone: TimeZone) -> String {
    let day = |ms| format_zoned(ms, "%F", zone.clone());
    let is_today = day(at_ms) == day(now_ms);
    let format = if is_today { "%T" } else { "%b %d %H:%M" };
    format_zoned(at_ms, format, zone)
}

fn format_zoned(at_ms: i64, format: &str, zone: TimeZone) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.to_zoned(zone).strftime(format).to_string()
}

/// Formats a time by RFC 3339, for programs: `2026-03-01T12:30:05Z`.
pub fn format_rfc3339(at_ms: i64) -> String {
    format_utc(at_ms).replace(' ', "T")
}

/// Formats a time relative to `now_ms`: `3 s ago`, `2 h ago`.
pub fn format_age(at_ms: i64, now_ms: i64) -> String {
    match now_ms.saturating_sub(at_ms) {
        ..-999 => format!("in {}", format_coarse(at_ms.saturating_sub(now_ms))),
        -999..1_000 => "now".to_owned(),
        past => format!("{} ago", format_coarse(past)),
    }
}

/// Formats a duration in its largest sensible unit, without a fraction: `45 s`, `3 min`, `2 h`, `5 d`.
pub fn format_coarse(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Formats the time until an approval question expires, to the nearest minute.
pub fn format_time_left(expires_at_ms: i64, now_ms: i64) -> String {
    match expires_at_ms.saturating_sub(now_ms) {
        ..60_000 => "under 1 min".to_owned(),
        left => format!("{} min", (left + 30_000) / 60_000),
    }
}

/// Formats an elapsed time: `12 ms`, `1.3 s`, then as [`format_coarse`].
pub fn format_elapsed(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{} ms", ms.max(0)),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format_coarse(ms),
    }
}

/// Formats a timestamp in UTC, to the second: `2026-03-01 12:30:05Z`.
pub fn format_utc(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1_000);
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    let (year, month, day) = number_format::civil_from_days(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_199_999, "2024-02-29 23:59:59Z"),
            (1_772_368_205_000, "2026-03-01 12:30:05Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
            (-1_000, "1969-12-31 23:59:59Z"),
        ] {
            assert_eq!(format_utc(ms), text);
        }
    }

    #[test]
    fn a_person_reads_the_local_time_and_the_date_of_other_days() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let now_ms = 1_772_368_205_000;
        for (ms, text) in [
            (now_ms, "13:30:05"),
            (1_772_319_600_000, "00:00:00"),
            (1_772_319_599_000, "Feb 28 23:59"),
            (1_751_371_200_000, "Jul 01 14:00"),
        ] {
            assert_eq!(format_in_zone(ms, now_ms, zone.clone()), text);
        }
    }

    #[test]
    fn spans_are_in_their_largest_sensible_unit() {
        assert_eq!(
            (
                format_elapsed(12),
                format_elapsed(1_349),
                format_elapsed(61_000)
            ),
            ("12 ms".into(), "1.3 s".into(), "61 s".into())
        );
        assert_eq!(
            (format_coarse(7_199_000), format_coarse(7_200_000)),
            ("119 min".into(), "2 h".into())
        );
        assert_eq!(
            (format_age(0, 500), format_age(0, 60_000)),
            ("now".to_owned(), "60 s ago".to_owned())
        );
        assert_eq!(format_age(600_000, 0), "in 10 min");
        assert_eq!(format_age(0, 864_000_000), "10 d ago");
    }
}
