//! Periods as an owner types them: `--since 2h`, `--since yesterday --until 18:00`, `--since 2026-03-01`.

use clap::Args;
use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

/// The period of which a command lists something.
#[derive(Debug, Default, Args)]
pub struct PeriodArgs {
    /// Only from then on: 2h, yesterday, 18:00, 2026-03-01, or "2026-03-01 18:00"
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<TypedTime>,
    /// Only until then; a day counts to its end
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<TypedTime>,
    /// Only of the last MINUTES
    #[arg(long, value_name = "MINUTES", hide = true)]
    within: Option<u32>,
}

impl PeriodArgs {
    /// Returns the first millisecond since 1970 of the period, if it has one.
    pub fn begin_ms(&self, now_ms: i64) -> Option<i64> {
        let within = self
            .within
            .map(|minutes| now_ms - i64::from(minutes) * 60_000);
        within.max(self.since.map(|time| time.begin_ms))
    }

    /// Returns the first millisecond since 1970 after the period, if it has an end.
    pub fn end_ms(&self) -> Option<i64> {
        self.until.map(|time| time.end_ms)
    }
}

/// What a typed time means: a day, a minute, or a millisecond. The end is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TypedTime {
    begin_ms: i64,
    end_ms: i64,
}

fn parse_time(text: &str) -> Result<TypedTime, String> {
    parse_time_at(text.trim(), &Zoned::now()).ok_or_else(|| {
        "is no time: give one such as 2h, 30min, 3d, yesterday, 18:00, 2026-03-01, or \"2026-03-01 18:00\"".to_owned()
    })
}

/// Parses a time by the clock and the time zone of `now`.
fn parse_time_at(text: &str, now: &Zoned) -> Option<TypedTime> {
    let between = |begin: &Zoned, end: &Zoned| TypedTime {
        begin_ms: begin.timestamp().as_millisecond(),
        end_ms: end.timestamp().as_millisecond(),
    };
    let day = |date: Date| {
        let begin = date.to_zoned(now.time_zone().clone()).ok()?;
        let end = date
            .tomorrow()
            .ok()?
            .to_zoned(now.time_zone().clone())
            .ok()?;
        Some(between(&begin, &end))
    };
    let minute = |time: DateTime| {
        let begin = time.to_zoned(now.time_zone().clone()).ok()?;
        let end = begin.checked_add(1.minute()).ok()?;
        Some(between(&begin, &end))
    };
    match text {
        "now" => return Some(between(now, now)),
        "today" => return day(now.date()),
        "yesterday" => return day(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Ok(ms) = text.parse::<i64>() {
        let at = Timestamp::from_millisecond(ms).ok()?.as_millisecond();
        return Some(TypedTime {
            begin_ms: at,
            end_ms: at + 1,
        });
    }
    if let Ok(date) = text.parse::<Date>()
        && !text.contains(':')
    {
        return day(date);
    }
    if let Ok(time) = text.parse::<DateTime>() {
        return minute(time);
    }
    if let Ok(time) = text.parse::<Time>() {
        // Later than now, it was yesterday's.
        let date = if time > now.time() {
            now.date().yesterday().ok()?
        } else {
            now.date()
        };
        return minute(date.to_datetime(time));
    }
    let ago = text.parse::<Span>().ok()?;
    let begin = now.checked_sub(ago.abs()).ok()?;
    Some(between(&begin, &begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        let now: Zoned = "2026-03-30T12:00:00+02:00[Europe/Berlin]"
            .parse()
            .expect("a time");
        let shown = |text: &str| {
            parse_time_at(text, &now).map(|time| {
                let show = |ms| {
                    let at = Timestamp::from_millisecond(ms).expect("a time");
                    let local = at.to_zoned(now.time_zone().clone());
                    local.strftime("%m-%d %H:%M:%S").to_string()
                };
                format!("{} to {}", show(time.begin_ms), show(time.end_ms))
            })
        };
        for (text, expected) in [
            ("2h", "03-30 10:00:00 to 03-30 10:00:00"),
            ("90min", "03-30 10:30:00 to 03-30 10:30:00"),
            ("1d", "03-29 12:00:00 to 03-29 12:00:00"),
            // Clocks went forward in this night.
            ("yesterday", "03-29 00:00:00 to 03-30 00:00:00"),
            ("today", "03-30 00:00:00 to 03-31 00:00:00"),
            ("11:30", "03-30 11:30:00 to 03-30 11:31:00"),
            ("18:00", "03-29 18:00:00 to 03-29 18:01:00"),
            ("2026-03-01", "03-01 00:00:00 to 03-02 00:00:00"),
            ("2026-03-01 18:00", "03-01 18:00:00 to 03-01 18:01:00"),
            ("2026-03-01T18:00", "03-01 18:00:00 to 03-01 18:01:00"),
            ("1774864800000", "03-30 12:00:00 to 03-30 12:00:00"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "soon", "25:00", "2026-13-01", "2x", "h"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }
}
