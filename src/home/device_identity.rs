//! The identity of this device: an id and an Ed25519 key, created once and never replaced by the program. A damaged
//! identity stops the command, because the backend would not know a new one.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::file_modes;
use super::layout::Home;
use super::machine_id::MachineId;
use super::private_files::{create_private_file, read_key_file, replace_private_file};
use super::runner_lock;
use super::tokens::random_bytes;
use punie_core::clock::unix_time_ms;
use punie_core::durable;
use punie_core::ids::DeviceId;
use punie_text::redact::Secret;

/// The most bytes of an identity file.
const MAX_BYTES: u64 = 4096;

const IDENTITY_ADVICE: &str = "Restore it from a backup; or move device.json and keys/device.ed25519 aside and pair again, as a \
                    new device";

/// This device's identity, with the key to sign.
#[derive(Clone)]
pub struct DeviceIdentity {
    record: DeviceRecord,
    key: SigningKey,
}

/// The content of `device.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceRecord {
    id: DeviceId,
    public_key: String,
    /// Milliseconds since 1970.
    created_at: u64,
    /// The machine where it was created or first seen; `None` if the machine has no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
}

impl DeviceRecord {
    fn to_json_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain fields are always JSON") + "\n"
    }
}

impl fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceIdentity")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

impl DeviceIdentity {
    /// Loads the identity of this home, or creates it if there is none. Of several commands at once, one creates it.
    ///
    /// # Errors
    /// [`HomeError`] when it is damaged, incomplete, readable by others, or cannot be written. The files then stay as
    /// they were.
    pub fn load_or_create(home: &Home) -> Result<Self, HomeError> {
        Self::load_on_machine(home, &MachineId::detect_machine())
    }

    /// Loads or creates the identity on this machine. An identity of another machine is refused, and one without a
    /// machine is bound to this one.
    ///
    /// # Errors
    /// As above, and [`HomeError::OtherMachine`].
    pub fn load_on_machine(home: &Home, machine: &MachineId) -> Result<Self, HomeError> {
        let _making = runner_lock::lock_exclusively(&home.identity_lock_file())?;
        let record = read_device_record(&home.device_file())?;
        let key = read_signing_key(&home.key_file())?;
        match (record, key) {
            (Some(record), Some(key)) => Self::join_halves(home, record, key, machine),
            (None, None) => Self::create(home, machine),
            (None, Some(key)) => Self::finish(home, key),
            (Some(_), None) => Err(HomeError::HalfIdentity {
                missing: home.key_file(),
                present: home.device_file(),
            }),
        }
    }

    /// Reads the identity without creating, finishing or binding one; `None` if there is none yet.
    ///
    /// # Errors
    /// As for [`Self::load_or_create`].
    pub fn find(home: &Home) -> Result<Option<Self>, HomeError> {
        let record = read_device_record(&home.device_file())?;
        let key = read_signing_key(&home.key_file())?;
        match (record, key) {
            (Some(record), Some(key)) => {
                check_halves(home, &record, &key, &MachineId::detect_machine())?;
                Ok(Some(Self { record, key }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(HomeError::HalfIdentity {
                missing: home.key_file(),
                present: home.device_file(),
            }),
            (None, Some(_)) => Err(HomeError::HalfIdentity {
                missing: home.device_file(),
                present: home.key_file(),
            }),
        }
    }

    /// Returns the private key as its file holds it, so that it can be masked in outputs; `None` before the identity is
    /// created.
    ///
    /// # Errors
    /// [`HomeError`] when the file cannot be read or others may read it.
    pub fn private_key_text(home: &Home) -> Result<Option<Secret<String>>, HomeError> {
        Ok(read_key_text(&home.key_file())?.map(Secret::new))
    }

    /// Returns the device's id.
    pub fn device_id(&self) -> &DeviceId {
        &self.record.id
    }

    /// Returns the time when it was created, in milliseconds since 1970.
    pub fn created_at_ms(&self) -> u64 {
        self.record.created_at
    }

    /// Returns the public key: its 32 bytes as base64.
    pub fn public_key_base64(&self) -> &str {
        &self.record.public_key
    }

    /// Signs the text's bytes. Returns the 64 bytes of the signature as base64.
    pub fn sign_base64(&self, text: &str) -> String {
        STANDARD.encode(self.key.sign(text.as_bytes()).to_bytes())
    }

    fn join_halves(
        home: &Home,
        mut record: DeviceRecord,
        key: SigningKey,
        machine: &MachineId,
    ) -> Result<Self, HomeError> {
        check_halves(home, &record, &key, machine)?;
        if record.machine.is_none()
            && let Some(here) = machine.device_binding(&record.id)
        {
            record.machine = Some(here);
            let file = home.device_file();
            replace_private_file(&file, record.to_json_text().as_bytes())?;
        }
        Ok(Self { record, key })
    }

    /// The record is written under another name first and renamed last. So a power failure at any moment leaves no
    /// identity, one that can be finished, or a whole one.
    fn create(home: &Home, machine: &MachineId) -> Result<Self, HomeError> {
        let seed = random_bytes();
        let key = SigningKey::from_bytes(&seed);
        let id = DeviceId::random();
        let machine = machine.device_binding(&id);
        let record = DeviceRecord {
            id,
            public_key: encode_public_key(&key),
            created_at: unix_time_ms().unsigned_abs(),
            machine,
        };
        let unfinished = home.unfinished_device_file();
        replace_private_file(&unfinished, record.to_json_text().as_bytes())?;
        let key_file = home.key_file();
        let encoded = STANDARD.encode(seed) + "\n";
        create_private_file(&key_file, encoded.as_bytes())?;
        Self::finish(home, key)
    }

    /// Renames the unfinished record, if it belongs to this key.
    fn finish(home: &Home, key: SigningKey) -> Result<Self, HomeError> {
        let unfinished = home.unfinished_device_file();
        let finished = home.device_file();
        match read_device_record(&unfinished)? {
            Some(record) if record.public_key == encode_public_key(&key) => {
                fs::rename(&unfinished, &finished).map_err(HomeError::unwritable(&finished))?;
                durable::sync_folder(home.root_dir()).map_err(HomeError::unwritable(&finished))?;
                Ok(Self { record, key })
            }
            _ => Err(HomeError::HalfIdentity {
                missing: finished,
                present: home.key_file(),
            }),
        }
    }
}

/// Checks that the key is the record's, and that the record is of this machine.
fn check_halves(
    home: &Home,
    record: &DeviceRecord,
    key: &SigningKey,
    machine: &MachineId,
) -> Result<(), HomeError> {
    if record.public_key != encode_public_key(key) {
        return Err(HomeError::MixedIdentity {
            key: home.key_file(),
            record: home.device_file(),
        });
    }
    match (&record.machine, machine.device_binding(&record.id)) {
        (Some(bound), Some(here)) if *bound != here => Err(HomeError::OtherMachine {
            record: home.device_file(),
        }),
        _ => Ok(()),
    }
}

fn read_device_record(path: &Path) -> Result<Option<DeviceRecord>, HomeError> {
    let opened = durable::allow_missing(File::open(path)).map_err(HomeError::unreadable(path))?;
    let Some(file) = opened else {
        return Ok(None);
    };
    let text = read_identity_text(file, path)?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| damaged_identity(path, error.to_string()))
}

/// Reads the key file's text without surrounding blanks.
fn read_key_text(path: &Path) -> Result<Option<String>, HomeError> {
    let Some(file) = file_modes::open_secret_file(path)? else {
        return Ok(None);
    };
    Ok(Some(read_identity_text(file, path)?.trim().to_owned()))
}

fn read_signing_key(path: &Path) -> Result<Option<SigningKey>, HomeError> {
    let seed = read_key_file(path, IDENTITY_ADVICE)?;
    Ok(seed.map(|seed| SigningKey::from_bytes(&seed)))
}

fn read_identity_text(file: File, path: &Path) -> Result<String, HomeError> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(HomeError::unreadable(path))?;
    String::from_utf8(bytes).map_err(|_| damaged_identity(path, "it is not text".to_owned()))
}

fn damaged_identity(path: &Path, why: String) -> HomeError {
    HomeError::Damaged {
        path: path.to_owned(),
        why,
        mend: IDENTITY_ADVICE.to_owned(),
    }
}

fn encode_public_key(key: &SigningKey) -> String {
    STANDARD.encode(key.verifying_key().as_bytes())
}
