//! Checks of the runner and its state: its process, your switches, the journal, the audit, and what waits for you.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use anyhow::Context as _;

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding, join_first};
use crate::cli::approvals;
use crate::cli::audit::audit_paths;
use crate::cli::console;
use crate::cli::pause::describe_stopped;
use crate::cli::status::attention;
use crate::cli::status::journal_facts::JournalFacts;
use crate::config::optional_parts;
use punie_engine::audit;
use punie_engine::journal::{HealthProblem, JournalReader};
use punie_home::{DeviceIdentity, Home, OwnerSwitch, OwnerSwitches, SupervisionStore};
use punie_text::output::number_format::format_count;

/// Returns the facts of the journal, or a note that they are not known: the check of the journal names the error.
fn journal_facts(facts: &DoctorFacts) -> Result<&JournalFacts, Finding> {
    let journal = facts.journal.as_ref();
    journal.map_err(|_| Finding::note("Not known, because the journal cannot be read"))
}

pub(super) fn check_runner(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let holder = facts.holder.as_ref();
    let holder = holder.map_err(|error| anyhow::anyhow!(error.clone()))?;
    Ok(match holder {
        None => Finding::note("No runner runs").with_command("run"),
        Some(holder) => match holder.pid {
            Some(pid) => Finding::ok(format!("A runner runs (process {pid})")),
            None => Finding::note("A process holds this home and does not say which one it is"),
        },
    })
}

pub(super) fn check_runner_version(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let own = optional_parts::version();
    let Some(in_force) = &facts.in_force else {
        return Ok(Finding::ok(format!("This program has the version {own}")));
    };
    let running = in_force.version.as_str();
    let numbers = |version: &str| -> Vec<u64> {
        let release = version.split(['-', '+']).next().unwrap_or_default();
        release
            .split('.')
            .map_while(|part| part.parse().ok())
            .collect()
    };
    if running == own {
        return Ok(Finding::ok(format!(
            "The runner has this program's version, {own}"
        )));
    }
    Ok(if numbers(own) < numbers(running) {
        Finding::problem(format!(
            "This program has the version {own}, and the runner that runs has {running}, which is newer"
        ))
        .with_mend("Use the newer program, or remove the older one from PATH (which -a punie-runner)")
    } else {
        Finding::note(format!(
            "The runner that runs has the version {running}, and this program {own}"
        ))
        .with_mend("Stop the runner and start it again")
    })
}

pub(super) fn check_other_process(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let journal = match journal_facts(facts) {
        Ok(journal) => journal,
        Err(finding) => return Ok(finding),
    };
    if journal.degraded.contains(&HealthProblem::OtherProcess) {
        return Ok(Finding::from_attention(attention::describe_other_process()));
    }
    Ok(Finding::ok("No other process with this identity is known"))
}

pub(super) fn check_canary(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let journal = match journal_facts(facts) {
        Ok(journal) => journal,
        Err(finding) => return Ok(finding),
    };
    if journal.degraded.contains(&HealthProblem::Canary) {
        let text = attention::describe_canary(&journal.canary);
        return Ok(Finding::problem(text).with_mend(
            "Mend what the error names; the runner tries again every quarter of an hour",
        ));
    }
    Ok(Finding::ok("No attempt of a runner itself failed"))
}

pub(super) fn check_paused(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let paused = OwnerSwitches::in_home(home).read_switch(OwnerSwitch::Paused);
    Ok(match paused {
        Some(_) => {
            Finding::from_attention(attention::describe_pause(paused.as_ref(), facts.now_ms))
        }
        None => Finding::ok("New calls are not paused"),
    })
}

pub(super) fn check_safe_mode(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let on = OwnerSwitches::in_home(home).read_switch(OwnerSwitch::SafeMode);
    Ok(match on {
        Some(_) => {
            Finding::from_attention(attention::describe_safe_mode(on.as_ref(), facts.now_ms))
        }
        None => Finding::ok("The runner is not in safe mode"),
    })
}

pub(super) fn check_stopped(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let stopped = SupervisionStore::in_home(home).stopped_conversations();
    let texts: Vec<String> = stopped
        .iter()
        .map(|stop| describe_stopped(stop, facts.now_ms))
        .collect();
    if texts.is_empty() {
        return Ok(Finding::ok("No conversation is stopped"));
    }
    Ok(Finding::note(join_first(&texts)).with_command("resume CONVERSATION"))
}

pub(super) fn check_approvals(_: &DoctorFacts, home: &Home) -> CheckResult {
    let interrupted =
        approvals::list_interrupted_questions(home).map_or(0, |interrupted| interrupted.len());
    let open = approvals::list_open_questions(home)?;
    let open = open.iter().filter(|question| question.input.is_none());
    // Without a runner the open ones are among the interrupted ones.
    let waiting = open.count().max(interrupted);
    if waiting == 0 {
        return Ok(Finding::ok("No calls are waiting for approval"));
    }
    let count = format_count(waiting as u64, "call");
    let text = if interrupted > 0 {
        format!("Waiting for your approval, once a runner runs: {count}")
    } else {
        format!("Waiting for your approval: {count}")
    };
    Ok(Finding::note(text).with_command("approvals"))
}

pub(super) fn check_questions(_: &DoctorFacts, home: &Home) -> CheckResult {
    let open = approvals::list_open_questions(home)?;
    let questions = open.iter().filter(|question| question.input.is_some());
    let titles: Vec<String> = questions
        .map(|question| console::cell_text(&question.title, 60))
        .collect();
    if titles.is_empty() {
        return Ok(Finding::ok("The agent asks nothing"));
    }
    let text = format!("The agent asks you: {}", join_first(&titles));
    Ok(Finding::note(text).with_command("questions"))
}

pub(super) fn check_protected_files(_: &DoctorFacts, home: &Home) -> CheckResult {
    let notices = OwnerSwitches::in_home(home).list_notices();
    let texts: Vec<String> = notices
        .iter()
        .map(|notice| console::cell_text(&notice.text, 300))
        .collect();
    if texts.is_empty() {
        return Ok(Finding::ok(
            "No protected file was changed since you looked last",
        ));
    }
    Ok(Finding::problem(join_first(&texts)).with_command("ack"))
}

pub(super) fn check_journal(_: &DoctorFacts, home: &Home) -> CheckResult {
    let file = home.journal_file();
    let checked = JournalReader::find(&file).and_then(|reader| match reader {
        Some(reader) => reader.check_integrity(&file).map(|()| true),
        None => Ok(false),
    });
    Ok(match checked {
        Ok(true) => Finding::ok("The journal is sound"),
        Ok(false) => Finding::ok("There is no journal yet"),
        Err(error) => Finding::problem(format!("The journal cannot be used: {error}")).with_mend(
            "Start the runner: it sets a damaged journal aside and carries over what can be read. For a newer journal, \
             use the newer program",
        ),
    })
}

pub(super) fn check_journal_repair(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let losses = OwnerSwitches::in_home(home).list_journal_notices();
    let texts: Vec<String> = losses
        .iter()
        .map(|loss| console::cell_text(&loss.text, 600))
        .collect();
    if !texts.is_empty() {
        return Ok(Finding::problem(join_first(&texts)).with_command("ack"));
    }
    let journal = match journal_facts(facts) {
        Ok(journal) => journal,
        Err(finding) => return Ok(finding),
    };
    let Some(damage) = &journal.salvage else {
        return Ok(Finding::ok("The journal needed no repair"));
    };
    let lost = damage
        .lost
        .map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
    Ok(Finding::note(format!(
        "The journal was damaged and is kept as {}: {} requests were carried over, {lost} could not be read",
        damage.file, damage.kept
    ))
    .with_mend("Check the disk; remove the old file once you do not need it"))
}

pub(super) fn check_undelivered(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let journal = match journal_facts(facts) {
        Ok(journal) => journal,
        Err(finding) => return Ok(finding),
    };
    let counts = journal.counts;
    let elsewhere: u32 = journal
        .other_backends
        .iter()
        .map(|other| other.requests + other.results)
        .sum();
    let texts: Vec<String> = [
        (counts.outbox > 0 && facts.runner().is_none()).then(|| {
            format!(
                "{} for the backend until a runner runs",
                count_waiting(counts.outbox, "answer")
            )
        }),
        (elsewhere > 0).then(|| {
            format!(
                "{} for another backend",
                count_waiting(elsewhere, "request")
            )
        }),
        (counts.undeliverable > 0).then(|| {
            let answers = format_count(u64::from(counts.undeliverable), "answer");
            format!("the backend will never take {answers}")
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if texts.is_empty() {
        return Ok(Finding::ok("No answer waits or was refused"));
    }
    Ok(
        Finding::note(join_first(&texts)).with_command(if counts.undeliverable > 0 {
            "history --failed"
        } else {
            "status -v"
        }),
    )
}

fn count_waiting(count: u32, word: &str) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    format!("{} {verb}", format_count(u64::from(count), word))
}

pub(super) fn check_audit(facts: &DoctorFacts, home: &Home) -> CheckResult {
    // A damaged identity is another check's matter; without its key the signature is not checked.
    let identity = DeviceIdentity::find(home).ok().flatten();
    let key = identity.as_ref().map(DeviceIdentity::public_key_base64);
    let report = audit::verify_chain(&audit_paths(home), &[], key)
        .context("the audit log cannot be read")?;
    if let Some(fault) = &report.fault {
        return Ok(
            Finding::problem(format!("The audit log is not sound: {}", fault.text))
                .with_command("audit verify"),
        );
    }
    let is_behind = facts
        .journal
        .as_ref()
        .is_ok_and(|journal| journal.degraded.contains(&HealthProblem::Audit));
    Ok(if is_behind {
        Finding::from_attention(attention::describe_audit())
    } else {
        Finding::ok(format!(
            "The audit log is sound: {}",
            format_count(report.rows, "row")
        ))
    })
}
