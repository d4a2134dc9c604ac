//! Read of an image: its dimensions and its bytes in base64, as JSON. Not here: looking at it.

use std::io::{BufReader, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::image_structure::find_image_damage;
use crate::acp::file_content::BinaryFormat;
use crate::acp::files::OpenedFile;
use crate::output::number_format;
use crate::tool::{ErrorCode, ResultMeta, ToolError, ToolReply};

/// So much base64 an answer carries at most, so that it travels whole.
const MAX_BASE64_CHARS: u64 = 700 << 10;

/// The format's name on the web, if it is an image that is shown.
pub(super) fn image_mime_type(format: BinaryFormat) -> Option<&'static str> {
    match format {
        BinaryFormat::Png => Some("image/png"),
        BinaryFormat::Jpeg => Some("image/jpeg"),
        BinaryFormat::Gif => Some("image/gif"),
        BinaryFormat::WebP => Some("image/webp"),
        BinaryFormat::Bmp => Some("image/bmp"),
        _ => None,
    }
}

/// The image as an answer.
pub(super) fn show_image(
    shown: &str,
    mut opened: OpenedFile,
    format: BinaryFormat,
    mime_type: &str,
) -> Result<ToolReply, ToolError> {
    let damaged = |why: String| {
        ToolError::new(
            ErrorCode::NotText,
            format!(
                "{shown} begins like an image ({mime_type}), but {why}. Look into it with Bash, for example `file` or `xxd`."
            ),
        )
    };
    let size = imagesize::reader_size(BufReader::new(&mut opened.bytes))
        .map_err(|cause| damaged(format!("its dimensions cannot be read: {cause}")))?;
    let mut value = json!({
        "type": "image",
        "path": shown,
        "mime_type": mime_type,
        "width": size.width,
        "height": size.height,
        "size": opened.size,
    });
    let mut meta = ResultMeta::default();
    // Three bytes are four characters.
    if opened.size.div_ceil(3) * 4 <= MAX_BASE64_CHARS {
        let mut bytes = Vec::new();
        let read = opened.bytes.rewind().and_then(|()| {
            opened
                .bytes
                .by_ref()
                .take(opened.size)
                .read_to_end(&mut bytes)
        });
        read.map_err(|cause| damaged(format!("it cannot be read: {cause}")))?;
        if let Some(fault) = find_image_damage(format, &bytes) {
            return Err(damaged(fault));
        }
        value["encoding"] = json!("base64");
        value["data"] = json!(STANDARD.encode(&bytes));
    } else {
        meta.truncated = true;
        meta.omitted_bytes = Some(opened.size);
        value["note"] = json!(format!(
            "The image is {}; up to {} are sent along. Make a smaller copy in the workspace with Bash, for example \
             `magick IN -resize '1024x1024>' -quality 80 OUT.jpg`, and Read that.",
            number_format::format_size(opened.size),
            number_format::format_size(MAX_BASE64_CHARS / 4 * 3)
        ));
    }
    Ok(ToolReply::from(value).with_meta(meta))
}
