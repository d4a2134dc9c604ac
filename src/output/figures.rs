//! Figures as a model reads them: `1,204` and `88 KB`. Not here: where they are put.

/// Digits in groups of three: `1,204`.
pub fn grouped(n: u64) -> String {
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

/// A number of things: `1 line`, `1,204 lines`.
pub fn counted(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(n)) }
}

/// A number of bytes in the largest unit that leaves a whole number, or one decimal below ten: `88 KB`, `1.2 GB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_204), "1,204");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(0, "line"), "0 lines");
    }

    #[test]
    fn sizes_take_the_largest_unit() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(1_023), "1,023 bytes");
        assert_eq!(size(1_024), "1 KB");
        assert_eq!(size(1_536), "1.5 KB");
        assert_eq!(size(88 << 10), "88 KB");
        assert_eq!(size(256 << 20), "256 MB");
        assert_eq!(size(1_288_490_189), "1.2 GB");
    }
}
