//! Messages to systemd that the runner is up, alive or stopping, by the protocol of sd_notify(3): datagrams of
//! `NAME=value` lines to a socket named in the environment. Without a service manager, and on other systems, nothing
//! is sent.

use std::time::Duration;

/// The service manager's notification socket.
#[derive(Debug, Clone)]
pub struct Watchdog {
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is nobody to tell"))]
    socket: String,
    every: Option<Duration>,
}

impl Watchdog {
    /// Reads the manager's variables; `None` without a manager. `of` looks a variable up: `NOTIFY_SOCKET`,
    /// `WATCHDOG_USEC` (the interval of watchdog messages that it requires) and `WATCHDOG_PID` (the process it
    /// expects them from).
    pub fn from_variables(of: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let socket = of("NOTIFY_SOCKET").filter(|socket| socket.starts_with(['/', '@']))?;
        let for_us = of("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = of("WATCHDOG_USEC")
            .and_then(|text| text.parse().ok())
            .filter(|micros| *micros > 0);
        Some(Self {
            socket,
            every: micros.filter(|_| for_us).map(Duration::from_micros),
        })
    }

    /// Returns the interval of watchdog messages: half of the required one, because a message may be late.
    pub(super) fn ping_interval(&self) -> Option<Duration> {
        self.every.map(|every| every / 2)
    }

    /// Tells the manager what the start is at; nothing else once it is up.
    pub fn announce_status(&self, text: &str) {
        self.notify_manager(&format!("STATUS={text}"));
    }

    /// Sends one message. If the manager does not read it, nothing else happens.
    #[cfg(unix)]
    pub(super) fn notify_manager(&self, word: &str) {
        if let Err(error) = self.send_datagram(word) {
            tracing::debug!(%error, word, "the service manager could not be told");
        }
    }

    #[cfg(unix)]
    fn send_datagram(&self, word: &str) -> std::io::Result<()> {
        use std::os::unix::net::UnixDatagram;
        let from = UnixDatagram::unbound()?;
        from.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        if let Some(name) = self.socket.strip_prefix('@') {
            use std::os::linux::net::SocketAddrExt as _;
            let to = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            return from.send_to_addr(word.as_bytes(), &to).map(drop);
        }
        from.send_to(word.as_bytes(), &self.socket).map(drop)
    }

    #[cfg(not(unix))]
    pub(super) fn notify_manager(&self, _word: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.to_owned())
        }
    }

    #[test]
    fn only_what_is_meant_for_us_is_a_watchdog() {
        assert!(Watchdog::from_variables(of(&[("WATCHDOG_USEC", "1000000")])).is_none());
        let pair = [("NOTIFY_SOCKET", "/run/x"), ("WATCHDOG_USEC", "30000000")];
        let ours = Watchdog::from_variables(of(&pair)).expect("a manager");
        assert_eq!(ours.ping_interval(), Some(Duration::from_secs(15)));
        let other = [pair[0], pair[1], ("WATCHDOG_PID", "1")];
        assert_eq!(
            Watchdog::from_variables(of(&other))
                .expect("a manager")
                .ping_interval(),
            None
        );
    }
}
