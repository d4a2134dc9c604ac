//! Signals that this process inherited as ignored, as `nohup` sets SIGHUP.
#![expect(
    unsafe_code,
    reason = "no safe call asks for the disposition of a signal"
)]

/// Returns whether a signal is ignored.
pub(super) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain structure.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call only writes the present one to `now`, which is valid for that.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}
