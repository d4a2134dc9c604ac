//! The audit's rows, which follow from each other: what was changed in them is found. `hNNN` in a test's name is the number
//! of the hostile input.

mod chain;
mod laundering;

use std::path::PathBuf;

use punie_core::clock::{Clock, ExpiryClock};
use punie_engine::audit::{
    AuditActor, AuditEntry, AuditEvent, AuditFlaw, AuditLog, AuditPaths, AuditReport,
    AuditRetention, ChainLink, verify_chain,
};

/// An audit in a folder of its own.
struct Folder {
    dir: tempfile::TempDir,
    places: AuditPaths,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let places = AuditPaths::within_folder(dir.path());
        Self { dir, places }
    }

    fn open(&self, keep: AuditRetention) -> AuditLog {
        AuditLog::open(self.places.clone(), keep, None).expect("a thread")
    }

    /// As a runner opens it, whose device signs; with the device's public key.
    fn opened_by_a_device(&self, keep: AuditRetention) -> (AuditLog, String) {
        use base64::Engine as _;
        use ed25519_dalek::{Signer as _, SigningKey};
        let key = SigningKey::from_bytes(&[7; 32]);
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let public = base64(key.verifying_key().as_bytes());
        let sign = Box::new(move |text: &str| base64(&key.sign(text.as_bytes()).to_bytes()));
        (
            AuditLog::open(self.places.clone(), keep, Some(sign)).expect("a thread"),
            public,
        )
    }

    /// With so many rows, their head kept.
    async fn with_rows(rows: i64) -> Self {
        let folder = Self::new();
        let audit = folder.open(all());
        audit.queue_entries((1..=rows).map(row).collect());
        audit.flush_durably().await;
        folder
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.places.rows).expect("rows")
    }

    fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    fn put(&self, lines: &[String]) {
        std::fs::write(&self.places.rows, lines.join("\n") + "\n").expect("written");
    }

    fn verify(&self) -> AuditReport {
        verify_chain(&self.places, &[], None).expect("readable")
    }

    /// What is wrong first, and at which row.
    fn flaw(&self) -> Option<(AuditFlaw, Option<u64>)> {
        self.verify().fault.map(|fault| (fault.flaw, fault.seq))
    }
}

/// Nothing goes. The time is known.
fn all() -> AuditRetention {
    let clock = Clock::system();
    let now_ms = clock.now_ms();
    AuditRetention {
        age: std::time::Duration::from_hours(24 * 365 * 100),
        bytes: 1 << 40,
        clock: ExpiryClock::from_known_time(clock, Some(now_ms)),
    }
}

/// A row with something in every column that a row can have.
fn row(n: i64) -> AuditEntry {
    AuditEntry {
        conversation_id: Some("talk".to_owned()),
        agent_type: Some("main".to_owned()),
        caller: Some("ci".to_owned()),
        tool_name: Some("Bash".to_owned()),
        args_hash: Some(punie_engine::audit::sha256_text("{}")),
        decision: Some(punie_engine::audit::AuditDecision::Asked),
        by: Some("device".to_owned()),
        code: Some("io".to_owned()),
        rule: Some("ask".to_owned()),
        confinement: Some("full".to_owned()),
        attempt: Some(1),
        outcome: Some("ok".to_owned()),
        exit_code: Some(3),
        signal: Some("SIGTERM".to_owned()),
        may_have_run: true,
        bytes: Some(77),
        duration_ms: Some(12),
        through: Some(9),
        count: Some(4),
        ..AuditEntry::new(AuditEvent::Answered, AuditActor::Caller, 1_000 + n)
    }
    .with_request(&format!("request-{n}"))
    .with_detail("words")
}

fn of(file: &PathBuf) -> Vec<u8> {
    std::fs::read(file).expect("readable")
}

fn link(text: &str) -> ChainLink {
    punie_engine::audit::AuditHead::parse_link(text).expect("a head")
}
