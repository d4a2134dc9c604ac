//! Checks of the confinement of commands: its level, user namespaces, the network.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding};
use crate::cli::wiring::{ConfinementInForce, describe_confinement};
use punie_home::Home;
use punie_sandbox::EscapeAttempt;

/// The kernel's settings that forbid user namespaces, each with the value that does.
const NAMESPACE_SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user.max_user_namespaces=15000",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// Returns the confinement, or a note that it is not known: a home that cannot be used makes the self-test fail.
fn known_confinement(facts: &DoctorFacts) -> Result<&ConfinementInForce, Finding> {
    facts.confinement.as_ref().map_err(|error| {
        Finding::note(format!("Not measured: {error}"))
            .with_mend("Mend the home first, see the checks `home-access` and `home-folders`")
    })
}

/// Returns the gaps of a partial level.
fn list_gaps(confinement: &ConfinementInForce) -> Vec<EscapeAttempt> {
    let openings = &confinement.openings;
    let is_open = |escape: &EscapeAttempt| {
        let mut levels = openings.iter().filter(|opening| opening.setting == "level");
        levels.any(|opening| opening.value == escape.as_str())
    };
    EscapeAttempt::ALL.into_iter().filter(is_open).collect()
}

pub(super) fn check_confinement(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let confinement = match known_confinement(facts) {
        Ok(confinement) => confinement,
        Err(finding) => return Ok(finding),
    };
    let level = &confinement.level;
    let gaps: Vec<&str> = list_gaps(confinement)
        .into_iter()
        .map(EscapeAttempt::describe_risk)
        .collect();
    let why = if gaps.is_empty() {
        String::new()
    } else {
        format!(": {}", gaps.join("; "))
    };
    let required = facts.setting_value("sandbox.require").unwrap_or_default();
    if !confinement.can_execute {
        return Ok(Finding::problem(format!(
            "Commands are refused: the confinement is {level} here, and {required} is required{why}"
        ))
        .with_mend("Set require = \"partial\" under [sandbox] in config.toml, or see docs/safety-internals.md"));
    }
    Ok(match level.as_str() {
        "full" => Finding::ok("Commands are confined in full"),
        "none" => Finding::note("Commands are not confined: they can do all that you can")
            .with_mend("Set require = \"full\" and confine = true under [sandbox] in config.toml"),
        _ => Finding::note(format!("Commands are confined in part{why}"))
            .with_mend("See docs/safety-internals.md, \"Levels\""),
    })
}

pub(super) fn check_namespaces(facts: &DoctorFacts, _: &Home) -> CheckResult {
    if !cfg!(target_os = "linux") {
        return Ok(Finding::ok("This system confines commands in another way"));
    }
    let confinement = match known_confinement(facts) {
        Ok(confinement) => confinement,
        Err(finding) => return Ok(finding),
    };
    let gaps = list_gaps(confinement);
    if confinement.level == "none" || !gaps.into_iter().any(EscapeAttempt::needs_namespaces) {
        return Ok(Finding::ok(
            "Nothing is missing for want of user namespaces",
        ));
    }
    Ok(describe_missing_namespaces(|path| {
        std::fs::read_to_string(path).ok()
    }))
}

/// Describes why there are no user namespaces, by the kernel's settings.
fn describe_missing_namespaces(read: impl Fn(&str) -> Option<String>) -> Finding {
    let is_set = |(path, value, _): &&(&str, &str, &str)| {
        read(path).is_some_and(|text| text.trim() == *value)
    };
    match NAMESPACE_SWITCHES.iter().find(is_set) {
        Some((path, value, remedy)) => Finding::note(format!(
            "This system makes no user namespaces for you ({path} is {value}), so commands see more than they need"
        ))
        .with_mend(format!("sudo sysctl -w {remedy}")),
        None => Finding::note(
            "User namespaces cannot be used here, perhaps because of a container or a security module, so commands see \
             more than they need",
        )
        .with_mend("Allow unprivileged user namespaces for this program or container"),
    }
}

#[cfg(target_os = "linux")]
pub(super) fn check_processes(facts: &DoctorFacts, _: &Home) -> CheckResult {
    use punie_sandbox::process_limit::{UncountedReason, uncounted_reason};
    let confinement = match known_confinement(facts) {
        Ok(confinement) => confinement,
        Err(finding) => return Ok(finding),
    };
    if confinement.limits_processes {
        return Ok(Finding::ok(
            "Each command has a limit of its own, 1,024 processes and threads",
        ));
    }
    let (why, mend) = match uncounted_reason() {
        Some(UncountedReason::Root) => (
            "the kernel does not limit those of root",
            "Run the runner as an ordinary user",
        ),
        Some(UncountedReason::OldKernel) => (
            "before Linux 5.14 the kernel counts all of yours together",
            "Update Linux, or run the runner as a service: `punie-runner service install`",
        ),
        None => (
            "they are counted in user namespaces, which cannot be used here",
            "See the check `namespaces`",
        ),
    };
    Ok(Finding::note(format!(
        "A command has no limit of its own on processes and threads, unless its control group sets one (`status` says so \
         under Limits): {why}"
    ))
    .with_mend(mend))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check_processes(_: &DoctorFacts, _: &Home) -> CheckResult {
    Ok(Finding::ok("This system has no limit for each command"))
}

pub(super) fn check_network(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let confinement = match known_confinement(facts) {
        Ok(confinement) => confinement,
        Err(finding) => return Ok(finding),
    };
    let in_force = confinement.network.as_str();
    let wanted = facts.setting_value("sandbox.network").unwrap_or_default();
    let wanted = wanted.trim_matches('"');
    let shown = describe_confinement(&confinement.level, in_force);
    if in_force == "full" {
        let text = "Commands reach the internet, your network and all ports of this machine without being asked about";
        return Ok(
            Finding::note(text).with_mend("Set network = \"ask\" under [sandbox] in config.toml")
        );
    }
    if in_force != wanted {
        return Ok(Finding::note(format!(
            "network = \"{wanted}\" is configured, and commands have \"{in_force}\", because this system makes no network \
             namespaces for them"
        ))
        .with_mend("See the check `namespaces`, or set network = \"full\" under [sandbox] in config.toml"));
    }
    Ok(Finding::ok(format!("Commands: {shown}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_namespaces_is_named_with_its_remedy() {
        for (path, value, remedy) in NAMESPACE_SWITCHES {
            let found =
                describe_missing_namespaces(|asked| (asked == path).then(|| format!("{value}\n")));
            assert!(found.found.contains(path), "{found:?}");
            assert_eq!(found.mend, Some(format!("sudo sysctl -w {remedy}")));
        }
        let unknown = describe_missing_namespaces(|_| None);
        assert!(unknown.found.contains("container"), "{unknown:?}");
    }
}
