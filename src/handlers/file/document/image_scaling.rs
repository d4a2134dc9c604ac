//! Scales an image down in the worker until it fits.

use std::fs::File;
use std::io::{BufReader, Cursor};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits, RgbImage};

use super::document_protocol::ScaledImage;

/// The most pixels of an image that is decoded.
const MAX_PIXELS: u64 = 64 << 20;
/// The most memory that the decoder allocates.
const MAX_DECODER_BYTES: u64 = 320 << 20;
/// The longest side of a scaled image. Models use no more than this.
const LONGEST_SIDE: u32 = 1_568;
/// An image with a shorter longest side is useless.
const SHORTEST_USE: u32 = 24;
const JPEG_QUALITY: u8 = 80;

/// Scales the image to at most this many characters of base64.
pub(super) fn scale_image(
    file: File,
    mime_type: &str,
    max_chars: usize,
) -> Result<ScaledImage, String> {
    let format = ImageFormat::from_mime_type(mime_type).ok_or("its format is not decoded here")?;
    let image = decode_image(file, format)?;
    let max_bytes = max_chars / 4 * 3;
    let longest = image.width().max(image.height());
    let mut side = LONGEST_SIDE.min(longest);
    while side >= SHORTEST_USE {
        // Preserves the proportions.
        let scaled = if side == longest {
            image.clone()
        } else {
            image.thumbnail(side, side)
        };
        if let Some((encoded, format)) = encode_to_fit(&scaled, format, max_bytes)? {
            return Ok(ScaledImage {
                source_size: (image.width(), image.height()),
                width: scaled.width(),
                height: scaled.height(),
                mime_type: format.to_mime_type().to_owned(),
                bytes: encoded.len(),
                base64: STANDARD.encode(&encoded),
            });
        }
        side = side * 3 / 4;
    }
    Err("it does not fit, however small".to_owned())
}

fn decode_image(file: File, format: ImageFormat) -> Result<DynamicImage, String> {
    let damaged = |cause: image::ImageError| format!("it cannot be decoded: {cause}");
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    let mut reader = ImageReader::with_format(BufReader::new(file), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    let bytes = decoder.total_bytes();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || bytes > MAX_DECODER_BYTES {
        return Err("it has too many pixels to be scaled down here".to_owned());
    }
    let orientation = decoder.orientation().map_err(damaged)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// Encodes as PNG if that fits, so that drawings stay sharp, otherwise as JPEG. Photos become JPEG
/// directly.
fn encode_to_fit(
    image: &DynamicImage,
    source: ImageFormat,
    max_bytes: usize,
) -> Result<Option<(Vec<u8>, ImageFormat)>, String> {
    let failed = |cause: image::ImageError| format!("its smaller copy cannot be made: {cause}");
    if source != ImageFormat::Jpeg {
        let mut encoded = Cursor::new(Vec::new());
        image
            .write_to(&mut encoded, ImageFormat::Png)
            .map_err(failed)?;
        let encoded = encoded.into_inner();
        if encoded.len() <= max_bytes {
            return Ok(Some((encoded, ImageFormat::Png)));
        }
    }
    let mut encoded = Vec::new();
    JpegEncoder::new_with_quality(&mut encoded, JPEG_QUALITY)
        .encode_image(&paint_on_white(image))
        .map_err(failed)?;
    Ok((encoded.len() <= max_bytes).then_some((encoded, ImageFormat::Jpeg)))
}

/// Paints the image on white, because JPEG has no transparency.
fn paint_on_white(image: &DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.to_rgb8();
    }
    let pixels = image.to_rgba8();
    RgbImage::from_fn(pixels.width(), pixels.height(), |x, y| {
        let [red, green, blue, alpha] = pixels.get_pixel(x, y).0;
        let alpha = u16::from(alpha);
        image::Rgb([red, green, blue].map(|color| {
            let blended = (u16::from(color) * alpha + 255 * (255 - alpha)) / 255;
            u8::try_from(blended).unwrap_or(u8::MAX)
        }))
    })
}
