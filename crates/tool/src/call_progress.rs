//! The output of a running call. It may be lossy: nothing waits for it, and the answer does not depend on it.

use tokio::sync::watch;

/// The most unread text; of more, only the end is kept.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// Text that has not been read yet.
#[derive(Debug, Default)]
pub struct UnreadProgress {
    /// The newest part of it.
    pub text: String,
    /// The number of bytes dropped before it since the last read.
    pub omitted_bytes: u64,
}

/// The output of a call so far. It is masked before it leaves the device.
#[derive(Debug, Clone, Default)]
pub struct CallProgress {
    /// For the caller, who gets the last part with the result.
    caller: Option<watch::Sender<UnreadProgress>>,
    /// For a follower, who also gets the last part as progress.
    follower: Option<watch::Sender<UnreadProgress>>,
}

/// The reading end.
#[derive(Debug)]
pub struct ProgressReader(
    watch::Receiver<UnreadProgress>,
    watch::Sender<UnreadProgress>,
);

impl CallProgress {
    /// Creates progress for a caller, with the caller's reading end.
    pub fn with_caller() -> (Self, ProgressReader) {
        let (sender, audience) = ProgressReader::new();
        (
            Self {
                caller: Some(sender),
                follower: None,
            },
            audience,
        )
    }

    /// Adds a follower, with the follower's reading end.
    #[must_use]
    pub fn with_follower(self) -> (Self, ProgressReader) {
        let (sender, audience) = ProgressReader::new();
        (
            Self {
                follower: Some(sender),
                ..self
            },
            audience,
        )
    }

    /// Returns whether there are readers; without any there is no need to collect output.
    pub fn has_audience(&self) -> bool {
        self.caller.is_some() || self.follower.is_some()
    }

    /// Returns whether there is a reader for the last part, which the caller gets with the result.
    pub fn has_follower(&self) -> bool {
        self.follower.is_some()
    }

    /// Appends text, after `omitted_bytes` that were dropped.
    pub fn show_text(&self, text: &str, omitted_bytes: u64) {
        self.caller
            .iter()
            .chain(&self.follower)
            .for_each(|sender| append_unread(sender, text, omitted_bytes));
    }

    /// Appends the last part, for a follower only.
    pub fn show_end(&self, text: &str, omitted_bytes: u64) {
        self.follower
            .iter()
            .for_each(|sender| append_unread(sender, text, omitted_bytes));
    }
}

fn append_unread(sender: &watch::Sender<UnreadProgress>, text: &str, omitted_bytes: u64) {
    if text.is_empty() {
        return;
    }
    sender.send_modify(|untold| {
        untold.omitted_bytes += omitted_bytes;
        untold.text.push_str(text);
        untold.keep_last_bytes(MAX_UNREAD_BYTES);
    });
}

impl UnreadProgress {
    /// Drops text at the front to keep at most `most` bytes.
    pub fn keep_last_bytes(&mut self, most: usize) {
        let Some(over) = self.text.len().checked_sub(most).filter(|over| *over > 0) else {
            return;
        };
        let cut = (over..=self.text.len())
            .find(|at| self.text.is_char_boundary(*at))
            .unwrap_or(over);
        self.text.drain(..cut);
        self.omitted_bytes += cut as u64;
    }
}

impl ProgressReader {
    fn new() -> (watch::Sender<UnreadProgress>, Self) {
        let (sender, receiver) = watch::channel(UnreadProgress::default());
        (sender.clone(), Self(receiver, sender))
    }

    /// Waits for text and takes all of it. It never returns without text, even after the end of the call.
    pub async fn next(&mut self) -> UnreadProgress {
        // This end holds a sender, so only new text ends the wait.
        let _ = self.0.wait_for(|untold| !untold.text.is_empty()).await;
        self.take_rest()
    }

    /// Takes the unread text, which may be empty.
    pub fn take_rest(&mut self) -> UnreadProgress {
        let mut taken = UnreadProgress::default();
        self.1
            .send_modify(|untold| std::mem::swap(untold, &mut taken));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_shown_is_taken_once_and_only_the_end_of_much() {
        let (progress, mut audience) = CallProgress::with_caller();
        progress.show_text("one ", 0);
        progress.show_text("two", 5);
        let untold = audience.next().await;
        assert_eq!((untold.text.as_str(), untold.omitted_bytes), ("one two", 5));

        progress.show_text(&"é".repeat(MAX_UNREAD_BYTES), 0);
        let untold = audience.next().await;
        assert_eq!(
            untold.text.len() as u64 + untold.omitted_bytes,
            2 * MAX_UNREAD_BYTES as u64
        );
        assert!(untold.text.len() <= MAX_UNREAD_BYTES && untold.text.chars().all(|c| c == 'é'));
    }

    #[tokio::test]
    async fn the_end_is_for_a_follower_only() {
        let (progress, mut caller) = CallProgress::with_caller();
        let (progress, mut follower) = progress.with_follower();
        progress.show_text("begun ", 0);
        progress.show_end("ended", 0);
        assert_eq!(caller.take_rest().text, "begun ");
        assert_eq!(follower.next().await.text, "begun ended");
        assert!(follower.take_rest().text.is_empty());
    }

    #[test]
    fn nobody_watches_a_call_that_was_not_asked_to_show_anything() {
        let progress = CallProgress::default();
        progress.show_text("nothing comes of it", 0);
        assert!(!progress.has_audience());
    }
}
