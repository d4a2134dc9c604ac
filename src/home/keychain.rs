//! The system's keychain, which can hold the key of the owner's secrets. It is accessed through the system's own
//! program, so that none of its state stays in this process.
//!
//! Linux has `secret-tool` for the Secret Service (libsecret); macOS has `security`. Values are passed through pipes,
//! because other users can read command lines.
#![expect(
    clippy::disallowed_methods,
    reason = "it waits for the end of the keychain's own program"
)]

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::tokens::random_bytes;
use punie_core::ids::to_hex;
use punie_text::redact::Secret;

/// The time limit of the program, which may ask the user to unlock the keychain.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The most bytes of output that are read.
const MAX_OUTPUT_BYTES: u64 = 8 << 10;

const SERVICE: &str = "punie-runner";
const LABEL: &str = "punie-runner: the key of the secrets";

/// One entry of the keychain, by its name of letters and digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeychainEntry(String);

/// The keychain's program, its arguments and its input.
struct KeychainCommand {
    program: &'static str,
    args: Vec<String>,
    input: String,
}

impl KeychainEntry {
    /// Creates an entry with a new random name.
    pub fn new() -> Self {
        Self(to_hex(&random_bytes()[..16]))
    }

    /// Returns the entry of this name; `None` if the name has other characters than letters and digits.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain.then(|| Self(name.to_owned()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Stores a value, replacing an existing one. The value has letters, digits, `+`, `/` and `=` only.
    ///
    /// # Errors
    /// The reason, as part of a sentence.
    pub fn store_value(&self, value: &Secret<String>) -> Result<(), String> {
        run_keychain_command(&self.keychain_command("store", Some(value))?).map(drop)
    }

    /// Reads the value.
    ///
    /// # Errors
    /// The reason, as part of a sentence, also when there is no value.
    pub fn read_value(&self) -> Result<Secret<String>, String> {
        let said = run_keychain_command(&self.keychain_command("lookup", None)?)?;
        Ok(Secret::new(said.trim().to_owned()))
    }

    /// Deletes the entry.
    ///
    /// # Errors
    /// The reason, as part of a sentence.
    pub fn delete(&self) -> Result<(), String> {
        run_keychain_command(&self.keychain_command("clear", None)?).map(drop)
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    fn keychain_command(
        &self,
        verb: &str,
        value: Option<&Secret<String>>,
    ) -> Result<KeychainCommand, String> {
        const PLACES: &[&str] = &[
            "/usr/bin/secret-tool",
            "/usr/local/bin/secret-tool",
            "/bin/secret-tool",
        ];
        let program = PLACES
            .iter()
            .find(|place| Path::new(place).is_file())
            .ok_or_else(|| {
                "`secret-tool`, which asks the Secret Service, is not installed (libsecret-tools)"
                    .to_owned()
            })?;
        let mut args = vec![verb.to_owned()];
        args.extend(value.map(|_| format!("--label={LABEL}")));
        args.extend(["service", SERVICE, "name", &self.0].map(str::to_owned));
        Ok(KeychainCommand {
            program,
            args,
            input: value
                .map(|value| value.expose().clone())
                .unwrap_or_default(),
        })
    }

    /// Uses the program's interactive mode, so that the value is not on a command line.
    #[cfg(target_os = "macos")]
    fn keychain_command(
        &self,
        verb: &str,
        value: Option<&Secret<String>>,
    ) -> Result<KeychainCommand, String> {
        let name = &self.0;
        let value = value
            .map(Secret::expose)
            .map(String::as_str)
            .unwrap_or_default();
        let line = match verb {
            "store" => {
                format!(
                    "add-generic-password -U -s {SERVICE} -a {name} -l \"{LABEL}\" -w \"{value}\""
                )
            }
            "lookup" => format!("find-generic-password -s {SERVICE} -a {name} -w"),
            _ => format!("delete-generic-password -s {SERVICE} -a {name}"),
        };
        Ok(KeychainCommand {
            program: "/usr/bin/security",
            args: vec!["-i".to_owned()],
            input: format!("{line}\n"),
        })
    }

    #[cfg(windows)]
    fn keychain_command(
        &self,
        _: &str,
        _: Option<&Secret<String>>,
    ) -> Result<KeychainCommand, String> {
        Err("there is no program here that asks it".to_owned())
    }
}

/// Runs the program. Returns its output if it succeeds.
fn run_keychain_command(asked: &KeychainCommand) -> Result<String, String> {
    let KeychainCommand {
        program,
        args,
        input,
    } = asked;
    let name = Path::new(program).file_name().unwrap_or_default().display();
    let failed = |why: &dyn std::fmt::Display| format!("`{name}` {why}");
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|cause| failed(&format!("could not be started ({cause})")))?;
    let until = Instant::now() + KEYCHAIN_TIMEOUT;
    // An input this short fits into the pipe. Dropping the pipe ends the input.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes()));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(POLL_INTERVAL),
            outcome => {
                let _ = child.kill().and_then(|()| child.wait());
                let why = outcome.err().map_or_else(
                    || "gave no answer in a minute".to_owned(),
                    |cause| cause.to_string(),
                );
                return Err(failed(&why));
            }
        }
    };
    let said = read_ended_pipe(child.stdout.take());
    let complained = read_ended_pipe(child.stderr.take());
    let complaint = complained
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    match (status.success(), complaint) {
        (true, _) => written.map(|()| said).map_err(|cause| failed(&cause)),
        (false, Some(complaint)) => Err(failed(&format!("says: {complaint}"))),
        // The program prints nothing for a missing entry or a locked keychain.
        (false, None) => Err(failed(&"does not have it, or stays locked")),
    }
}

/// Reads the output that an ended program left in a pipe. Does not wait for a child of that program that holds the pipe
/// open.
#[cfg(unix)]
fn read_ended_pipe(pipe: Option<impl Read + std::os::fd::AsFd>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe
        && rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK).is_ok()
    {
        // Bytes that were read before the pipe would block are kept.
        let _ = pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns an empty text, because no program is run on this system.
#[cfg(not(unix))]
fn read_ended_pipe(_: Option<impl Read>) -> String {
    String::new()
}
