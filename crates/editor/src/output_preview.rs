//! The output of a running command as an editor shows it. It is streamed if the editor supports that. Otherwise the
//! newest part is shown from time to time, because much output must not become many messages.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The most bytes of a command's output that are shown at once.
const MAX_PREVIEW_BYTES: usize = 16 * 1024;
/// The shortest time between two previews.
const PREVIEW_INTERVAL: Duration = Duration::from_millis(500);

/// The newest output of one call.
#[derive(Debug, Default)]
pub(super) struct OutputPreview(Mutex<OutputPreviewState>);

#[derive(Debug, Default)]
struct OutputPreviewState {
    text: String,
    omitted: u64,
    shown: Option<Instant>,
}

impl OutputPreview {
    /// Appends output. Returns the preview to show now, if the last one is old enough.
    pub(super) fn push(&self, text: &str, omitted: u64) -> Option<String> {
        let mut state = self.0.lock();
        state.omitted += omitted;
        state.text.push_str(text);
        if let Some(over) = state
            .text
            .len()
            .checked_sub(MAX_PREVIEW_BYTES)
            .filter(|over| *over > 0)
        {
            let cut = state.text.ceil_char_boundary(over);
            state.text.drain(..cut);
            state.omitted += cut as u64;
        }
        let now = Instant::now();
        if state
            .shown
            .is_some_and(|at| now.duration_since(at) < PREVIEW_INTERVAL)
        {
            return None;
        }
        state.shown = Some(now);
        let lead = if state.omitted > 0 {
            format!("[{} bytes before this]\n", state.omitted)
        } else {
            String::new()
        };
        Some(lead + &state.text)
    }
}

/// Puts a text between fences that it cannot break out of.
pub(super) fn fence_text(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() {
        ""
    } else {
        "\n"
    };
    format!("{fence}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_shown_now_and_then_and_only_its_end() {
        let newest = OutputPreview::default();
        assert_eq!(newest.push("a", 0).as_deref(), Some("a"));
        assert_eq!(newest.push("b", 0), None);
        tokio::time::advance(PREVIEW_INTERVAL).await;
        assert_eq!(
            newest.push("c", 5).as_deref(),
            Some("[5 bytes before this]\nabc")
        );
        tokio::time::advance(PREVIEW_INTERVAL).await;
        let shown = newest
            .push(&"é".repeat(MAX_PREVIEW_BYTES), 0)
            .expect("it is time");
        assert!(shown.len() < MAX_PREVIEW_BYTES + 40 && shown.ends_with('é'));
    }

    #[test]
    fn a_fence_is_longer_than_any_within() {
        assert_eq!(fence_text("x"), "```\nx\n```");
        assert!(fence_text("````\n").starts_with("`````\n"));
    }
}
