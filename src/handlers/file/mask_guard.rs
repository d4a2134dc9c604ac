//! Rejects writes of the mark that replaces a masked secret. A caller that returns it means the
//! secret, which the runner cannot restore. Not here: masking (`redact`).

use std::io::{self, Read};

use memchr::memmem;

use super::FileDeps;
use punie_host::WorkspacePath;
use punie_text::redact::MASK;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// Refuses a text with the mark if the loaded file does not contain it.
pub(super) fn refuse_unless_masked(
    shown: &str,
    current: &[u8],
    arguments: &[(&str, &str)],
) -> Result<(), ToolError> {
    match argument_with_mask(arguments) {
        Some(name) if memmem::find(current, MASK.as_bytes()).is_none() => {
            Err(mask_refusal(name, shown))
        }
        _ => Ok(()),
    }
}

/// Refuses content with the mark unless the file that it would replace contains it.
pub(super) async fn refuse_masked_overwrite(
    cx: &ToolContext,
    deps: &FileDeps,
    path: &WorkspacePath,
    argument: (&str, &str),
) -> Result<(), ToolError> {
    let Some(name) = argument_with_mask(&[argument]) else {
        return Ok(());
    };
    let mut bytes = match deps.client.open_file(cx, path.clone()).await {
        Ok(opened) => opened.bytes,
        Err(error) if error.stable_code() == ErrorCode::Cancelled => return Err(error),
        // The write itself reports a folder with a better error.
        Err(error) if error.stable_code() == ErrorCode::IsDirectory => return Ok(()),
        Err(_) => return Err(mask_refusal(name, &path.display_text())),
    };
    let cancel = cx.cancel.clone();
    let has_it =
        tokio::task::spawn_blocking(move || holds_mask(&mut bytes, || cancel.is_cancelled()))
            .await
            .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?;
    match has_it {
        Ok(true) => Ok(()),
        Err(_) if cx.is_cancelled() => Err(ToolError::call_cancelled(
            "The call was cancelled before anything was changed.",
        )),
        Ok(false) | Err(_) => Err(mask_refusal(name, &path.display_text())),
    }
}

/// The argument that contains the mark.
fn argument_with_mask<'a>(arguments: &[(&'a str, &str)]) -> Option<&'a str> {
    arguments
        .iter()
        .find(|(_, text)| text.contains(MASK))
        .map(|(name, _)| *name)
}

fn mask_refusal(argument: &str, shown: &str) -> ToolError {
    ToolError::invalid_args(format!(
        "{argument} holds {MASK}, and {shown} does not. That mark stands for a secret value that was masked in an \
         answer; it would be written literally, and the secret lost. Nothing was written. Change the text around the \
         secret with Edit, quoting only parts without the mark; the value then stays as it is."
    ))
}

/// Returns whether a text, as UTF-8 or UTF-16, contains the mark; in constant memory.
fn holds_mask(file: &mut dyn Read, is_cancelled: impl Fn() -> bool) -> io::Result<bool> {
    let wide = |bytes: fn(u16) -> [u8; 2]| MASK.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let marks = [
        MASK.as_bytes().to_vec(),
        wide(u16::to_le_bytes),
        wide(u16::to_be_bytes),
    ];
    let overlap = MASK.len() * 2 - 1;
    let mut window = Vec::with_capacity(CHUNK + overlap);
    loop {
        if is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let read = (&mut *file).take(CHUNK as u64).read_to_end(&mut window)?;
        if read == 0 {
            return Ok(false);
        }
        if marks
            .iter()
            .any(|mark| memmem::find(&window, mark).is_some())
        {
            return Ok(true);
        }
        window.drain(..window.len().saturating_sub(overlap));
    }
}
