//! Which machine this is, so that a home that was copied to another one is noticed. Not here: what is done about it
//! (device).
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "the machine's id is a file of the system")
)]

use sha2::{Digest, Sha256};

use crate::ids::{DeviceId, hex};

/// How many bytes of the digest are kept: enough to tell machines apart.
const BYTES: usize = 16;

/// A machine, as far as the system tells machines apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine(Option<String>);

impl Machine {
    /// This one. Unknown within a container, whose id is its image's or changes each time it is made; and on systems
    /// other than Linux so far.
    #[cfg(target_os = "linux")]
    pub fn here() -> Self {
        const CONTAINERS: &[&str] = &["/.dockerenv", "/run/.containerenv", "/run/host/container-manager"];
        if CONTAINERS.iter().any(|mark| std::path::Path::new(mark).exists()) {
            return Self::unknown();
        }
        let places = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
        places
            .iter()
            .find_map(|place| std::fs::read_to_string(place).ok())
            .map_or(Self::unknown(), |id| Self::of_id(&id))
    }

    /// This one: unknown on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn here() -> Self {
        Self::unknown()
    }

    /// One that does not tell.
    pub fn unknown() -> Self {
        Self(None)
    }

    /// The machine of this id. One that was not given yet is none.
    pub fn of_id(id: &str) -> Self {
        let id = id.trim();
        Self((!id.is_empty() && id != "uninitialized").then(|| id.to_owned()))
    }

    /// What a device keeps of it. The id itself is nobody's business (machine-id(5)), and that of another device on
    /// the same machine is another.
    pub(super) fn binding(&self, device: &DeviceId) -> Option<String> {
        let id = self.0.as_ref()?;
        let digest = Sha256::digest(format!("punie-runner machine\n{device}\n{id}"));
        Some(hex(&digest[..BYTES]))
    }
}
