//! Read of an image: its dimensions and its bytes in base64, as JSON, scaled down if it is too large.

use std::io::{BufReader, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::document_protocol::{DocumentContent, DocumentWork, ScaledImage};
use super::document_reader::{DocumentReader, DocumentSource};
use super::image_structure::find_image_damage;
use punie_host::file_content::BinaryFormat;
use punie_host::files::OpenedFile;
use punie_text::output::TextBudget;
use punie_text::output::number_format::format_size;
use punie_tool::{ErrorCode, ResultMeta, ToolError, ToolReply};

/// The most base64 in an answer, so that it is sent whole.
const MAX_BASE64_CHARS: usize = 700 << 10;
/// Characters reserved for the note, if the call gives a budget.
const NOTE_CHARS: usize = 400;

/// The format's media type, if it is an image that is shown.
pub(super) fn image_mime_type(format: BinaryFormat) -> Option<&'static str> {
    match format {
        BinaryFormat::Png => Some("image/png"),
        BinaryFormat::Jpeg => Some("image/jpeg"),
        BinaryFormat::Gif => Some("image/gif"),
        BinaryFormat::WebP => Some("image/webp"),
        BinaryFormat::Bmp => Some("image/bmp"),
        BinaryFormat::Tiff => Some("image/tiff"),
        BinaryFormat::Ico => Some("image/x-icon"),
        _ => None,
    }
}

/// Returns whether models take this format as it is.
fn is_sent_unchanged(format: BinaryFormat) -> bool {
    use BinaryFormat::{Gif, Jpeg, Png, WebP};
    matches!(format, Png | Jpeg | Gif | WebP)
}

/// Answers with the image. Blocks.
pub(super) fn show_image(
    source: &DocumentSource,
    mut opened: OpenedFile,
    format: BinaryFormat,
    mime_type: &str,
    budget: Option<TextBudget>,
    reader: &DocumentReader,
) -> Result<ToolReply, ToolError> {
    let shown = source.shown.as_str();
    let damaged = |why: String| {
        ToolError::new(
            ErrorCode::NotText,
            format!(
                "{shown} begins like an image ({mime_type}), but {why}. Look into it with Bash, for example `file` or `xxd`."
            ),
        )
    };
    let mut value = json!({
        "type": "image",
        "path": shown,
        "mime_type": mime_type,
        "size": opened.size,
    });
    if is_sent_unchanged(format) {
        let size = imagesize::reader_size(BufReader::new(&mut opened.bytes))
            .map_err(|cause| damaged(format!("its dimensions cannot be read: {cause}")))?;
        (value["width"], value["height"]) = (json!(size.width), json!(size.height));
    }
    let rewound = opened.bytes.rewind();
    rewound.map_err(|cause| damaged(format!("it cannot be read: {cause}")))?;
    let max_chars = budget.map_or(MAX_BASE64_CHARS, |budget| {
        let around = value.to_string().chars().count() + NOTE_CHARS;
        budget.max_chars().saturating_sub(around)
    });
    // Three bytes become four characters.
    if is_sent_unchanged(format) && opened.size.div_ceil(3) * 4 <= max_chars as u64 {
        let mut bytes = Vec::new();
        let read = opened.bytes.take(opened.size).read_to_end(&mut bytes);
        read.map_err(|cause| damaged(format!("it cannot be read: {cause}")))?;
        if let Some(fault) = find_image_damage(format, &bytes) {
            return Err(damaged(fault));
        }
        add_image_data(&mut value, &STANDARD.encode(&bytes));
        return Ok(ToolReply::from(value));
    }
    let work = DocumentWork::ScaleImage {
        mime_type: mime_type.to_owned(),
        max_chars,
    };
    let scaled = match reader.read_document(source, opened.bytes, work) {
        Ok(Ok(DocumentContent::Image(scaled))) => Ok(scaled),
        Ok(Ok(_)) => Err("it was not scaled down".to_owned()),
        Ok(Err(why)) => Err(why),
        Err(error) => match error.stable_code() {
            ErrorCode::Cancelled => return Err(error),
            ErrorCode::TooLarge => Err("scaling it down takes too much memory".to_owned()),
            ErrorCode::Timeout => Err("scaling it down takes too long".to_owned()),
            _ => Err("the process that scales images failed".to_owned()),
        },
    };
    match scaled {
        Ok(scaled) => add_scaled_image(&mut value, source, &scaled),
        Err(why) if !is_sent_unchanged(format) => return Err(damaged(why)),
        Err(why) => {
            value["note"] = json!(advise_smaller_copy(source, &why, max_chars, budget));
        }
    }
    Ok(ToolReply::from(value).with_meta(ResultMeta {
        truncated: true,
        omitted_bytes: Some(opened.size),
        ..ResultMeta::default()
    }))
}

fn add_image_data(value: &mut Value, base64: &str) {
    value["encoding"] = json!("base64");
    value["data"] = json!(base64);
}

fn add_scaled_image(value: &mut Value, source: &DocumentSource, scaled: &ScaledImage) {
    let (width, height) = scaled.source_size;
    let is_smaller = (scaled.width, scaled.height) != (width, height);
    let down = if is_smaller { " scaled down," } else { "" };
    value["note"] = json!(format!(
        "This is {} of {width}x{height} pixels and {}. It is shown{down} as {} of {}x{} pixels and {}.",
        source.kind,
        format_size(source.size),
        scaled.mime_type,
        scaled.width,
        scaled.height,
        format_size(scaled.bytes as u64)
    ));
    (value["width"], value["height"]) = (json!(width), json!(height));
    value["mime_type"] = json!(scaled.mime_type);
    add_image_data(value, &scaled.base64);
}

fn advise_smaller_copy(
    source: &DocumentSource,
    why: &str,
    max_chars: usize,
    budget: Option<TextBudget>,
) -> String {
    let cause = match budget {
        Some(_) => format!("It was left out because of max_chars, and {why}."),
        None => format!("It was not scaled down: {why}."),
    };
    format!(
        "The image is {}; up to {} are sent along. {cause} Make a smaller copy in the workspace with Bash, for \
         example `magick IN -resize '1024x1024>' -quality 80 OUT.jpg`, and Read that.",
        format_size(source.size),
        format_size(max_chars as u64 / 4 * 3)
    )
}
