//! The identity of this machine, by which a copied home is detected.

use sha2::{Digest, Sha256};

use punie_core::ids::{DeviceId, to_hex};

/// The stored bytes of the digest, enough to tell machines apart.
const DIGEST_BYTES: usize = 16;

/// The system's id of a machine, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineId(Option<String>);

impl MachineId {
    /// Detects this machine. It is unknown in a container, whose id is its image's or changes with each container, and
    /// on systems other than Linux.
    #[cfg(target_os = "linux")]
    pub fn detect_machine() -> Self {
        const CONTAINERS: &[&str] = &[
            "/.dockerenv",
            "/run/.containerenv",
            "/run/host/container-manager",
        ];
        if CONTAINERS
            .iter()
            .any(|mark| std::path::Path::new(mark).exists())
        {
            return Self::unknown();
        }
        let places = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
        places
            .iter()
            .find_map(|place| std::fs::read_to_string(place).ok())
            .map_or(Self::unknown(), |id| Self::from_id(&id))
    }

    /// Returns an unknown machine, because this system is not supported.
    #[cfg(not(target_os = "linux"))]
    pub fn detect_machine() -> Self {
        Self::unknown()
    }

    /// Returns a machine without an id.
    pub fn unknown() -> Self {
        Self(None)
    }

    /// Returns the machine of this id. An id that is not set yet counts as none.
    pub fn from_id(id: &str) -> Self {
        let id = id.trim();
        Self((!id.is_empty() && id != "uninitialized").then(|| id.to_owned()))
    }

    /// Returns the digest of the machine that a device stores. The id itself is confidential (machine-id(5)), and each
    /// device on the same machine gets another digest.
    pub(super) fn device_binding(&self, device: &DeviceId) -> Option<String> {
        let id = self.0.as_ref()?;
        let digest = Sha256::digest(format!("punie-runner machine\n{device}\n{id}"));
        Some(to_hex(&digest[..DIGEST_BYTES]))
    }
}
