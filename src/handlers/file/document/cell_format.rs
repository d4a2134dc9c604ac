//! Dates, times and percentages of an Excel workbook: the number formats of its styles, and values written by them.
//! ECMA-376 part 1, 18.8.30 lists the built-in formats.

use super::office_parts::{OfficeArchive, XmlStep, attribute_value, open_part};

const STYLES_PART: &str = "xl/styles.xml";
const SECONDS_A_DAY: f64 = 86_400.0;
/// Days from Excel's day 0 (30 December 1899, counting a day that never was) and from that of old Mac workbooks to 1970.
const EPOCHS: [f64; 2] = [25_569.0, 24_107.0];

/// How a number is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CellFormat {
    /// As the file has it.
    #[default]
    Plain,
    Date,
    Time,
    DateTime,
    /// Hours beyond a day are counted on.
    Elapsed,
    /// With so many decimals.
    Percent(usize),
}

/// The formats of a workbook by the number of a cell's style.
#[derive(Debug, Default)]
pub(super) struct CellFormats {
    of_styles: Vec<CellFormat>,
    /// Days are counted from 1904.
    pub(super) has_mac_days: bool,
}

impl CellFormats {
    /// Reads the styles of a workbook; it may have none.
    pub(super) fn read_styles(archive: &mut OfficeArchive) -> Result<Self, String> {
        let mut formats = Self::default();
        if archive.index_for_name(STYLES_PART).is_none() {
            return Ok(formats);
        }
        let mut part = open_part(archive, STYLES_PART)?;
        let mut codes = Vec::new();
        let mut is_cell_style = false;
        loop {
            match part.next_step()? {
                XmlStep::Start(start) => {
                    let number = |name| attribute_value(&start, name)?.parse::<u32>().ok();
                    match start.local_name().as_ref() {
                        "numFmt" => {
                            let code = attribute_value(&start, "formatCode").unwrap_or_default();
                            codes.push((number("numFmtId"), code));
                        }
                        "cellXfs" => is_cell_style = true,
                        "xf" if is_cell_style => {
                            let id = number("numFmtId");
                            let own = codes.iter().find(|(of, _)| *of == id);
                            formats.of_styles.push(match own {
                                Some((_, code)) => CellFormat::from_code(code),
                                None => CellFormat::built_in(id.unwrap_or(0)),
                            });
                        }
                        _ => {}
                    }
                }
                XmlStep::End(name) if name == "cellXfs" => is_cell_style = false,
                XmlStep::AtEnd => return Ok(formats),
                _ => {}
            }
        }
    }

    /// Writes a number as the style with this number shows it; `None` if that is as the file has it.
    pub(super) fn show_number(&self, style: usize, value: &str) -> Option<String> {
        let format = self.of_styles.get(style).copied().unwrap_or_default();
        if format == CellFormat::Plain {
            return None;
        }
        let value: f64 = value.trim().parse().ok()?;
        format.show(value, EPOCHS[usize::from(self.has_mac_days)])
    }
}

impl CellFormat {
    fn built_in(id: u32) -> Self {
        match id {
            9 => Self::Percent(0),
            10 => Self::Percent(2),
            14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Self::Date,
            18..=21 | 32..=35 | 45 | 47 | 55 | 56 => Self::Time,
            22 => Self::DateTime,
            46 => Self::Elapsed,
            _ => Self::Plain,
        }
    }

    /// Reads a format code, such as `yyyy\-mm\-dd`, `0.0%` or `[h]:mm`. Its first section counts.
    fn from_code(code: &str) -> Self {
        let mut letters = String::new();
        let mut bracket = None::<String>;
        let mut is_elapsed = false;
        let mut chars = code.chars();
        while let Some(c) = chars.next() {
            match (c, &mut bracket) {
                (']', Some(inside)) => {
                    is_elapsed |= !inside.is_empty() && inside.chars().all(|c| "hms".contains(c));
                    bracket = None;
                }
                (c, Some(inside)) => inside.push(c.to_ascii_lowercase()),
                ('[', None) => bracket = Some(String::new()),
                (';', None) => break,
                ('"', None) => drop(chars.by_ref().find(|c| *c == '"')),
                // The next character is shown, or takes its width.
                ('\\' | '_' | '*', None) => drop(chars.next()),
                (c, None) => letters.push(c.to_ascii_lowercase()),
            }
        }
        if letters.contains('%') {
            let digits = letters.split_once('.').map_or("", |(_, after)| after);
            return Self::Percent(
                digits
                    .bytes()
                    .take_while(|byte| b"0#?".contains(byte))
                    .count(),
            );
        }
        let letters = letters.replace("general", "").replace("am/pm", "h");
        let is_date = letters.contains(['y', 'd']);
        let is_time = letters.contains(['h', 's']);
        match (is_date, is_time) {
            _ if is_elapsed => Self::Elapsed,
            (true, true) => Self::DateTime,
            (true, false) => Self::Date,
            (false, true) => Self::Time,
            // Alone, `m` is a month.
            (false, false) if letters.contains('m') => Self::Date,
            (false, false) => Self::Plain,
        }
    }

    fn show(self, value: f64, epoch: f64) -> Option<String> {
        if let Self::Percent(decimals) = self {
            return Some(format!("{:.decimals$}%", value * 100.0));
        }
        // Excel counts to the end of the year 9999.
        if !(0.0..2_958_466.0).contains(&value) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seconds of at most 2,958,466 days"
        )]
        let seconds = (value * SECONDS_A_DAY).round() as i64;
        let clock = |seconds: i64| {
            format!(
                "{:02}:{:02}:{:02}",
                seconds / 3_600,
                seconds / 60 % 60,
                seconds % 60
            )
        };
        let day = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400);
        #[expect(clippy::cast_possible_truncation, reason = "a constant")]
        let date = || {
            // Before March 1900 Excel's days are one less.
            let early = i64::from(epoch > 25_000.0 && day < 60);
            civil_date(day + early - epoch as i64)
        };
        Some(match self {
            Self::Elapsed => clock(seconds),
            Self::Time => clock(of_day),
            Self::Date if of_day == 0 => date(),
            _ => format!("{} {}", date(), clock(of_day)),
        })
    }
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar. Eras of 400 years begin in March, so that a leap
/// day ends a year.
fn civil_date(day: i64) -> String {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_it_shows() {
        for (code, format) in [
            ("General", CellFormat::Plain),
            ("0.00", CellFormat::Plain),
            ("#,##0 \"days\"", CellFormat::Plain),
            ("[Red]0", CellFormat::Plain),
            ("yyyy\\-mm\\-dd", CellFormat::Date),
            ("dd/mm/yyyy hh:mm", CellFormat::DateTime),
            ("[$-409]d-mmm-yy;@", CellFormat::Date),
            ("mmm", CellFormat::Date),
            ("h:mm AM/PM", CellFormat::Time),
            ("[h]:mm:ss", CellFormat::Elapsed),
            ("mm:ss.0", CellFormat::Time),
            ("0%", CellFormat::Percent(0)),
            ("0.0#%", CellFormat::Percent(2)),
            ("", CellFormat::Plain),
        ] {
            assert_eq!(CellFormat::from_code(code), format, "{code}");
        }
    }

    #[test]
    fn values_stand_as_in_the_sheet() {
        let [windows, mac] = EPOCHS;
        for (format, value, epoch, shown) in [
            (
                CellFormat::DateTime,
                46_024.127_835_648_15,
                windows,
                "2026-01-02 03:04:05",
            ),
            (CellFormat::Date, 46_024.0, windows, "2026-01-02"),
            (CellFormat::Date, 1.0, windows, "1900-01-01"),
            (CellFormat::Date, 61.0, windows, "1900-03-01"),
            (CellFormat::Date, 44_562.0, mac, "2026-01-02"),
            (CellFormat::Date, 36_585.0, windows, "2000-02-29"),
            (CellFormat::Time, 46_024.5, windows, "12:00:00"),
            (CellFormat::Elapsed, 1.5, windows, "36:00:00"),
            (CellFormat::Percent(0), 0.25, windows, "25%"),
            (CellFormat::Percent(1), 0.125, windows, "12.5%"),
        ] {
            assert_eq!(format.show(value, epoch).as_deref(), Some(shown));
        }
        assert_eq!(CellFormat::Date.show(-1.0, windows), None);
        assert_eq!(CellFormat::Date.show(1e300, windows), None);
    }
}
