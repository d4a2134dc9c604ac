//! `doctor`: checks everything that a runner needs, and says what to do. Works without a runner, without a network and
//! with a damaged home.

mod backend_checks;
mod check_table;
mod config_checks;
mod doctor_facts;
mod finding;
mod home_checks;
mod program_checks;
mod sandbox_checks;
mod state_checks;
mod token_checks;

use clap::Args;
use serde::Serialize;

use super::console;
use super::context::CliContext;
use super::exit::Exit;
use check_table::CHECKS;
use doctor_facts::DoctorFacts;
use finding::{Finding, FindingLevel};

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Mend what is safe: file modes, missing folders, what ended processes left. Deletes none of your data
    #[arg(long)]
    fix: bool,
    /// Also list the checks that passed
    #[arg(long, short)]
    verbose: bool,
}

/// The findings, as `--json` shows them.
#[derive(Serialize)]
struct DoctorReport {
    checks: Vec<ReportedFinding>,
    /// What `--fix` did.
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<Vec<String>>,
}

#[derive(Serialize)]
struct ReportedFinding {
    id: &'static str,
    level: FindingLevel,
    found: String,
    mend: Option<String>,
}

/// Returns the id of each check, and what it finds.
pub fn describe_checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHECKS.iter().map(|check| (check.id, check.finds))
}

/// Runs all checks. Exits with 0 if there is no problem, else with 1.
pub(super) fn run_doctor(args: &DoctorArgs, context: &CliContext) -> Exit {
    let mut checks = run_checks(context);
    let fixed = args.fix.then(|| apply_fixes(context, &checks));
    if fixed.as_ref().is_some_and(|fixed| !fixed.is_empty()) {
        checks = run_checks(context);
    }
    let has_problem = checks
        .iter()
        .any(|check| check.level == FindingLevel::Problem);
    let report = DoctorReport { checks, fixed };
    if context.is_json() {
        console::print_json(&report);
    } else {
        show_report(&report, args.verbose);
    }
    if has_problem {
        Exit::Failed
    } else {
        Exit::Done
    }
}

fn run_checks(context: &CliContext) -> Vec<ReportedFinding> {
    let facts = match DoctorFacts::collect(context) {
        Ok(facts) => facts,
        // Without flags and variables nothing else is known.
        Err(fault) => {
            let id = config_checks::check_of_fault(&fault);
            return vec![ReportedFinding::new(
                id,
                config_checks::describe_fault(&fault),
            )];
        }
    };
    let findings = CHECKS
        .iter()
        .filter_map(|check| Some((check.id, check.run(&facts)?)));
    findings
        .map(|(id, finding)| ReportedFinding::new(id, finding))
        .collect()
}

/// Mends what was found, as far as that is safe. Returns a line for each thing that was done or failed.
fn apply_fixes(context: &CliContext, checks: &[ReportedFinding]) -> Vec<String> {
    let Some(home) = doctor_facts::find_configured_home(context) else {
        return Vec::new();
    };
    let is_found = |id: &str| {
        let mut found = checks.iter();
        found.any(|check| check.id == id && check.level != FindingLevel::Ok)
    };
    let fixes = CHECKS.iter().filter(|check| is_found(check.id));
    fixes
        .filter_map(|check| check.fix)
        .flat_map(|fix| fix(&home))
        .collect()
}

fn show_report(report: &DoctorReport, with_passed: bool) {
    for line in report.fixed.iter().flatten() {
        console::print_line(&format!("--fix: {}", console::cell_text(line, usize::MAX)));
    }
    let of_level = |level: FindingLevel| {
        let checks = report.checks.iter();
        checks.filter(move |check| check.level == level)
    };
    for (level, label) in [
        (FindingLevel::Problem, "Problem"),
        (FindingLevel::Note, "Note"),
    ] {
        for check in of_level(level) {
            console::print_line(&format!("{label}: {}", check.id));
            let found = console::cell_text(&check.found, usize::MAX);
            console::print_paragraph("  ", &found);
            if let Some(mend) = &check.mend {
                let mend = console::cell_text(mend, usize::MAX);
                console::print_paragraph("  ", &format!("To do: {mend}"));
            }
        }
    }
    if with_passed {
        console::print_line("Passed:");
        for check in of_level(FindingLevel::Ok) {
            let found = console::cell_text(&check.found, usize::MAX);
            console::print_line(&format!("  {:<16}  {found}", check.id));
        }
    }
    let passed = of_level(FindingLevel::Ok).count();
    let hint = if with_passed { "" } else { " (-v lists them)" };
    console::print_line(&format!(
        "{} passed{hint}.",
        punie_text::output::number_format::format_count(passed as u64, "check")
    ));
}

impl ReportedFinding {
    fn new(id: &'static str, finding: Finding) -> Self {
        let Finding { level, found, mend } = finding;
        Self {
            id,
            level,
            found,
            mend,
        }
    }
}
