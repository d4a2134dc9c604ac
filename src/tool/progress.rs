//! What a call has to show while it runs. Lossy by design: nothing waits for it, and the answer never depends on it.
//! Not here: how often any of it is sent, and where to (runner).

use tokio::sync::watch;

/// The most text that is kept until it is taken; of more, the end.
const MOST: usize = 64 * 1024;

/// Text that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Untold {
    /// The newest of it.
    pub text: String,
    /// How many bytes before that were dropped since it was last taken.
    pub omitted_bytes: u64,
}

/// Where a call shows what there is so far. What is shown is masked before it leaves the device.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// To the caller, which gets the end with the result.
    caller: Option<watch::Sender<Untold>>,
    /// To somebody who follows the call and sees the end as it comes.
    follower: Option<watch::Sender<Untold>>,
}

/// The other end of it.
#[derive(Debug)]
pub struct Audience(watch::Receiver<Untold>, watch::Sender<Untold>);

impl Progress {
    /// A place to show things, and the caller's side that watches it.
    pub fn watched() -> (Self, Audience) {
        let (sender, audience) = Audience::new();
        (Self { caller: Some(sender), follower: None }, audience)
    }

    /// The same place with a follower who watches it too.
    #[must_use]
    pub fn followed(self) -> (Self, Audience) {
        let (sender, audience) = Audience::new();
        (Self { follower: Some(sender), ..self }, audience)
    }

    /// Whether anybody watches: where not, there is no need to look for something to show.
    pub fn is_watched(&self) -> bool {
        self.caller.is_some() || self.follower.is_some()
    }

    /// Whether somebody wants to see the end too, which the caller gets with the result.
    pub fn is_followed(&self) -> bool {
        self.follower.is_some()
    }

    /// Shows this, after what was shown before; `omitted_bytes` of it had to be left out in front of it.
    pub fn show(&self, text: &str, omitted_bytes: u64) {
        self.caller.iter().chain(&self.follower).for_each(|sender| add(sender, text, omitted_bytes));
    }

    /// Shows the last of it, to a follower only.
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
    /// Drops from the front what is over `most` bytes.
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

    /// Waits until there is something, and takes all of it. Ends only with the call's own end.
    pub async fn next(&mut self) -> Untold {
        // This end holds a sender, so that the wait ends by news alone.
        let _ = self.0.wait_for(|untold| !untold.text.is_empty()).await;
        self.rest()
    }

    /// Takes what there is, which may be nothing.
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
