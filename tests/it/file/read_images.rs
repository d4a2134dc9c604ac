//! Read: images that are too large for an answer, so that they come scaled down.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, ImageFormat, RgbImage};
use punie_tool::ToolReply;
use punie_tool::request::ReplyBody;
use serde_json::{Value, json};

use super::Bench;

/// Returns an image that does not compress well: each pixel has another colour.
fn make_noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |_, _| {
        image::Rgb([next(), next(), next()])
    }))
}

fn encode_image(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn json_body(reply: ToolReply) -> Value {
    match reply.body {
        ReplyBody::Json(value) => value,
        other => panic!("{other:?}"),
    }
}

/// Decodes the image in an answer, and returns it with its format.
fn decode_sent(value: &Value) -> (DynamicImage, ImageFormat) {
    let data = STANDARD.decode(value["data"].as_str().unwrap()).unwrap();
    let format = image::guess_format(&data).unwrap();
    assert_eq!(value["mime_type"], format.to_mime_type());
    (image::load_from_memory(&data).unwrap(), format)
}

#[tokio::test]
#[ignore = "slow: `.ci/run` runs it"]
async fn an_image_over_the_limit_comes_scaled_down() {
    let bench = Bench::new();
    let large = make_noise(1_800, 900);
    for (name, format) in [("a.png", ImageFormat::Png), ("a.jpg", ImageFormat::Jpeg)] {
        let bytes = encode_image(&large, format);
        assert!(bytes.len() > 600 << 10, "{name}: {}", bytes.len());
        bench.put(name, &bytes);
        let value = json_body(bench.ok("Read", json!({ "file_path": name })).await);
        assert_fields!(value, {"width": 1_800, "height": 900, "size": bytes.len()});
        assert!(value["data"].as_str().unwrap().len() <= 700 << 10);
        let (small, _) = decode_sent(&value);
        assert!(small.width() <= 1_568, "{}", small.width());
        assert_eq!(small.width(), small.height() * 2);
        let shown = format!("{}x{} pixels", small.width(), small.height());
        let note = value["note"].as_str().unwrap();
        assert_contains!(note, "1800x900 pixels", &shown);
    }
    // A drawing compresses well, so it comes unchanged.
    let mut drawing = RgbImage::from_pixel(1_400, 1_400, image::Rgb([255; 3]));
    for pixel in drawing.rows_mut().take(600).flatten() {
        pixel.0[0] = 7;
    }
    let drawing = DynamicImage::ImageRgb8(drawing);
    let bytes = encode_image(&drawing, ImageFormat::Png);
    assert!(bytes.len() < 100 << 10);
    bench.put("drawing.png", bytes);
    let value = json_body(bench.ok("Read", json!({"file_path": "drawing.png"})).await);
    assert_eq!(decode_sent(&value).1, ImageFormat::Png);
    assert_eq!(value["note"], Value::Null);
}

#[tokio::test]
async fn the_budget_of_a_call_holds_for_an_image() {
    let bench = Bench::new();
    let bytes = encode_image(&make_noise(300, 300), ImageFormat::Png);
    bench.put("a.png", &bytes);
    let whole = json_body(bench.ok("Read", json!({"file_path": "a.png"})).await);
    assert_eq!(decode_sent(&whole).0.width(), 300);
    for max_chars in [1_000, 8_000, 60_000] {
        let args = json!({"file_path": "a.png", "max_chars": max_chars});
        let value = json_body(bench.ok("Read", args).await);
        assert!(value.to_string().chars().count() <= max_chars, "{value}");
        assert_eq!(value["width"], 300);
        let note = value["note"].as_str().unwrap();
        if value["data"].is_null() {
            assert!(max_chars < 60_000, "{note}");
            assert_contains!(note, "max_chars");
        } else {
            assert!(decode_sent(&value).0.width() < 300);
        }
    }
    // A bitmap is scaled like the others.
    let mut bmp = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bmp.extend([60, 0, 0, 0, 40, 0, 0, 0, 1, 0, 24, 0]);
    bmp.resize(54 + 60 * 40 * 3, 0);
    bench.put("a.bmp", bmp);
    let args = json!({"file_path": "a.bmp", "max_chars": 2_000});
    let value = json_body(bench.ok("Read", args).await);
    assert!(value["data"].is_string(), "{value}");
    assert_eq!(decode_sent(&value).0.width(), 60);
    assert_eq!(decode_sent(&value).1, ImageFormat::Png);
}

/// The interfaces of models take only PNG, JPEG, GIF and WebP.
#[tokio::test]
async fn other_formats_are_shown_as_png() {
    let bench = Bench::new();
    let drawn = image::RgbaImage::from_pixel(30, 20, image::Rgba([200, 10, 10, 255]));
    for (name, format, kind) in [
        ("a.bmp", ImageFormat::Bmp, "a BMP image"),
        ("a.tiff", ImageFormat::Tiff, "a TIFF image"),
        ("a.ico", ImageFormat::Ico, "an icon"),
    ] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let drawn = DynamicImage::from(drawn.clone());
        // Most programs write bitmaps without transparency.
        let drawn = if format == ImageFormat::Bmp {
            drawn.to_rgb8().into()
        } else {
            drawn
        };
        drawn.write_to(&mut bytes, format).unwrap();
        bench.put(name, bytes.into_inner());
        let value = json_body(bench.ok("Read", json!({"file_path": name})).await);
        let (shown, format) = decode_sent(&value);
        assert_eq!(format, ImageFormat::Png, "{name}");
        assert_eq!(shown.width(), 30, "{name}");
        assert_eq!(shown.height(), 20, "{name}");
        assert_eq!(shown.to_rgb8().get_pixel(3, 3).0, [200, 10, 10]);
        assert_eq!(value["mime_type"], "image/png");
        let note = value["note"].as_str().unwrap();
        assert_contains!(note, kind, "as image/png of 30x20");
    }
    let mut cut = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    cut.extend([60, 0, 0, 0, 40, 0, 0, 0, 1, 0, 24, 0]);
    bench.put("cut.bmp", cut);
    let error = bench.refused("Read", json!({"file_path": "cut.bmp"})).await;
    assert_contains!(error.model_text(), "cannot be decoded");
    for brand in [b"heic", b"avif"] {
        let bytes = [b"\0\0\0\x18ftyp".as_slice(), brand, &[0; 40]].concat();
        bench.put("a.heic", bytes);
        let error = bench.refused("Read", json!({"file_path": "a.heic"})).await;
        assert_contains!(error.model_text(), "HEIC or AVIF");
    }
}

#[tokio::test]
async fn an_image_of_too_many_pixels_is_not_unpacked() {
    let bench = Bench::new();
    // One megabyte of data for an image of gigabytes.
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut packed, &vec![0; 1 << 20]).unwrap();
    let header = [60_000_u32.to_be_bytes(), 60_000_u32.to_be_bytes()].concat();
    let chunks = [
        (b"IHDR", [header.as_slice(), &[8, 2, 0, 0, 0]].concat()),
        (b"IDAT", packed.finish().unwrap()),
        (b"IEND", vec![]),
    ];
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, body) in chunks {
        let named = [name.as_slice(), &body].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&named);
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(named);
        bytes.extend(crc.sum().to_be_bytes());
    }
    bench.put("bomb.png", bytes);
    let value = json_body(bench.ok("Read", json!({"file_path": "bomb.png"})).await);
    let note = value["note"].as_str().unwrap();
    assert!(
        value["data"].is_null() && note.contains("too many pixels") && note.contains("magick"),
        "{note}"
    );
}
