//! Read of an image: its dimensions and its bytes in base64, as JSON. Not here: looking at it.

use std::io::{BufReader, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::image_structure::find_damage;
use crate::acp::content::Format;
use crate::acp::files::OpenedFile;
use crate::output::figures;
use crate::tool::{ErrorCode, Meta, Reply, ToolError};

/// So much base64 an answer carries at most, so that it travels whole.
const CARRIED: u64 = 700 << 10;

/// The format's name on the web, if it is an image that is shown.
pub(super) fn mime_type(format: Format) -> Option<&'static str> {
    match format {
        Format::Png => Some("image/png"),
        Format::Jpeg => Some("image/jpeg"),
        Format::Gif => Some("image/gif"),
        Format::WebP => Some("image/webp"),
        Format::Bmp => Some("image/bmp"),
        _ => None,
    }
}

/// The image as an answer.
pub(super) fn show(
    shown: &str,
    mut opened: OpenedFile,
    format: Format,
    mime_type: &str,
) -> Result<Reply, ToolError> {
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
    let mut meta = Meta::default();
    // Three bytes are four characters.
    if opened.size.div_ceil(3) * 4 <= CARRIED {
        let mut bytes = Vec::new();
        let read = opened
            .bytes
            .rewind()
            .and_then(|()| opened.bytes.by_ref().take(opened.size).read_to_end(&mut bytes));
        read.map_err(|cause| damaged(format!("it cannot be read: {cause}")))?;
        if let Some(fault) = find_damage(format, &bytes) {
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
            figures::size(opened.size),
            figures::size(CARRIED / 4 * 3)
        ));
    }
    Ok(Reply::from(value).with_meta(meta))
}
