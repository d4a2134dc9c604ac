//! Checks of the backend: its address, the way there, the clock, and what it thinks of this device.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding};
use crate::cli::status::attention;
use crate::cli::status::runner_status::BackendStatus;
use crate::cli::wiring::{self, ProbeFailure};
use crate::config::BackendKind;
use punie_engine::backend::BackendError;
use punie_engine::runner::SKEW_MS;
use punie_home::{Home, TokenName, command_to_type};

/// The keyword of a backend that refuses this device.
const REFUSED: &str = "refused";

pub(super) fn check_address(facts: &DoctorFacts) -> CheckResult {
    Ok(match &facts.config.backend.url {
        Some(url) => Finding::ok(format!("The backend is {url}")),
        None => Finding::problem("No backend is set (url under [backend] in config.toml)")
            .with_mend(format!(
                "{}; or, for one of your own: {}",
                command_to_type("--backend-url URL pair CODE"),
                command_to_type("dev")
            )),
    })
}

pub(super) fn check_proxy(facts: &DoctorFacts) -> CheckResult {
    let mend = "Correct proxy under [backend] in config.toml, or the variables HTTPS_PROXY, HTTP_PROXY and ALL_PROXY";
    Ok(match (&facts.proxy, &facts.proxy_answer) {
        (Err(error), _) => {
            Finding::problem(format!("The proxy cannot be used: {error}")).with_mend(mend)
        }
        (Ok(Some((host, port))), Some(Err(_))) => Finding::problem(format!(
            "The proxy {host}:{port}, through which the backend is reached, does not answer"
        ))
        .with_mend(mend),
        (Ok(Some((host, port))), _) => Finding::ok(format!(
            "The backend is reached through the proxy {host}:{port}"
        )),
        (Ok(None), _) => Finding::ok("The backend is reached without a proxy"),
    })
}

/// Returns the state of the backend and its address; `None` if there is no backend.
fn known_backend(facts: &DoctorFacts) -> anyhow::Result<Option<(&BackendStatus, &str)>> {
    if facts.config.backend.url.is_none() {
        return Ok(None);
    }
    let backend = facts.backend.as_ref();
    let backend = backend.map_err(|error| anyhow::anyhow!(error.clone()))?;
    Ok(backend.url.as_deref().map(|url| (backend, url)))
}

pub(super) fn check_backend(facts: &DoctorFacts) -> CheckResult {
    if facts.home.is_none() {
        return Ok(describe_probe(facts));
    }
    let Some((backend, url)) = known_backend(facts)? else {
        return Ok(Finding::ok("There is no backend to reach"));
    };
    let mend = format!("curl -sS {url}/version");
    Ok(match backend.trouble.as_deref() {
        _ if tls_fault(facts).is_some() => Finding::note(format!(
            "{url} was not asked, because there is no secure connection to it"
        )),
        Some(REFUSED) => Finding::ok(format!("{url} answers")),
        Some(trouble) => {
            let text = attention::describe_trouble(trouble);
            Finding::problem(format!("The backend {url} {text}{}", probe_detail(facts)))
                .with_mend(mend)
        }
        None if backend.reachable => Finding::ok(format!("{url} answers")),
        None => describe_probe(facts).with_mend(mend),
    })
}

fn describe_probe(facts: &DoctorFacts) -> Finding {
    match &facts.probe.answer {
        Ok(()) => Finding::ok("The backend answers"),
        Err(ProbeFailure::NoAddress) => Finding::ok("There is no backend to reach"),
        Err(failure) => Finding::problem(format!("The backend does not answer: {failure}"))
            .with_mend("Check the address and the network"),
    }
}

/// Returns the cause that the probe met, as the end of a sentence.
fn probe_detail(facts: &DoctorFacts) -> String {
    match &facts.probe.answer {
        Err(ProbeFailure::Backend(BackendError::Unreachable { cause, .. })) => {
            format!(" ({cause})")
        }
        _ => String::new(),
    }
}

fn tls_fault(facts: &DoctorFacts) -> Option<&str> {
    match &facts.probe.answer {
        Err(ProbeFailure::Backend(BackendError::TlsFailed { cause, .. })) => Some(cause),
        _ => None,
    }
}

pub(super) fn check_tls(facts: &DoctorFacts) -> CheckResult {
    let Some(url) = &facts.config.backend.url else {
        return Ok(Finding::ok("There is no backend to reach"));
    };
    Ok(match tls_fault(facts) {
        Some(cause) => Finding::problem(format!("No secure connection to {url}: {cause}")).with_mend(
            "Check the address and its port; for a certificate of your own, add its authority to the system's",
        ),
        None if facts.probe.answer.is_err() => Finding::ok("Nothing is wrong with TLS as far as it got"),
        None if matches!(url.scheme(), "http" | "ws") => Finding::ok("The backend needs no TLS"),
        None => Finding::ok("The backend's certificate is trusted"),
    })
}

pub(super) fn check_clock(facts: &DoctorFacts) -> CheckResult {
    let recorded = facts
        .journal
        .as_ref()
        .ok()
        .and_then(|journal| journal.clock_skew_ms);
    let skew = facts.probe.clock_offset_ms.or(recorded);
    Ok(match skew {
        None => Finding::ok("The backend's clock is not known"),
        Some(skew) if skew.unsigned_abs() > SKEW_MS => {
            let item = attention::describe_clock_skew(skew);
            Finding::from_attention(item).with_mend("sudo timedatectl set-ntp true")
        }
        Some(_) => Finding::ok("The clock agrees with the backend's"),
    })
}

pub(super) fn check_paired(facts: &DoctorFacts, _: &Home) -> CheckResult {
    let Some((backend, url)) = known_backend(facts)? else {
        return Ok(Finding::ok("There is no backend to be paired with"));
    };
    if backend.trouble.as_deref() == Some(REFUSED)
        && let Some(item) = attention::describe_backend(backend)
    {
        return Ok(Finding::from_attention(item));
    }
    Ok(match backend.paired {
        Some(false) if !backend.embedded => {
            Finding::problem(format!("This device is not paired with {url}"))
                .with_command("pair CODE")
        }
        _ => Finding::ok(format!("{url} knows this device, or needs no pairing")),
    })
}

pub(super) fn check_session(facts: &DoctorFacts, home: &Home) -> CheckResult {
    if facts.config.backend.url.is_none() {
        return Ok(Finding::ok("There is no backend to have a session with"));
    }
    let tokens = wiring::backend_tokens(&facts.config, home)?;
    let name = match facts.config.backend.kind {
        BackendKind::Convex => TokenName::Device,
        BackendKind::WebSocket => TokenName::Backend,
    };
    Ok(match tokens.read(name) {
        Ok(Some(_)) => Finding::ok("There is a session's token"),
        Ok(None) if name == TokenName::Device => {
            Finding::note("There is no session with this backend yet; a runner opens one")
                .with_command("run")
        }
        Ok(None) => Finding::note(format!(
            "There is no token for the backend; one that needs it refuses this device. Its file would be {}",
            tokens.path(name).display()
        )),
        Err(error) => Finding::from_home_error(&error),
    })
}
