//! Detects truncated or damaged images by the structure of their formats.

use flate2::Crc;

use punie_host::file_content::BinaryFormat;

/// The damage of an image, as the end of a sentence; `None` if its structure is complete.
pub(super) fn find_image_damage(format: BinaryFormat, bytes: &[u8]) -> Option<String> {
    let parts = ImageParts { bytes, at: 0 };
    let checked = match format {
        BinaryFormat::Png => check_png(parts),
        BinaryFormat::Jpeg => check_jpeg(parts),
        BinaryFormat::Gif => check_gif(parts),
        BinaryFormat::WebP => check_stated_length(bytes, 4, 8),
        _ => Some(Ok(())),
    };
    match checked {
        Some(Ok(())) => None,
        Some(Err(fault)) => Some(fault),
        None => Some(format!(
            "it is cut off: it ends after {} bytes, before its end mark",
            bytes.len()
        )),
    }
}

/// `None` if the image is truncated.
type Checked = Option<Result<(), String>>;

struct ImageParts<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ImageParts<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(part)
    }

    fn take_byte(&mut self) -> Option<u8> {
        self.take_bytes(1).map(|part| part[0])
    }

    /// Skips blocks that each begin with their length, up to an empty one.
    fn skip_blocks(&mut self) -> Option<()> {
        loop {
            match self.take_byte()? {
                0 => return Some(()),
                length => self.take_bytes(usize::from(length))?,
            };
        }
    }
}

fn check_png(mut parts: ImageParts<'_>) -> Checked {
    parts.take_bytes(8)?;
    loop {
        let at = parts.at;
        let length = u32::from_be_bytes(parts.take_bytes(4)?.try_into().ok()?);
        let named = parts.take_bytes(usize::try_from(length).ok()?.checked_add(4)?)?;
        let sum = u32::from_be_bytes(parts.take_bytes(4)?.try_into().ok()?);
        let name = &named[..4];
        let mut crc = Crc::new();
        crc.update(named);
        if crc.sum() != sum {
            let name = name.escape_ascii();
            return Some(Err(format!(
                "it is damaged: its part {name} at byte {at} has a wrong checksum"
            )));
        }
        if name == b"IEND" {
            return Some(Ok(()));
        }
    }
}

fn check_jpeg(mut parts: ImageParts<'_>) -> Checked {
    parts.take_bytes(2)?;
    loop {
        let at = parts.at;
        if parts.take_byte()? != 0xFF {
            return Some(Err(format!(
                "it is damaged: there is no marker at byte {at}"
            )));
        }
        let marker = match parts.take_byte()? {
            // Any marker may be preceded by fill bytes.
            0xFF => {
                parts.at -= 1;
                continue;
            }
            marker => marker,
        };
        match marker {
            0xD9 => return Some(Ok(())),
            0x01 | 0xD0..=0xD8 => {}
            _ => {
                let length = u16::from_be_bytes(parts.take_bytes(2)?.try_into().ok()?);
                parts.take_bytes(usize::from(length).checked_sub(2)?)?;
                if marker == 0xDA {
                    skip_jpeg_scan(&mut parts)?;
                }
            }
        }
    }
}

/// Skips compressed pixels up to the next marker. Restart markers and the zero after a 0xFF do not
/// end them.
fn skip_jpeg_scan(parts: &mut ImageParts<'_>) -> Option<()> {
    loop {
        parts.at += memchr::memchr(0xFF, parts.bytes.get(parts.at..)?)?;
        match parts.bytes.get(parts.at + 1)? {
            0 | 0xD0..=0xD7 => parts.at += 2,
            _ => return Some(()),
        }
    }
}

fn check_gif(mut parts: ImageParts<'_>) -> Checked {
    let colors = |flags: u8| {
        if flags & 0x80 == 0 {
            0
        } else {
            3 << ((flags & 7) + 1)
        }
    };
    let screen = parts.take_bytes(13)?;
    parts.take_bytes(colors(screen[10]))?;
    loop {
        let at = parts.at;
        match parts.take_byte()? {
            b';' => return Some(Ok(())),
            b'!' => {
                parts.take_byte()?;
                parts.skip_blocks()?;
            }
            b',' => {
                let frame = parts.take_bytes(9)?;
                parts.take_bytes(colors(frame[8]))?;
                parts.take_byte()?;
                parts.skip_blocks()?;
            }
            _ => {
                return Some(Err(format!(
                    "it is damaged: byte {at} begins no part of it"
                )));
            }
        }
    }
}

/// Compares the length stored at an offset with the actual one; it does not count `beyond` bytes.
fn check_stated_length(bytes: &[u8], place: usize, beyond: usize) -> Checked {
    let length = u32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?);
    (bytes.len() >= usize::try_from(length).ok()?.checked_add(beyond)?).then_some(Ok(()))
}
