//! Formats numbers as a model reads them: `1,204` and `88 KB`.

/// Formats a number with digits in groups of three: `1,204`.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 line`, `1,204 lines`.
pub fn format_count(n: u64, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{} {one}s", group_digits(n))
    }
}

/// A number of bytes in the largest unit that leaves a whole number, or one decimal below ten: `88 KB`, `1.2 GB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return format_count(bytes, "byte");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{} {}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// The proleptic Gregorian date of a day counted from 1970-01-01: years of 365.2425 days that begin in March, so that
/// the leap day is the last one. Year, month and day.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let from_march_0000 = days + 719_468;
    let era = from_march_0000.div_euclid(146_097);
    let of_era = from_march_0000.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_204), "1,204");
        assert_eq!(group_digits(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(format_count(1, "line"), "1 line");
        assert_eq!(format_count(0, "line"), "0 lines");
    }

    #[test]
    fn sizes_take_the_largest_unit() {
        assert_eq!(format_size(1), "1 byte");
        assert_eq!(format_size(1_023), "1,023 bytes");
        assert_eq!(format_size(1_024), "1 KB");
        assert_eq!(format_size(1_536), "1.5 KB");
        assert_eq!(format_size(88 << 10), "88 KB");
        assert_eq!(format_size(256 << 20), "256 MB");
        assert_eq!(format_size(1_288_490_189), "1.2 GB");
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(-1), (1969, 12, 31));
        assert_eq!(civil_from_days(11_016), (2000, 2, 29));
        assert_eq!(civil_from_days(20_089), (2025, 1, 1));
    }
}
