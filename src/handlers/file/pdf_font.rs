//! What the bytes of a string in a PDF document are as text, and how wide: by the font's own table, else by the
//! encoding it names. Not here: where on the page they stand.

use std::collections::HashMap;

use hayro_syntax::object::{Array, Dict, Name, Number, Object, Stream};

/// A table for letters bigger than this is no honest one.
const MAX_TABLE_ENTRIES: usize = 200_000;

/// One font of a page.
#[derive(Debug, Default)]
pub(super) struct PdfFont {
    unicode: HashMap<u32, String>,
    /// Bytes a code has.
    wide: bool,
    /// What codes are without a table; none where only the font's own data would say.
    plain: Option<[char; 256]>,
    widths: HashMap<u32, f64>,
    usual_width: f64,
}

/// A string as text.
#[derive(Debug, Default)]
pub(super) struct DecodedString {
    pub text: String,
    /// In thousandths of the font's size.
    pub width: f64,
    pub unreadable: u64,
}

impl PdfFont {
    /// From its dictionary in the page's resources.
    pub(super) fn from_font_dict(dict: &Dict<'_>) -> Self {
        let is =
            |name: Option<Name<'_>>, what: &str| name.is_some_and(|name| name.as_str() == what);
        let mut font = Self {
            usual_width: 500.0,
            ..Self::default()
        };
        font.wide = is(dict.get::<Name<'_>>("Subtype"), "Type0");
        if let Some(table) = dict
            .get::<Stream<'_>>("ToUnicode")
            .and_then(|stream| stream.decoded_data().ok().map(Vec::from))
        {
            font.read_unicode_table(&table);
        }
        if font.wide {
            if let Some(below) = dict
                .get::<Array<'_>>("DescendantFonts")
                .and_then(|all| all.iter::<Dict<'_>>().next())
            {
                font.usual_width = below
                    .get::<Number>("DW")
                    .map_or(1_000.0, |width| width.as_f64());
                if let Some(widths) = below.get::<Array<'_>>("W") {
                    font.read_wide_widths(&widths);
                }
            }
        } else {
            font.plain = Some(simple_font_encoding(dict));
            let first = dict
                .get::<Number>("FirstChar")
                .map_or(0, |first| u32::try_from(first.as_i64()).unwrap_or(0));
            if let Some(widths) = dict.get::<Array<'_>>("Widths") {
                font.widths = (first..)
                    .zip(widths.iter::<Number>().map(|width| width.as_f64()))
                    .take(256)
                    .collect();
            }
        }
        font
    }

    /// A string of this font.
    pub(super) fn decode_string(&self, bytes: &[u8]) -> DecodedString {
        let mut decoded = DecodedString::default();
        let mut push = |code: u32| {
            decoded.width += self.widths.get(&code).copied().unwrap_or(self.usual_width);
            if let Some(text) = self.unicode.get(&code) {
                decoded.text.push_str(text);
                return;
            }
            let plain = self
                .plain
                .as_ref()
                .and_then(|plain| plain.get(code as usize));
            decoded.unreadable += u64::from(plain.is_none());
            decoded
                .text
                .push(plain.copied().unwrap_or(char::REPLACEMENT_CHARACTER));
        };
        if self.wide {
            let (pairs, _) = bytes.as_chunks::<2>();
            for pair in pairs {
                push(u32::from(u16::from_be_bytes(*pair)));
            }
        } else {
            for byte in bytes {
                push(u32::from(*byte));
            }
        }
        decoded
    }

    /// The table `ToUnicode`: `<code> <text>` and `<first> <last> <text>`.
    fn read_unicode_table(&mut self, table: &[u8]) {
        let tokens = tokenize_cmap(table);
        let mut at = 0;
        while at < tokens.len() && self.unicode.len() < MAX_TABLE_ENTRIES {
            let CMapToken::Word(word) = &tokens[at] else {
                at += 1;
                continue;
            };
            at += 1;
            let is_range = match *word {
                b"beginbfchar" => false,
                b"beginbfrange" => true,
                _ => continue,
            };
            while self.unicode.len() < MAX_TABLE_ENTRIES {
                let Some(CMapToken::Hex(first)) = tokens.get(at) else {
                    break;
                };
                if !is_range {
                    let Some(CMapToken::Hex(text)) = tokens.get(at + 1) else {
                        break;
                    };
                    self.unicode.insert(char_code(first), decode_utf16(text));
                    at += 2;
                    continue;
                }
                let Some(CMapToken::Hex(last)) = tokens.get(at + 1) else {
                    break;
                };
                let (first, last) = (
                    char_code(first),
                    char_code(last).min(char_code(first).saturating_add(0xFFFF)),
                );
                match tokens.get(at + 2) {
                    Some(CMapToken::Hex(text)) => {
                        for (n, code) in (first..=last).enumerate().take(MAX_TABLE_ENTRIES) {
                            self.unicode.insert(code, offset_last_char(text, n));
                        }
                        at += 3;
                    }
                    Some(CMapToken::Open) => {
                        at += 3;
                        let mut code = first;
                        while let Some(CMapToken::Hex(text)) = tokens.get(at) {
                            self.unicode.insert(code, decode_utf16(text));
                            (code, at) = (code.wrapping_add(1), at + 1);
                        }
                        at += 1;
                    }
                    _ => break,
                }
            }
        }
    }

    /// `first [w1 w2 ...]` and `first last w`.
    fn read_wide_widths(&mut self, widths: &Array<'_>) {
        let mut pending: Vec<i64> = Vec::new();
        for item in widths.iter::<Object<'_>>() {
            match item {
                Object::Number(number) if pending.len() == 2 => {
                    let (first, last) = (pending[0], pending[1].min(pending[0] + 0xFFFF));
                    for code in (first..=last).filter_map(|code| u32::try_from(code).ok()) {
                        self.widths.insert(code, number.as_f64());
                    }
                    pending.clear();
                }
                Object::Number(number) => pending.push(number.as_i64()),
                Object::Array(list) => {
                    let first = pending.first().copied().unwrap_or_default();
                    for (code, width) in (first..).zip(list.iter::<Number>()) {
                        if let Ok(code) = u32::try_from(code) {
                            self.widths.insert(code, width.as_f64());
                        }
                    }
                    pending.clear();
                }
                _ => pending.clear(),
            }
            if self.widths.len() > MAX_TABLE_ENTRIES {
                return;
            }
        }
    }
}

/// What the codes of a font with one byte a letter mean.
fn simple_font_encoding(font: &Dict<'_>) -> [char; 256] {
    let named = font.get::<Name<'_>>("Encoding");
    let detailed = font.get::<Dict<'_>>("Encoding");
    let base = named.or_else(|| {
        detailed
            .as_ref()
            .and_then(|dict| dict.get::<Name<'_>>("BaseEncoding"))
    });
    let codec = match base.as_ref().map(Name::as_str) {
        Some("MacRomanEncoding") => encoding_rs::MACINTOSH,
        _ => encoding_rs::WINDOWS_1252,
    };
    let mut plain = ['\u{FFFD}'; 256];
    for (byte, letter) in (0..=u8::MAX).zip(&mut plain) {
        *letter = codec
            .decode_without_bom_handling(&[byte])
            .0
            .chars()
            .next()
            .unwrap_or('\u{FFFD}');
    }
    let mut code = 0;
    for item in detailed
        .iter()
        .filter_map(|dict| dict.get::<Array<'_>>("Differences"))
        .flat_map(|all| all.iter::<Object<'_>>())
    {
        match item {
            Object::Number(number) => code = usize::try_from(number.as_i64()).unwrap_or(256),
            Object::Name(name) => {
                if let (Some(place), Some(letter)) =
                    (plain.get_mut(code), glyph_char(name.as_str()))
                {
                    *place = letter;
                }
                code += 1;
            }
            _ => {}
        }
    }
    plain
}

/// The letter of a glyph's name, as fonts call them.
fn glyph_char(name: &str) -> Option<char> {
    // In the order of the code points from U+0020 on.
    const ASCII: &str = "space exclam quotedbl numbersign dollar percent ampersand quotesingle parenleft parenright \
        asterisk plus comma hyphen period slash zero one two three four five six seven eight nine colon semicolon less \
        equal greater question at";
    const BRACKETS: &str = "bracketleft backslash bracketright asciicircum underscore grave";
    const BRACES: &str = "braceleft bar braceright asciitilde";
    const LATIN: &str = "exclamdown cent sterling currency yen brokenbar section dieresis copyright ordfeminine \
        guillemotleft logicalnot sfthyphen registered macron degree plusminus twosuperior threesuperior acute mu paragraph \
        periodcentered cedilla onesuperior ordmasculine guillemotright onequarter onehalf threequarters questiondown \
        Agrave Aacute Acircumflex Atilde Adieresis Aring AE Ccedilla Egrave Eacute Ecircumflex Edieresis Igrave Iacute \
        Icircumflex Idieresis Eth Ntilde Ograve Oacute Ocircumflex Otilde Odieresis multiply Oslash Ugrave Uacute \
        Ucircumflex Udieresis Yacute Thorn germandbls agrave aacute acircumflex atilde adieresis aring ae ccedilla egrave \
        eacute ecircumflex edieresis igrave iacute icircumflex idieresis eth ntilde ograve oacute ocircumflex otilde \
        odieresis divide oslash ugrave uacute ucircumflex udieresis yacute thorn ydieresis";
    const OTHERS: &[(&str, char)] = &[
        ("quoteright", '\u{2019}'),
        ("quoteleft", '\u{2018}'),
        ("quotedblleft", '\u{201C}'),
        ("quotedblright", '\u{201D}'),
        ("quotesinglbase", '\u{201A}'),
        ("quotedblbase", '\u{201E}'),
        ("endash", '\u{2013}'),
        ("emdash", '\u{2014}'),
        ("bullet", '\u{2022}'),
        ("ellipsis", '\u{2026}'),
        ("fi", '\u{FB01}'),
        ("fl", '\u{FB02}'),
        ("ff", '\u{FB00}'),
        ("ffi", '\u{FB03}'),
        ("ffl", '\u{FB04}'),
        ("Euro", '\u{20AC}'),
        ("minus", '\u{2212}'),
        ("dagger", '\u{2020}'),
        ("trademark", '\u{2122}'),
        ("OE", '\u{152}'),
        ("oe", '\u{153}'),
        ("Scaron", '\u{160}'),
        ("scaron", '\u{161}'),
        ("Zcaron", '\u{17D}'),
        ("zcaron", '\u{17E}'),
        ("dotlessi", '\u{131}'),
        ("Lslash", '\u{141}'),
        ("lslash", '\u{142}'),
        ("nbspace", ' '),
    ];
    let name = name.split('.').next().unwrap_or(name);
    let mut letters = name.chars();
    if let (Some(only), None) = (letters.next(), letters.next()) {
        return Some(only);
    }
    let hex = name
        .strip_prefix("uni")
        .or_else(|| name.strip_prefix('u'))
        .filter(|hex| hex.len() >= 4);
    if let Some(letter) = hex
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())
        .and_then(char::from_u32)
    {
        return Some(letter);
    }
    [
        (ASCII, 0x20),
        (BRACKETS, 0x5B),
        (BRACES, 0x7B),
        (LATIN, 0xA1),
    ]
    .into_iter()
    .find_map(|(names, first)| {
        let at = names.split_whitespace().position(|known| known == name)?;
        char::from_u32(first + u32::try_from(at).ok()?)
    })
    .or_else(|| {
        OTHERS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, letter)| *letter)
    })
}

enum CMapToken<'a> {
    Hex(Vec<u8>),
    Open,
    Word(&'a [u8]),
}

fn tokenize_cmap(table: &[u8]) -> Vec<CMapToken<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < table.len() && found.len() < 4 * MAX_TABLE_ENTRIES {
        let rest = &table[at..];
        match rest[0] {
            b'<' if rest.get(1) != Some(&b'<') => {
                let end = memchr::memchr(b'>', rest).unwrap_or(rest.len() - 1);
                let digits: Vec<u8> = rest[1..end.max(1)]
                    .iter()
                    .filter_map(|byte| char::from(*byte).to_digit(16))
                    .filter_map(|digit| u8::try_from(digit).ok())
                    .collect();
                found.push(CMapToken::Hex(
                    digits
                        .chunks(2)
                        .map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0))
                        .collect(),
                ));
                at += end + 1;
            }
            b'[' => {
                found.push(CMapToken::Open);
                at += 1;
            }
            byte if byte.is_ascii_alphanumeric() => {
                let len = rest
                    .iter()
                    .position(|byte| !byte.is_ascii_alphanumeric())
                    .unwrap_or(rest.len());
                found.push(CMapToken::Word(&rest[..len]));
                at += len;
            }
            _ => at += 1,
        }
    }
    found
}

fn char_code(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |sum: u32, byte| sum.wrapping_shl(8) | u32::from(*byte))
}

fn decode_utf16(bytes: &[u8]) -> String {
    if let [byte] = bytes {
        return char::from(*byte).to_string();
    }
    let units: Vec<u16> = bytes
        .chunks(2)
        .map(|pair| u16::from(pair[0]) << 8 | u16::from(pair.get(1).copied().unwrap_or(0)))
        .collect();
    String::from_utf16_lossy(&units)
}

/// The text whose last letter is `n` further on.
fn offset_last_char(bytes: &[u8], n: usize) -> String {
    let mut text = decode_utf16(bytes);
    if n == 0 {
        return text;
    }
    let last = text.pop().map_or(0, u32::from);
    let further = u32::try_from(n)
        .ok()
        .and_then(|n| last.checked_add(n))
        .and_then(char::from_u32);
    text.push(further.unwrap_or(char::REPLACEMENT_CHARACTER));
    text
}
