//! What a runner at rest gives back: memory that was freed, and the pages of its own program, code and constants, that
//! are not needed until it looks again. These are clean and on the disk, and come back by themselves when they are used;
//! until then they count neither against a limit of memory nor against the runner when the system looks for something to
//! kill. Not here: the heartbeat.
#![expect(unsafe_code, reason = "the kernel is told which pages of the program are not needed now")]
#![expect(clippy::disallowed_methods, reason = "the kernel's list of this process's mappings is a file")]

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::engine::Engine;

/// How long the start takes at most; what it needed is given back then.
const START: Duration = Duration::from_secs(5);
/// With the first heartbeat after so long without a call what they needed is given back too. More often it would cost
/// more time than it saves memory: what a heartbeat needs comes back with the next one.
const QUIET: Duration = Duration::from_mins(10);

/// Gives back what the start needed, and then, with a heartbeat, what calls needed that are over: that is the most that a
/// quiet runner does. Until it is over.
pub(super) async fn keep(engine: Arc<Engine>) {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    let clean = clean_pages(&maps);
    drop(maps);
    let begun = || engine.begun.load(Ordering::Relaxed);
    let mut rest = Rest { seen: begun(), given_back: None };
    let mut wait = tokio::time::timeout(START, engine.over.cancelled()).await;
    while wait.is_err() {
        if rest.is_due(begun(), Instant::now()) {
            give_back(&clean);
        }
        wait = tokio::select! {
            () = engine.beaten.notified() => continue,
            () = engine.over.cancelled() => Ok(()),
        };
    }
}

/// When something is given back.
struct Rest {
    /// How many calls had begun at the last look.
    seen: u64,
    /// When something was given back, where no call has begun since.
    given_back: Option<Instant>,
}

impl Rest {
    /// Whether now, at which so many calls have begun.
    fn is_due(&mut self, begun: u64, now: Instant) -> bool {
        if std::mem::replace(&mut self.seen, begun) != begun {
            self.given_back = None;
            return false;
        }
        let due = self.given_back.is_none_or(|at| now - at >= QUIET);
        if due {
            self.given_back = Some(now);
        }
        due
    }
}

fn give_back(pages: &[Range<usize>]) {
    // SAFETY: takes the allocator's own locks and gives the system what nobody holds; any thread may call it.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    for range in pages {
        let (start, len) = (range.start as *mut c_void, range.end - range.start);
        // SAFETY: the range is a whole mapping of a file that cannot be written, as the kernel says. No page of it was
        // ever changed, so that what is dropped is read from the file again when it is used, by whichever thread; and
        // what the program was started with stays mapped for its life.
        let told = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxDontNeed) };
        if let Err(error) = told {
            tracing::debug!(%error, "pages of the program stay in memory");
        }
    }
}

/// The addresses of mappings of files that can be read only, or executed, and of which no page is the process's own:
/// what the loader wrote into before it shut it has such pages and would lose them.
fn clean_pages(maps: &str) -> Vec<Range<usize>> {
    let mut clean = Vec::new();
    let mut of_a_file = None;
    for line in maps.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(own) if own.trim() == "0 kB" => {
                clean.extend(of_a_file.take().filter(|range: &Range<usize>| !range.is_empty()));
            }
            Some(_) => of_a_file = None,
            None => of_a_file = mapping(line).or(of_a_file),
        }
    }
    clean
}

/// The addresses of the mapping that a line begins, where it is a file's and cannot be written; empty where it is not.
fn mapping(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (rights, path) = (words.next()?, words.nth(3).unwrap_or_default());
    let fits = matches!(rights, "r-xp" | "r--p") && path.starts_with('/');
    Some(if fits { range } else { 0..0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_needed_is_given_back_once_they_are_over_and_the_rest_now_and_then() {
        let mut rest = Rest { seen: 0, given_back: None };
        let begun = Instant::now();
        let at = |minute: u64| begun + Duration::from_mins(minute);
        assert!(rest.is_due(0, at(0)), "the start");
        assert!((1..10).all(|minute| !rest.is_due(0, at(minute))));
        assert!(rest.is_due(0, at(10)), "after ten minutes, however many heartbeats that is");
        assert!(!rest.is_due(0, at(15)) && rest.is_due(0, at(20)));
        assert!(!rest.is_due(3, at(21)) && !rest.is_due(5, at(22)), "calls begin");
        assert!(rest.is_due(5, at(23)), "and none since");
        assert!(!rest.is_due(5, at(24)));
    }

    #[test]
    fn only_what_is_a_files_and_was_never_written_is_given_back() {
        let of = |rights: &str, path: &str, own: u32| {
            let before = "1000-2000 r-xp 00000000 fe:00 1 /first\nRss: 4 kB\n";
            clean_pages(&format!(
                "{before}5000-9000 {rights} 0044f000 fe:00 123   {path}\nRss:  12 kB\nAnonymous:  {own} kB\nSwap: 0 kB\n"
            ))
        };
        for rights in ["r-xp", "r--p"] {
            assert_eq!(of(rights, "/usr/bin/x", 0).first(), Some(&(0x5000..0x9000)), "{rights}");
        }
        for (rights, path, own) in [
            ("r--p", "/x", 4),
            ("r-xp", "/x", 8),
            ("rwxp", "/x", 0),
            ("rw-p", "/x", 0),
            ("r-xp", "[vdso]", 0),
            ("r-xp", "", 0),
        ] {
            assert!(of(rights, path, own).is_empty(), "{rights} {path} {own}");
        }
        assert!(clean_pages("").is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_was_given_back_works_as_before() {
        let sum = || (0..1_000_u64).map(|n| n.pow(2)).sum::<u64>();
        let before = sum();
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel's list");
        let clean = clean_pages(&maps);
        assert!(!clean.is_empty());
        for _ in 0..3 {
            give_back(&clean);
            assert_eq!(sum(), before);
            assert_eq!(format!("{:?}", serde_json::json!({ "a": [1, 2] })["a"][1]), "Number(2)");
        }
    }
}
