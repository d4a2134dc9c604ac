//! Failpoints: a test can end, panic or pause the process at them, to check how the next process recovers. They work in
//! builds with debug assertions, which the tests are; in the programs that people use they do nothing.

/// Runs the action of this failpoint, if a test set one.
#[inline]
pub fn reach(name: &'static str) {
    reach_of(name, "");
}

/// Runs the action of this failpoint for one subject: a request's id, or a path.
#[cfg(not(debug_assertions))]
#[inline]
pub fn reach_of(_name: &'static str, _whose: &str) {}

#[cfg(debug_assertions)]
pub use armed::reach_of;

#[cfg(debug_assertions)]
mod armed {
    #![expect(
        clippy::disallowed_methods,
        reason = "a test arms the points from outside, in no normal build"
    )]

    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The actions: `NAME[/WHOSE]=ACTION[@NTH]`, separated by commas. ACTION is `kill`, `panic` or `hold:PATH`. `hold`
    /// creates PATH and waits until it is removed.
    const VARIABLE: &str = "PUNIE_FAILPOINTS";

    static POINTS: OnceLock<Vec<ArmedFailpoint>> = OnceLock::new();

    struct ArmedFailpoint {
        name: String,
        whose: Option<String>,
        action: FailpointAction,
        /// Runs only the nth time, from 1; every time if absent.
        nth: Option<u32>,
        reached: AtomicU32,
    }

    enum FailpointAction {
        Kill,
        Panic,
        Hold(PathBuf),
    }

    /// Runs the action of this failpoint for one subject: a request's id, or a path.
    pub fn reach_of(name: &'static str, whose: &str) {
        let points =
            POINTS.get_or_init(|| parse_points(&std::env::var(VARIABLE).unwrap_or_default()));
        for point in points.iter().filter(|point| point.name == name) {
            if point.whose.as_ref().is_some_and(|wanted| wanted != whose) {
                continue;
            }
            let times = point.reached.fetch_add(1, Ordering::SeqCst) + 1;
            if point.nth.is_none_or(|nth| nth == times) {
                point.action.perform(name);
            }
        }
    }

    impl FailpointAction {
        fn perform(&self, name: &str) {
            match self {
                Self::Kill => kill_own_process(),
                Self::Panic => panic!("the failpoint {name} panics"),
                Self::Hold(path) => hold_until_removed(path),
            }
        }
    }

    /// Ends the process like SIGKILL: nothing is unwound or flushed.
    fn kill_own_process() {
        #[cfg(unix)]
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort();
    }

    fn hold_until_removed(path: &Path) {
        if std::fs::write(path, b"").is_ok() {
            while path.exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }

    fn parse_points(text: &str) -> Vec<ArmedFailpoint> {
        let point = |part: &str| {
            let (place, deed) = part
                .split_once('=')
                .unwrap_or_else(|| panic!("{VARIABLE}: {part} has no ="));
            let (name, whose) = place
                .split_once('/')
                .map_or((place, None), |(name, whose)| (name, Some(whose)));
            let (deed, nth) = deed
                .rsplit_once('@')
                .map_or((deed, None), |(deed, nth)| (deed, nth.parse().ok()));
            let action = match deed.split_once(':') {
                None if deed == "kill" => FailpointAction::Kill,
                None if deed == "panic" => FailpointAction::Panic,
                Some(("hold", path)) => FailpointAction::Hold(path.into()),
                _ => panic!("{VARIABLE}: {deed} is no action"),
            };
            ArmedFailpoint {
                name: name.into(),
                whose: whose.map(Into::into),
                action,
                nth,
                reached: AtomicU32::new(0),
            }
        };
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(point)
            .collect()
    }
}
