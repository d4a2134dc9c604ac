//! What the streams of a PDF document unpack to, by as many filters as it names one behind the other. Its parser would
//! hold all of that, without a limit, so that it is looked at before. Not here: the parser's own work (pdf).
//!
//! Which filters a stream has, its dictionary says, and where that begins only the parser knows for certain. So every
//! stream is unpacked by every row of filters that stands anywhere in the document: there are few.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::{DeflateDecoder, ZlibDecoder};
use memchr::{memchr_iter, memmem};

use super::documents::Clock;
use crate::output::figures;

/// No filter of a stream may give more, nor all streams together eight times as much.
const UNPACKED: usize = 32 << 20;
/// More rows of filters than any program writes; each is tried on every stream.
const ROWS: usize = 12;
/// More filters in a row, and elements of an array, than any program writes.
const LONGEST: usize = 8;
/// Said after what is wrong with a document's filters.
const WHY: &str = "so what it unpacks to cannot be known before it is held in memory";

/// What a filter does (ISO 32000-1, 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Filter {
    Hex,
    Base85,
    Flate,
    Lzw,
    Runs,
    /// An image's or an encryption's: nothing behind it is unpacked for text.
    Last,
}

/// Why a document is not to be unpacked; none where it is small enough.
pub(super) fn too_much(bytes: &[u8], clock: &Clock) -> Option<String> {
    let rows = match rows(bytes) {
        Ok(rows) => rows,
        Err(why) => return Some(why),
    };
    let mut all = 0;
    for at in memmem::find_iter(bytes, b"stream") {
        let data = &bytes[at + b"stream".len()..];
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        let mut most = 0;
        for row in &rows {
            if !clock.runs() {
                return Some("looking through it took too long".to_owned());
            }
            let size = size_of(row, data);
            if size > UNPACKED {
                return Some(format!("what is packed in it is more than {}", figures::size(UNPACKED as u64)));
            }
            most = most.max(size);
        }
        all += most;
        if all > 8 * UNPACKED {
            return Some(format!("what is packed in it is more than {}", figures::size(8 * UNPACKED as u64)));
        }
    }
    None
}

/// The most that one of these filters gives; more than [`UNPACKED`] where it is more.
fn size_of(row: &[Filter], data: &[u8]) -> usize {
    let mut held;
    let mut data = data;
    let mut most = 0;
    for (at, filter) in row.iter().enumerate() {
        let is_last = at + 1 == row.len();
        held = match filter {
            Filter::Last => break,
            Filter::Lzw => return most.max(lzw_size(data)),
            // Nothing is held of what is only counted.
            Filter::Flate if is_last => return most.max(inflated(data, |_| {})),
            Filter::Flate => {
                let mut out = Vec::new();
                inflated(data, |piece| out.extend_from_slice(piece));
                out
            }
            Filter::Hex => unhexed(data),
            Filter::Base85 => un85ed(data),
            Filter::Runs => unrolled(data),
        };
        most = most.max(held.len());
        if most > UNPACKED || held.is_empty() {
            break;
        }
        data = &held;
    }
    most
}

/// Inflates up to the limit and a little more, and says how much that is. Data without zlib's header is inflated too, as
/// the parser does.
fn inflated(data: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    let has_header = matches!(data, [method, flags, ..]
        if method & 0x0f == 8 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0 && flags & 0x20 == 0);
    let mut source: Box<dyn Read + '_> =
        if has_header { Box::new(ZlibDecoder::new(data)) } else { Box::new(DeflateDecoder::new(data)) };
    let mut buffer = [0; 16 << 10];
    let mut size = 0;
    while size <= UNPACKED
        && let Ok(n @ 1..) = source.read(&mut buffer)
    {
        each(&buffer[..n]);
        size += n;
    }
    size
}

fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn unhexed(data: &[u8]) -> Vec<u8> {
    let digits =
        data.iter().filter(|byte| !is_space(**byte)).map_while(|byte| char::from(*byte).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| u8::try_from(digit).unwrap_or_default()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or_default()).collect()
}

fn un85ed(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut group, mut count) = (0_u64, 0);
    for byte in data.iter().filter(|byte| !is_space(**byte)) {
        match byte {
            b'z' if count == 0 => out.extend([0; 4]),
            b'!'..=b'u' => {
                group = group * 85 + u64::from(byte - b'!');
                count += 1;
                if count == 5 {
                    let Ok(whole) = u32::try_from(group) else { return out };
                    out.extend(whole.to_be_bytes());
                    (group, count) = (0, 0);
                }
            }
            _ => break,
        }
        if out.len() > UNPACKED {
            return out;
        }
    }
    if count > 1 {
        let whole = (count..5).fold(group, |group, _| group * 85 + 84);
        out.extend(&u32::try_from(whole).unwrap_or_default().to_be_bytes()[..count - 1]);
    }
    out
}

fn unrolled(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data;
    while let [length, behind @ ..] = rest
        && *length != 128
        && out.len() <= UNPACKED
    {
        let length = usize::from(*length);
        rest = if length < 128 {
            let Some((bytes, behind)) = behind.split_at_checked(length + 1) else { break };
            out.extend_from_slice(bytes);
            behind
        } else {
            let [byte, behind @ ..] = behind else { break };
            out.resize(out.len() + 257 - length, *byte);
            behind
        };
    }
    out
}

/// How much LZW data unpacks to, in whichever of its two ways that is more. Lengths tell it: nothing is unpacked.
fn lzw_size(data: &[u8]) -> usize {
    lzw_size_by(data, 1).max(lzw_size_by(data, 0))
}

fn lzw_size_by(data: &[u8], early: usize) -> usize {
    const CLEAR: usize = 256;
    const END: usize = 257;
    const MOST: usize = 4096;
    let first = || {
        let mut lengths = vec![1_usize; END + 1];
        lengths.reserve(MOST);
        lengths
    };
    let (mut lengths, mut last) = (first(), None);
    let (mut size, mut bits, mut held) = (0, 0_u32, 0_u32);
    for byte in data {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        let width = match lengths.len() + early {
            2048.. => 12,
            1024.. => 11,
            512.. => 10,
            _ => 9,
        };
        if held < width {
            continue;
        }
        held -= width;
        let code = (bits >> held) as usize & ((1 << width) - 1);
        bits &= (1 << held) - 1;
        match (code, last) {
            (CLEAR, _) => (lengths, last) = (first(), None),
            (END, _) => break,
            (known, before) if known < lengths.len() => {
                size += lengths[known];
                if let Some(before) = before.filter(|_| lengths.len() < MOST) {
                    lengths.push(before + 1);
                }
                last = Some(lengths[known]);
            }
            (new, Some(before)) if new == lengths.len() && new < MOST => {
                lengths.push(before + 1);
                size += before + 1;
                last = Some(before + 1);
            }
            _ => break,
        }
        if size > UNPACKED {
            break;
        }
    }
    size
}

/// Every row of filters that the document names, and a single inflation.
fn rows(bytes: &[u8]) -> Result<BTreeSet<Vec<Filter>>, String> {
    let mut rows = BTreeSet::from([vec![Filter::Flate]]);
    for at in memchr_iter(b'/', bytes) {
        let (name, rest) = name(&bytes[at + 1..]);
        let is_filter = name == b"Filter";
        if !is_filter && name != b"F" {
            continue;
        }
        let row = match skip(rest) {
            [b'/', rest @ ..] => filter(&self::name(rest).0).into_iter().collect(),
            [b'[', rest @ ..] => row(rest)?,
            rest => {
                // Of a file's dictionary it is the file.
                if reference(rest).is_some_and(|object| is_filter || !is_dictionary(bytes, object)) {
                    return Err(format!("it names filters by references, {WHY}"));
                }
                continue;
            }
        };
        let until = row.iter().position(|filter| *filter == Filter::Last).unwrap_or(row.len());
        let row = &row[..until];
        // How much LZW gives is counted; what is unpacked of it further is not known.
        if row.iter().rev().skip(1).any(|filter| *filter == Filter::Lzw) {
            return Err(format!("it has filters behind an LZWDecode filter, {WHY}"));
        }
        if !row.is_empty() {
            rows.insert(row.to_vec());
        }
        if rows.len() > ROWS {
            return Err(format!("it names more than {ROWS} rows of filters, {WHY}"));
        }
    }
    Ok(rows)
}

/// The filters of an array.
fn row(bytes: &[u8]) -> Result<Vec<Filter>, String> {
    let mut row = Vec::new();
    let mut rest = skip(bytes);
    for _ in 0..=LONGEST {
        rest = match rest {
            [b'/', behind @ ..] => {
                let (name, behind) = name(behind);
                row.extend(filter(&name));
                skip(behind)
            }
            _ if reference(rest).is_some() => return Err(format!("it names filters by references, {WHY}")),
            // Its end, or no array of filters at all.
            _ => return Ok(row),
        };
    }
    Err(format!("it names more than {LONGEST} filters in a row, {WHY}"))
}

fn filter(name: &[u8]) -> Option<Filter> {
    Some(match name {
        b"ASCIIHexDecode" | b"AHx" => Filter::Hex,
        b"ASCII85Decode" | b"A85" => Filter::Base85,
        b"FlateDecode" | b"Fl" => Filter::Flate,
        b"LZWDecode" | b"LZW" => Filter::Lzw,
        b"RunLengthDecode" | b"RL" => Filter::Runs,
        b"CCITTFaxDecode" | b"CCF" | b"JBIG2Decode" | b"DCTDecode" | b"DCT" | b"JPXDecode" => Filter::Last,
        // An unknown one is passed over by the parser, and so is encryption at the beginning.
        _ => return None,
    })
}

/// A name without its slash, and what is behind it. `#41` stands for a character.
fn name(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    const MOST: usize = 128;
    let end = bytes.iter().take(MOST).position(|byte| is_space(*byte) || b"()<>[]{}/%".contains(byte));
    let (written, rest) = bytes.split_at(end.unwrap_or(bytes.len().min(MOST)));
    let mut name = Vec::with_capacity(written.len());
    let mut left = written;
    while let [first, behind @ ..] = left {
        let digit = |at: usize| behind.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        if let (b'#', Some(high), Some(low)) = (first, digit(0), digit(1)) {
            name.push(u8::try_from(high << 4 | low).unwrap_or_default());
            left = &behind[2..];
        } else {
            name.push(*first);
            left = behind;
        }
    }
    (name, rest)
}

/// What is behind white space and comments.
fn skip(mut bytes: &[u8]) -> &[u8] {
    loop {
        let space = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
        bytes = &bytes[space..];
        if bytes.first() != Some(&b'%') {
            return bytes;
        }
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
        bytes = &bytes[end..];
    }
}

/// The numbers of the object that `12 0 R` stands for.
fn reference(bytes: &[u8]) -> Option<(u32, u32)> {
    let (number, rest) = digits(bytes)?;
    let (generation, rest) = digits(skip(rest))?;
    (skip(rest).first() == Some(&b'R')).then_some((number, generation))
}

fn digits(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((number, &bytes[end..]))
}

/// Whether an object is a dictionary, or a stream, wherever the document defines it.
fn is_dictionary(bytes: &[u8], (number, generation): (u32, u32)) -> bool {
    let head = format!("{number} {generation} obj");
    let own = |at: &usize| *at == 0 || !bytes[at - 1].is_ascii_digit();
    let mut found =
        memmem::find_iter(bytes, &head).filter(own).map(|at| skip(&bytes[at + head.len()..])).peekable();
    found.peek().is_some() && found.all(|object| object.starts_with(b"<<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_as_they_are_written_and_unpacked_by_their_rules() {
        let document =
            b"/Filter/FlateDecode /Filter [ /ASCII85Decode %x\n /Fl#61teDecode] /F /RL /F (name) /F 4 \
                         /Filter /DCTDecode /Filter [/Fl /DCTDecode]";
        let expected = [vec![Filter::Base85, Filter::Flate], vec![Filter::Flate], vec![Filter::Runs]];
        assert_eq!(rows(document).expect("rows").into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(unhexed(b"48 65 6C6c 6F7>"), b"Hellop");
        assert_eq!(un85ed(b"87cURD]i,\"Ebo80~>"), b"Hello World!");
        assert_eq!(un85ed(b"z87cUR~>"), b"\0\0\0\0Hell");
        assert_eq!(un85ed(b"87cURDZ~>"), b"Hello");
        assert_eq!(unrolled(&[4, 10, 11, 12, 13, 14, 253, 3, 128, 7]), [10, 11, 12, 13, 14, 3, 3, 3, 3]);
        // The example of ISO 32000-1, 7.4.4.2.
        assert_eq!(lzw_size(&[0x80, 0x0B, 0x60, 0x50, 0x22, 0x0C, 0x0C, 0x85, 0x01]), 10);
    }

    #[test]
    fn filters_that_cannot_be_followed_are_refused_and_files_are_no_filters() {
        for document in [
            &b"/Filter 5 0 R"[..],
            b"/Filter [/FlateDecode 5 0 R]",
            b"/F 7 0 R 7 0 obj [5 0 R 5 0 R]",
            b"/F 7 0 R",
            b"/Filter [/LZWDecode /FlateDecode]",
            b"/Filter [/Fl/Fl/Fl/Fl/Fl/Fl/Fl/Fl/Fl/Fl]",
        ] {
            let why = rows(document).expect_err("refused");
            assert!(why.contains("cannot be known"), "{why}");
        }
        assert!(rows(b"/EF << /F 12 0 R >> 12 0 obj << /Length 1 >> stream").is_ok());
    }
}
