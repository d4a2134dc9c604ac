//! What a runner at rest gives back: the pages of its own program that only its start or a busy time needed. They are
//! clean and on the disk, and come back by themselves when they are used; until then they count neither against a
//! limit of memory nor against the runner when the system looks for something to kill. Not here: when it rests (vigil).
#![expect(unsafe_code, reason = "the kernel is told which pages of the program's code are not needed now")]
#![expect(clippy::disallowed_methods, reason = "the kernel's list of this process's mappings is a file")]

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::Engine;

/// How long the start takes at most; what it needed is given back then.
const START: Duration = Duration::from_secs(5);
/// How long no call must have begun for a busy time to be over.
const QUIET: Duration = Duration::from_mins(1);

/// Gives back what the start needed, and after every busy time what that needed, until the runner is over.
pub(super) async fn keep(engine: Arc<Engine>) {
    let begun = || engine.begun.load(Ordering::Relaxed);
    let mut seen = begun();
    let mut given = None;
    let mut wait = tokio::time::timeout(START, engine.over.cancelled()).await;
    while wait.is_err() {
        let now = begun();
        if now == seen && given != Some(now) {
            give_back_code();
            given = Some(now);
        }
        seen = now;
        // With a look of the vigil's, so that nothing is woken for this alone.
        wait = tokio::select! {
            () = engine.looks.rest(QUIET) => continue,
            () = engine.over.cancelled() => Ok(()),
        };
    }
}

/// Gives back the pages of the program's code. Nothing where the system does not tell which they are.
pub(super) fn give_back_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for range in maps.lines().filter_map(code_of_a_file) {
        let (start, len) = (range.start as *mut c_void, range.end - range.start);
        // SAFETY: the range is a whole mapping of a file that can be executed and not written, as the kernel says. No
        // page of it was ever changed, so that what is dropped is read from the file again when it is used, by whichever
        // thread; and what is mapped there stays mapped for the life of the process.
        let told = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxDontNeed) };
        if let Err(error) = told {
            tracing::debug!(%error, "pages of the program's code stay in memory");
        }
    }
}

/// The addresses of a line's mapping, where it is a file's code that cannot be written.
fn code_of_a_file(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, rights, path) = (words.next()?, words.next()?, words.nth(3)?);
    if rights != "r-xp" || !path.starts_with('/') {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?).filter(|range| range.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_that_cannot_be_written_is_given_back() {
        let line = |rights: &str, path: &str| {
            code_of_a_file(&format!("5617b9ee7000-5617b9ef7000 {rights} 0044f000 fe:00 123   {path}"))
        };
        assert_eq!(line("r-xp", "/usr/bin/x"), Some(0x5617_b9ee_7000..0x5617_b9ef_7000));
        for (rights, path) in
            [("rwxp", "/x"), ("r--p", "/x"), ("rw-p", "/x"), ("r-xp", "[vdso]"), ("r-xp", "")]
        {
            assert_eq!(line(rights, path), None, "{rights} {path}");
        }
        assert_eq!(code_of_a_file(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_was_given_back_works_as_before() {
        let sum = || (0..1_000_u64).map(|n| n.pow(2)).sum::<u64>();
        let before = sum();
        for _ in 0..3 {
            give_back_code();
            assert_eq!(sum(), before);
            assert_eq!(format!("{:?}", serde_json::json!({ "a": [1, 2] })["a"][1]), "Number(2)");
        }
    }
}
