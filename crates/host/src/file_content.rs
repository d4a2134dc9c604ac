//! Classifies a file by its first bytes: text in an encoding, or one of the formats that are not text. No other module
//! decides that.

use super::encoding::FileEncoding;

/// The bytes at the start of a file by which text is told from other data.
pub const SNIFFED_BYTES: usize = 8 << 10;

const UTF32_LE: &[u8] = b"\xFF\xFE\0\0";
const UTF32_BE: &[u8] = b"\0\0\xFE\xFF";

/// A format that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryFormat {
    /// A PNG image.
    Png,
    /// A JPEG image.
    Jpeg,
    /// A GIF image.
    Gif,
    /// A WebP image.
    WebP,
    /// A Windows bitmap.
    Bmp,
    /// A TIFF image.
    Tiff,
    /// A Windows icon.
    Ico,
    /// A PDF document.
    Pdf,
    /// A ZIP archive, or a document or package in that format.
    Zip,
    /// A tar archive.
    Tar,
    /// Data packed with gzip, which may be a tar archive.
    Gzip,
    /// Data packed with bzip2, which may be a tar archive.
    Bzip2,
    /// Data packed with xz, which may be a tar archive.
    Xz,
    /// Data packed with zstd, which may be a tar archive.
    Zstd,
    /// Any other format.
    Other,
}

/// The description of a file that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryContent {
    /// The format.
    pub format: BinaryFormat,
    /// The name of the format with its article: `a PNG image`.
    pub kind: &'static str,
    /// Advice on tools for the file, as a sentence.
    pub hint: &'static str,
}

const IMAGE: &str = "Read shows PNG, JPEG, GIF and WebP images, and BMP, TIFF and icons as PNG; convert it with Bash.";
const ARCHIVE: &str = "Look into it with Bash, for example `bsdtar tf` or `7z l`.";
const UNZIP: &str = "List it with Bash, for example `unzip -l`.";
const UNTAR: &str = "List it with Bash, for example `tar tf`.";
const PROGRAM: &str = "Look into it with Bash, for example `file`, `strings` or `nm`.";
const MEDIA: &str = "Read has no text of it; `file` in Bash says more.";
const SQLITE: &str = "Query it with SqliteQuery.";
const PDF: &str = "Extract its text with Bash, for example `pdftotext`.";
const PLAIN: &str = "Look into it with Bash, for example `file` or `xxd`.";

const UTF32: &str = "Convert it with Bash, for example `iconv -f UTF-32 -t UTF-8`.";

const MAGIC: &[(&[u8], BinaryFormat, &str, &str)] = &[
    (
        b"SQLite format 3\0",
        BinaryFormat::Other,
        "an SQLite database",
        SQLITE,
    ),
    (
        b"\x89PNG\r\n\x1a\n",
        BinaryFormat::Png,
        "a PNG image",
        IMAGE,
    ),
    (b"\xFF\xD8\xFF", BinaryFormat::Jpeg, "a JPEG image", IMAGE),
    (b"GIF87a", BinaryFormat::Gif, "a GIF image", IMAGE),
    (b"GIF89a", BinaryFormat::Gif, "a GIF image", IMAGE),
    (UTF32_LE, BinaryFormat::Other, "UTF-32 data", UTF32),
    (UTF32_BE, BinaryFormat::Other, "UTF-32 data", UTF32),
    (b"II*\0", BinaryFormat::Tiff, "a TIFF image", IMAGE),
    (b"MM\0*", BinaryFormat::Tiff, "a TIFF image", IMAGE),
    (b"\0\0\x01\0", BinaryFormat::Ico, "an icon", IMAGE),
    (b"%PDF-", BinaryFormat::Pdf, "a PDF document", PDF),
    (
        b"PK\x03\x04",
        BinaryFormat::Zip,
        "a ZIP archive (or a document or package in that format)",
        UNZIP,
    ),
    (
        b"PK\x05\x06",
        BinaryFormat::Zip,
        "an empty ZIP archive",
        UNZIP,
    ),
    (b"\x1f\x8b", BinaryFormat::Gzip, "gzip data", UNTAR),
    (b"BZh", BinaryFormat::Bzip2, "bzip2 data", UNTAR),
    (b"\xFD7zXZ\0", BinaryFormat::Xz, "xz data", UNTAR),
    (b"\x28\xB5\x2F\xFD", BinaryFormat::Zstd, "zstd data", UNTAR),
    // `pzstd` begins with a frame that holds the size of the next one.
    (
        b"\x50\x2A\x4D\x18\x04\0\0\0",
        BinaryFormat::Zstd,
        "zstd data",
        UNTAR,
    ),
    (
        b"7z\xBC\xAF\x27\x1C",
        BinaryFormat::Other,
        "a 7z archive",
        ARCHIVE,
    ),
    (
        b"Rar!\x1a\x07",
        BinaryFormat::Other,
        "a RAR archive",
        ARCHIVE,
    ),
    (
        b"\x7fELF",
        BinaryFormat::Other,
        "an ELF program or library",
        PROGRAM,
    ),
    (
        b"\xCF\xFA\xED\xFE",
        BinaryFormat::Other,
        "a Mach-O program or library",
        PROGRAM,
    ),
    (
        b"\xCA\xFE\xBA\xBE",
        BinaryFormat::Other,
        "a Java class or a universal Mach-O program",
        PROGRAM,
    ),
    (
        b"\0asm",
        BinaryFormat::Other,
        "a WebAssembly module",
        PROGRAM,
    ),
    (
        b"MZ\x90",
        BinaryFormat::Other,
        "a Windows program or library",
        PROGRAM,
    ),
    (
        b"!<arch>\n",
        BinaryFormat::Other,
        "a static library",
        PROGRAM,
    ),
    (b"ID3", BinaryFormat::Other, "an MP3 recording", MEDIA),
    (b"OggS", BinaryFormat::Other, "an Ogg recording", MEDIA),
    (b"fLaC", BinaryFormat::Other, "a FLAC recording", MEDIA),
    (
        b"\x1A\x45\xDF\xA3",
        BinaryFormat::Other,
        "a Matroska or WebM video",
        MEDIA,
    ),
    (b"wOFF", BinaryFormat::Other, "a WOFF font", MEDIA),
    (b"wOF2", BinaryFormat::Other, "a WOFF2 font", MEDIA),
];

/// Returns the encoding of a text file. `bytes` are its first [`SNIFFED_BYTES`] bytes or more; `whole` means that they
/// are the whole file.
///
/// # Errors
/// The description of a file that is not text.
pub fn classify_content(bytes: &[u8], whole: bool) -> Result<FileEncoding, BinaryContent> {
    let head = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    if let Some(marked) = FileEncoding::from_bom(head) {
        return Ok(marked);
    }
    if let Some(binary) = detect_by_magic(head) {
        return Err(binary);
    }
    let plain = |kind| {
        Err(BinaryContent {
            format: BinaryFormat::Other,
            kind,
            hint: PLAIN,
        })
    };
    if head.contains(&0) {
        return FileEncoding::detect_unmarked_utf16(head)
            .map_or_else(|| plain("binary data (it holds NUL bytes)"), Ok);
    }
    if has_control_bytes(head) {
        return plain("binary data (over 30 % control characters)");
    }
    Ok(FileEncoding::detect(bytes, whole))
}

/// Returns whether the head begins with a byte order mark of UTF-32, which is not decoded. The little-endian mark
/// begins like that of UTF-16.
pub fn is_utf32(head: &[u8]) -> bool {
    head.starts_with(UTF32_LE) || head.starts_with(UTF32_BE)
}

fn detect_by_magic(head: &[u8]) -> Option<BinaryContent> {
    let known = |format, kind, hint| Some(BinaryContent { format, kind, hint });
    if let Some((_, format, kind, hint)) = MAGIC.iter().find(|(magic, ..)| head.starts_with(magic))
    {
        // A few magic numbers are also the beginning of plain words.
        let also_a_word = magic_is_printable(kind)
            && std::str::from_utf8(head).is_ok()
            && !has_control_bytes(head);
        if !also_a_word || head.contains(&0) {
            return known(*format, kind, hint);
        }
    }
    match (head.get(..4), head.get(4..8), head.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => {
            return known(BinaryFormat::WebP, "a WebP image", IMAGE);
        }
        (Some(b"RIFF"), _, Some(b"WAVE")) => {
            return known(BinaryFormat::Other, "a WAV recording", MEDIA);
        }
        (_, Some(b"ftyp"), Some(b"avif" | b"heic" | b"heix" | b"mif1")) => {
            return known(BinaryFormat::Other, "a HEIC or AVIF image", IMAGE);
        }
        (_, Some(b"ftyp"), _) => {
            return known(BinaryFormat::Other, "an MP4 or QuickTime film", MEDIA);
        }
        _ => {}
    }
    if is_bitmap(head) {
        return known(BinaryFormat::Bmp, "a BMP image", IMAGE);
    }
    if head.get(257..262) == Some(b"ustar") {
        return known(BinaryFormat::Tar, "a tar archive", UNTAR);
    }
    // Readers accept a PDF document behind up to 1,024 other bytes. In a text it would be a quote.
    let is_pdf = memchr::memmem::find(&head[..head.len().min(1_024)], b"%PDF-").is_some();
    if is_pdf && (head.contains(&0) || has_control_bytes(head)) {
        return known(BinaryFormat::Pdf, "a PDF document", PDF);
    }
    None
}

/// `BM` may begin a word, but not with four reserved zeros and the size of a known header behind it.
fn is_bitmap(head: &[u8]) -> bool {
    head.starts_with(b"BM")
        && head.get(6..10) == Some(&[0; 4])
        && matches!(
            head.get(14..18),
            Some([12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0])
        )
}

/// Returns whether the magic number of this kind is letters that a text may begin with.
fn magic_is_printable(kind: &str) -> bool {
    matches!(
        kind,
        "bzip2 data" | "an MP3 recording" | "an Ogg recording" | "a WOFF font" | "a WOFF2 font"
    )
}

fn has_control_bytes(head: &[u8]) -> bool {
    let odd = head.iter().filter(|byte| is_control_byte(**byte)).count();
    odd * 10 > head.len() * 3
}

/// Returns whether a byte is a control character that plain text does not have. Escape does not count, because logs are
/// full of it.
fn is_control_byte(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)) || byte == 0x7F
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_are_told_apart() {
        assert_eq!(classify_content(b"", true), Ok(FileEncoding::Utf8));
        assert_eq!(
            classify_content("grüße\n".as_bytes(), true),
            Ok(FileEncoding::Utf8)
        );
        assert_eq!(
            classify_content(b"\xEF\xBB\xBFx", true),
            Ok(FileEncoding::Utf8Bom)
        );
        assert_eq!(
            classify_content(b"\xFF\xFEx\0", true),
            Ok(FileEncoding::Utf16Le)
        );
        assert_eq!(
            classify_content(b"ID3 tags are described here\n", true),
            Ok(FileEncoding::Utf8)
        );
        assert_eq!(
            classify_content(b"BMW is no bitmap, and this is text\n", true),
            Ok(FileEncoding::Utf8)
        );
        assert_eq!(
            classify_content(b"caf\xe9 au lait\n", true)
                .unwrap()
                .as_str(),
            "windows-1252"
        );
        assert_eq!(
            classify_content(b"SQLite format 3\0....", true)
                .unwrap_err()
                .hint,
            SQLITE
        );
        assert_eq!(
            classify_content(b"\x89PNG\r\n\x1a\n", true)
                .unwrap_err()
                .format,
            BinaryFormat::Png
        );
        assert!(classify_content(b"a\0b", true).is_err());
        assert!(classify_content(b"\x01\x02\x03ab", true).is_err());
    }

    #[test]
    fn utf_16_without_a_mark_is_told_where_its_nuls_alternate() {
        let le: Vec<u8> = "wide text\r\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let be: Vec<u8> = "größer\n"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        assert_eq!(
            classify_content(&le, true),
            Ok(FileEncoding::Utf16LeUnmarked)
        );
        assert_eq!(
            classify_content(&be, true),
            Ok(FileEncoding::Utf16BeUnmarked)
        );
        let numbers: Vec<u8> = (0_u16..64).flat_map(u16::to_le_bytes).collect();
        assert!(
            classify_content(&numbers, true).is_err(),
            "small numbers are no letters"
        );
    }
}
