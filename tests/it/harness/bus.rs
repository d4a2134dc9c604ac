//! A D-Bus daemon for one test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A session bus. Dropping it stops the daemon.
pub struct SessionBus {
    process: Child,
    pub address: String,
}

impl SessionBus {
    /// Starts the bus, or returns `None` where `dbus-daemon` is not installed: there the test proves nothing.
    pub fn start() -> Option<Self> {
        let mut process = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().expect("piped"))
            .read_line(&mut address)
            .expect("an address");
        let address = address.trim().to_owned();
        Some(Self { process, address })
    }
}

impl Drop for SessionBus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
