//! The names and sizes in a tar archive, from its headers. What the files hold is passed over. Not here: showing it.

use std::io::{self, Read};

use super::archive::{ArchiveEntry, ArchiveListing};

/// A name, or a record of names, longer than this is no honest one.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// Reads header after header from a stream; no more than `most` names are kept, all are counted. `pass` goes past so
/// many bytes.
pub(super) fn list_tar<R: Read>(
    from: &mut R,
    mut pass: impl FnMut(&mut R, u64) -> io::Result<()>,
    most: usize,
    go_on: &dyn Fn() -> bool,
) -> io::Result<ArchiveListing> {
    let mut listing = ArchiveListing::default();
    let (mut long_name, mut long_size) = (None, None);
    let mut header = [0; 512];
    loop {
        if !go_on() {
            listing.stopped = true;
            return Ok(listing);
        }
        match from.read_exact(&mut header) {
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof && listing.total > 0 => {
                return Ok(listing);
            }
            read => read?,
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(listing);
        }
        if !is_tar_header(&header) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "one of its headers is damaged",
            ));
        }
        let size = parse_tar_number(&header[124..136]);
        let padded = size.div_ceil(512) * 512;
        match header[156] {
            kind @ (b'L' | b'x') if size <= MAX_NAME_BYTES => {
                let mut record = vec![0; usize::try_from(padded).unwrap_or_default()];
                from.read_exact(&mut record)?;
                record.truncate(usize::try_from(size).unwrap_or_default());
                if kind == b'L' {
                    long_name = Some(bytes_until_nul(&record).to_vec());
                } else {
                    for (key, value) in parse_pax_records(&record) {
                        match key {
                            b"path" => long_name = Some(value.to_vec()),
                            b"size" => {
                                long_size = std::str::from_utf8(value)
                                    .ok()
                                    .and_then(|text| text.parse().ok());
                            }
                            _ => {}
                        }
                    }
                }
            }
            b'L' | b'x' | b'g' | b'K' => pass(from, padded)?,
            kind => {
                let name = long_name
                    .take()
                    .unwrap_or_else(|| header_entry_name(&header));
                let size = long_size.take().unwrap_or(size);
                let has_content = matches!(kind, 0 | b'0' | b'7');
                let note = match kind {
                    b'1' | b'2' => {
                        format!(
                            " -> {}",
                            super::rendered_page::escape_entry_name(bytes_until_nul(
                                &header[157..257]
                            ))
                        )
                    }
                    b'3' | b'4' | b'6' => ", not a regular file".to_owned(),
                    _ => String::new(),
                };
                let folder = kind == b'5' || name.ends_with(b"/");
                listing.add_entry(
                    most,
                    || ArchiveEntry {
                        name,
                        folder,
                        size,
                        suffix: note,
                    },
                    if has_content { size } else { 0 },
                );
                pass(from, size.div_ceil(512) * 512)?;
            }
        }
    }
}

/// Whether the header's sum is that of its bytes: the mark of a tar archive where there is no other.
pub(super) fn is_tar_header(header: &[u8; 512]) -> bool {
    let field = 148..156;
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            if field.contains(&at) {
                32
            } else {
                u64::from(*byte)
            }
        })
        .sum();
    sum == parse_tar_number(&header[field])
}

/// Octal digits, or eight-bit ones behind a set first bit.
fn parse_tar_number(field: &[u8]) -> u64 {
    if field.first().is_some_and(|byte| byte & 0x80 != 0) {
        return field[1..]
            .iter()
            .fold(0_u64, |sum, byte| sum.wrapping_shl(8) | u64::from(*byte));
    }
    field
        .iter()
        .skip_while(|byte| **byte == b' ')
        .take_while(|byte| matches!(byte, b'0'..=b'7'))
        .fold(0_u64, |sum, byte| {
            sum.wrapping_mul(8) + u64::from(byte - b'0')
        })
}

fn bytes_until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn header_entry_name(header: &[u8; 512]) -> Vec<u8> {
    let name = bytes_until_nul(&header[..100]);
    let prefix = bytes_until_nul(&header[345..500]);
    if &header[257..262] != b"ustar" || prefix.is_empty() || &header[257..265] == b"ustar  \0" {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

/// `length key=value` and a line feed, one after the other.
fn parse_pax_records(mut record: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    while let Some(space) = record.iter().position(|byte| *byte == b' ') {
        let length = std::str::from_utf8(&record[..space])
            .ok()
            .and_then(|text| text.parse::<usize>().ok());
        let Some(line) = length.and_then(|length| record.get(space + 1..length)) else {
            break;
        };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
            found.push((&line[..equals], &line[equals + 1..]));
        }
        record = &record[length.unwrap_or(record.len())..];
    }
    found
}
