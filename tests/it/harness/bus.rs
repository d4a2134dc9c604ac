//! A D-Bus of a test's own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A bus, which ends when it is dropped.
pub struct SessionBus {
    process: Child,
    pub address: String,
}

impl SessionBus {
    /// `None` where no bus is installed; then a test of it shows nothing.
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
