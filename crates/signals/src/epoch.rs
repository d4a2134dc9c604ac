//! The times in databases of other programs: their units, and the moments from which they count.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The seconds from 1601 to 1970. Chromium and Windows count from 1601.
const SECONDS_BEFORE_1970: i64 = 11_644_473_600;
/// The seconds from 1970 to 2001. Apple's programs count from 2001.
const SECONDS_BEFORE_2001: i64 = 978_307_200;

/// Returns the moment some days ago.
pub(crate) fn days_before(now: SystemTime, days: u64) -> SystemTime {
    now.checked_sub(Duration::from_secs(days * 24 * 3600))
        .unwrap_or(UNIX_EPOCH)
}

fn unix_seconds(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX / 4_000_000)
}

/// Microseconds since 1970, as in Firefox.
pub(crate) fn unix_micros(moment: SystemTime) -> i64 {
    unix_seconds(moment) * 1_000_000
}

/// Microseconds since 1601, as in Chromium.
pub(crate) fn chromium_micros(moment: SystemTime) -> i64 {
    (unix_seconds(moment) + SECONDS_BEFORE_1970) * 1_000_000
}

/// Seconds since 2001, as in Safari, Notes and Calendar. Messages has nanoseconds since 2001.
pub(crate) fn apple_seconds(moment: SystemTime) -> i64 {
    unix_seconds(moment) - SECONDS_BEFORE_2001
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values are those of `date -u -d @1700000000` and of the programs' own converters.
    #[test]
    fn each_epoch_gives_the_known_number_of_one_moment() {
        let moment = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(unix_micros(moment), 1_700_000_000_000_000);
        assert_eq!(chromium_micros(moment), 13_344_473_600_000_000);
        assert_eq!(apple_seconds(moment), 721_692_800);
    }

    #[test]
    fn a_clock_that_was_never_set_gives_a_number_too() {
        assert_eq!(
            days_before(UNIX_EPOCH, 7),
            UNIX_EPOCH - Duration::from_hours(168)
        );
        assert_eq!(unix_micros(days_before(UNIX_EPOCH, 7)), 0);
    }
}
