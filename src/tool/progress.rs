//! The output of a running call. It may be lossy: nothing waits for it, and the answer does not depend on it.
//! Not here: the interval and the destination (`runner`).

use tokio::sync::watch;

/// The most unread text; of more, only the end is kept.
const MOST: usize = 64 * 1024;

/// Text that has not been read yet.
#[derive(Debug, Default)]
pub struct Untold {
    /// The newest part of it.
    pub text: String,
    /// The number of bytes dropped before it since the last read.
    pub omitted_bytes: u64,
}

/// The output of a call so far. It is masked before it leaves the device.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// For the caller, who gets the last part with the result.
    caller: Option<watch::Sender<Untold>>,
    /// For a follower, who also gets the last part as progress.
    follower: Option<watch::Sender<Untold>>,
}

/// The reading end.
#[derive(Debug)]
pub struct Audience(watch::Receiver<Untold>, watch::Sender<Untold>);

impl Progress {
    /// Creates progress for a caller, with the caller's reading end.
    pub fn watched() -> (Self, Audience) {
        let (sender, audience) = Audience::new();
        (Self { caller: Some(sender), follower: None }, audience)
    }

    /// Adds a follower, with the follower's reading end.
    #[must_use]
    pub fn followed(self) -> (Self, Audience) {
        let (sender, audience) = Audience::new();
        (Self { follower: Some(sender), ..self }, audience)
    }

    /// Returns whether there are readers; without any there is no need to collect output.
    pub fn is_watched(&self) -> bool {
        self.caller.is_some() || self.follower.is_some()
    }

    /// Returns whether there is a reader for the last part, which the caller gets with the result.
    pub fn is_followed(&self) -> bool {
        self.follower.is_some()
    }

    /// Appends text, after `omitted_bytes` that were dropped.
    pub fn show(&self, text: &str, omitted_bytes: u64) {
        self.caller.iter().chain(&self.follower).for_each(|sender| add(sender, text, omitted_bytes));
    }

    /// Appends the last part, for a follower only.
    pub fn show_end(&self, text: &str, omitted_bytes: u64) {
        self.follower.iter().for_each(|sender| add(sender, text, omitted_bytes));
    }
}

fn add(sender: &watch::Sender<Untold>, text: &str, omitted_bytes: u64) {
    if text.is_empty() {
        return;
    }
    sender.send_modify(|untold| {
        untold.omitted_bytes += omitted_bytes;
        untold.text.push_str(text);
        untold.keep_last(MOST);
    });
}

impl Untold {
    /// Drops text at the front to keep at most `most` bytes.
    pub fn keep_last(&mut self, most: usize) {
        let Some(over) = self.text.len().checked_sub(most).filter(|over| *over > 0) else { return };
        let cut = (over..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(over);
        self.text.drain(..cut);
        self.omitted_bytes += cut as u64;
    }
}

impl Audience {
    fn new() -> (watch::Sender<Untold>, Self) {
        let (sender, receiver) = watch::channel(Untold::default());
        (sender.clone(), Self(receiver, sender))
    }

    /// Waits for text and takes all of it. It never returns without text, even after the end of the call.
    pub async fn next(&mut self) -> Untold {
        // This end holds a sender, so only new text ends the wait.
        let _ = self.0.wait_for(|untold| !untold.text.is_empty()).await;
        self.rest()
    }

    /// Takes the unread text, which may be empty.
    pub fn rest(&mut self) -> Untold {
        let mut taken = Untold::default();
        self.1.send_modify(|untold| std::mem::swap(untold, &mut taken));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_shown_is_taken_once_and_only_the_end_of_much() {
        let (progress, mut audience) = Progress::watched();
        progress.show("one ", 0);
        progress.show("two", 5);
        let untold = audience.next().await;
        assert_eq!((untold.text.as_str(), untold.omitted_bytes), ("one two", 5));

        progress.show(&"é".repeat(MOST), 0);
        let untold = audience.next().await;
        assert_eq!(untold.text.len() as u64 + untold.omitted_bytes, 2 * MOST as u64);
        assert!(untold.text.len() <= MOST && untold.text.chars().all(|c| c == 'é'));
    }

    #[tokio::test]
    async fn the_end_is_for_a_follower_only() {
        let (progress, mut caller) = Progress::watched();
        let (progress, mut follower) = progress.followed();
        progress.show("begun ", 0);
        progress.show_end("ended", 0);
        assert_eq!(caller.rest().text, "begun ");
        assert_eq!(follower.next().await.text, "begun ended");
        assert!(follower.rest().text.is_empty());
    }

    #[test]
    fn nobody_watches_a_call_that_was_not_asked_to_show_anything() {
        let progress = Progress::default();
        progress.show("nothing comes of it", 0);
        assert!(!progress.is_watched());
    }
}
