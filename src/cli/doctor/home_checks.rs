//! Checks of the home: its folders and modes, the disk, the identity, secrets, and what ended processes left.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use std::path::PathBuf;

use anyhow::Context as _;

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding, join_first};
use crate::cli::log_file;
use crate::cli::status::status_facts;
use crate::cli::wiring;
use punie_engine::journal::has_disk_space_at;
use punie_home::{
    DeviceIdentity, Home, HomeError, SecretStore, count_stale_mounts, remove_stale_mounts,
};
use punie_text::output::number_format::{format_count, format_size};

/// The share of the trash's quota from which the next backups push out earlier ones, in percent.
const TRASH_FULL_PERCENT: u64 = 95;

pub(super) fn check_home(facts: &DoctorFacts) -> CheckResult {
    let path = &facts.config.home;
    if facts.home.is_some() {
        return Ok(Finding::ok(format!("The home is {}", path.display())));
    }
    if path.symlink_metadata().is_ok() {
        let error = HomeError::WrongKind {
            path: path.clone(),
            wanted: "a folder",
        };
        return Ok(Finding::from_home_error(&error));
    }
    Ok(Finding::problem(format!(
        "There is no home at {}. It is not created here, and what lies in it was not checked",
        path.display()
    ))
    .with_command("init"))
}

pub(super) fn check_access(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let faults = &facts.layout.unusable;
    let Some(first) = faults.first() else {
        let shown = home.root_dir().display();
        return Ok(Finding::ok(format!("{shown} is yours and can be written")));
    };
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let mend = Finding::from_home_error(first).mend.unwrap_or_default();
    Ok(Finding::problem(join_first(&texts)).with_mend(mend))
}

pub(super) fn check_modes(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let texts: Vec<String> = facts
        .layout
        .too_open
        .iter()
        .map(ToString::to_string)
        .collect();
    if texts.is_empty() {
        return Ok(Finding::ok("No other user can read or change the home"));
    }
    Ok(Finding::problem(join_first(&texts)).with_command("doctor --fix"))
}

pub(super) fn fix_modes(home: &Home) -> Vec<String> {
    describe_changes(home.restrict_modes(), |path| {
        format!("no other user can read or change {path} any more")
    })
}

/// Describes what was done to each path, or the error.
fn describe_changes(
    changes: Vec<Result<PathBuf, HomeError>>,
    describe: impl Fn(std::path::Display<'_>) -> String,
) -> Vec<String> {
    let changes = changes.into_iter();
    changes
        .map(|change| match change {
            Ok(path) => describe(path.display()),
            Err(error) => error.to_string(),
        })
        .collect()
}

pub(super) fn check_folders(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let missing = facts.layout.missing.iter();
    let missing: Vec<String> = missing.map(|path| path.display().to_string()).collect();
    if missing.is_empty() {
        return Ok(Finding::ok("All folders of the home are there"));
    }
    let text = format!("Missing in the home: {}", join_first(&missing));
    Ok(Finding::note(text).with_command("doctor --fix"))
}

pub(super) fn fix_folders(home: &Home) -> Vec<String> {
    describe_changes(home.create_missing_folders(), |path| {
        format!("{path} was created")
    })
}

pub(super) fn check_disk(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let least = status_facts::least_free_bytes(&facts.config, facts.in_force.as_ref());
    if has_disk_space_at(&home.journal_file(), least) {
        let text = format!("More than {} of the disk are free", format_size(least));
        return Ok(Finding::ok(text));
    }
    Ok(Finding::problem(format!(
        "The disk of {} is nearly full: no call starts until {} are free",
        home.root_dir().display(),
        format_size(least)
    ))
    .with_mend(format!(
        "Free space there (df -h {}), or lower least_free_mb under [limits] in config.toml",
        home.root_dir().display()
    )))
}

pub(super) fn check_identity(_: &DoctorFacts, home: &Home) -> CheckResult {
    Ok(match DeviceIdentity::find(home) {
        Ok(Some(identity)) => Finding::ok(format!("This is the device {}", identity.device_id())),
        Ok(None) => Finding::ok("There is no identity yet; the first pairing creates it"),
        Err(error) => Finding::from_home_error(&error),
    })
}

pub(super) fn check_secrets(_: &DoctorFacts, home: &Home) -> CheckResult {
    Ok(match SecretStore::in_home(home).list() {
        Ok(secrets) => {
            let count = format_count(secrets.len() as u64, "secret");
            Finding::ok(format!("{count} can be read"))
        }
        Err(error) => Finding::problem(format!("Your secrets cannot be read: {error}"))
            .with_command("secrets list"),
    })
}

pub(super) fn check_mounts(_: &DoctorFacts, home: &Home) -> CheckResult {
    Ok(match count_stale_mounts(home)? {
        0 => Finding::ok("No secrets of ended commands are left"),
        count => Finding::note(format!(
            "{} of secrets that ended commands were given are left in {}",
            format_count(count as u64, "folder"),
            home.mounts_dir().display()
        ))
        .with_command("doctor --fix"),
    })
}

pub(super) fn fix_mounts(home: &Home) -> Vec<String> {
    match remove_stale_mounts(home) {
        Ok(0) => Vec::new(),
        Ok(removed) => vec![format!(
            "{} of ended commands' secrets removed",
            format_count(removed as u64, "folder")
        )],
        Err(error) => vec![error.to_string()],
    }
}

pub(super) fn check_temporary_files(_: &DoctorFacts, home: &Home) -> CheckResult {
    let left = home.find_unfinished_files();
    let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
    if left.is_empty() {
        return Ok(Finding::ok("No half-written files are left"));
    }
    let text = format!(
        "Left of a write that a crash cut off: {}",
        join_first(&left)
    );
    Ok(Finding::note(text).with_command("doctor --fix"))
}

pub(super) fn fix_temporary_files(home: &Home) -> Vec<String> {
    describe_changes(home.remove_unfinished_files(), |path| {
        format!("{path} was removed")
    })
}

pub(super) fn check_trash(facts: &DoctorFacts, home: &Home) -> CheckResult {
    if facts.config.trash.max_mb == 0 {
        let text = "The trash is off (max_mb = 0 under [trash]): `undo` can bring nothing back";
        return Ok(Finding::note(text).with_mend("Set max_mb under [trash] in config.toml"));
    }
    if !home.trash_dir().is_dir() {
        return Ok(Finding::ok("The trash is empty"));
    }
    let measured = wiring::open_trash(&facts.config, home)
        .measure_quota()
        .context("the trash cannot be measured")?;
    let Some((used, most)) = measured else {
        return Ok(Finding::ok("The trash is in use just now"));
    };
    let text = format!(
        "The trash takes {} of {}",
        format_size(used),
        format_size(most)
    );
    if used * 100 < most * TRASH_FULL_PERCENT {
        return Ok(Finding::ok(text));
    }
    Ok(
        Finding::note(format!("{text}: the oldest backups go first"))
            .with_mend("Raise max_mb under [trash] in config.toml"),
    )
}

pub(super) fn check_logs(_: &DoctorFacts, home: &Home) -> CheckResult {
    let folder = home.logs_dir();
    let most = log_file::MAX_TOTAL_BYTES;
    let bytes = log_file::measure_folder(&folder).context("the logs cannot be measured")?;
    let text = format!("The logs take {}", format_size(bytes));
    if bytes <= most {
        return Ok(Finding::ok(text));
    }
    Ok(Finding::note(format!(
        "{text} in {}, and the runner's own take {} at most",
        folder.display(),
        format_size(most)
    ))
    .with_mend(format!(
        "Remove what is not yours to keep in {}",
        folder.display()
    )))
}
