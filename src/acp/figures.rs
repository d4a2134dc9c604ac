//! Sizes and counts as a person reads them. Not here: anything that measures.

use std::fmt;

/// A count with its thousands apart: `8,412`.
#[derive(Debug, Clone, Copy)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A number of bytes: `312 bytes`, `38.2 KB`, `5.0 GB`.
#[derive(Debug, Clone, Copy)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1_024 {
            return write!(f, "{} byte{}", self.0, plural(self.0));
        }
        #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
        let mut value = self.0 as f64 / 1_024.0;
        for unit in ["KB", "MB", "GB"] {
            if value < 1_024.0 {
                return write!(f, "{value:.1} {unit}");
            }
            value /= 1_024.0;
        }
        write!(f, "{value:.1} TB")
    }
}

/// The ending of a noun that is counted.
pub fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_grouped() {
        assert_eq!(Count(0).to_string(), "0");
        assert_eq!(Count(999).to_string(), "999");
        assert_eq!(Count(8_412).to_string(), "8,412");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(ByteSize(1).to_string(), "1 byte");
        assert_eq!(ByteSize(1_536).to_string(), "1.5 KB");
        assert_eq!(ByteSize(5 << 30).to_string(), "5.0 GB");
        assert_eq!(ByteSize(1 << 40).to_string(), "1.0 TB");
    }
}
