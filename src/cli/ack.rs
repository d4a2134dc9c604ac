//! `ack`: lists what the owner was told of protected paths and of the journal, and acknowledges it.

use super::context::CliContext;
use super::exit::Exit;
use super::{audit, console, display_time};
use punie_engine::audit::{AuditEntry, AuditEvent};
use punie_home::OwnerSwitches;

/// Lists and acknowledges the notices.
pub fn run_ack(context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let notices = OwnerSwitches::in_home(&home).acknowledge_notices()?;
    for notice in &notices {
        if context.is_json() {
            console::print_json(notice);
        } else {
            let at = display_time::format_moment(notice.at_ms);
            console::print_line(&format!(
                "{at}  {}",
                console::cell_text(&notice.text, usize::MAX)
            ));
        }
    }
    if !notices.is_empty() {
        let count = Some(notices.len() as u64);
        let entry = AuditEntry {
            count,
            ..audit::owner_entry(AuditEvent::Acknowledged)
        };
        audit::record_owner_action(&home, entry);
    }
    if !context.is_json() {
        console::print_line(&match notices.len() {
            0 => "There is nothing to acknowledge.".to_owned(),
            count => format!("Acknowledged: {count}."),
        });
    }
    Ok(Exit::Done)
}
