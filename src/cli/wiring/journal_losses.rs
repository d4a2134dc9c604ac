//! Tells the owner at the start that the journal was lost or damaged.

use punie_engine::audit::AuditPaths;
use punie_engine::journal::{DamageReport, Journal};
use punie_home::{Home, OwnerSwitches};

/// The journal's key of the damage of which the owner was told.
const TOLD_KEY: &str = "damage_told";

/// Adds a notice if the journal was damaged since the last start, or if it was made anew though a runner has worked in this
/// home before. To be called when the journal is open and the audit is not.
pub(super) fn tell_owner(home: &Home, journal: &Journal) -> anyhow::Result<()> {
    let notices = OwnerSwitches::in_home(home);
    let reader = journal.open_reader()?;
    let damage = reader.damage_report()?;
    if let Some(damage) = damage {
        if reader.read_fact(TOLD_KEY)?.as_ref() != Some(&damage.file) {
            notices.add_journal_notice(&describe_damage(&damage))?;
            journal.store_facts_later(vec![(TOLD_KEY, damage.file)]);
        }
        return Ok(());
    }
    let is_first_run = reader.read_fact("epoch")?.as_deref() == Some("1");
    // A runner writes the audit's head before any row.
    if is_first_run && AuditPaths::within_folder(&home.audit_dir()).head.exists() {
        let text = "The journal was missing or empty at a start, though a runner had worked in this home before. Requests \
                    that were not answered then may be lost, and the history begins anew.";
        notices.add_journal_notice(text)?;
    }
    Ok(())
}

fn describe_damage(damage: &DamageReport) -> String {
    let lost = match damage.lost {
        Some(0) => "none was lost".to_owned(),
        Some(lost) => format!("{lost} could not be read"),
        None => "an unknown number could not be read".to_owned(),
    };
    format!(
        "The journal was damaged and is kept as {}: {} requests were carried over, {lost}.",
        damage.file, damage.kept
    )
}
