//! The check of this home's callers' tokens: which of them may approve calls.

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding};
use crate::cli::caller_client::CallerClient;
use crate::cli::context::command_runtime;
use crate::cli::wiring;
use crate::config::BackendKind;
use punie_home::{Home, TokenName, command_to_type};

pub(super) fn check_approving_tokens(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let config = &facts.config;
    let is_convex = config.backend.url.is_some() && config.backend.kind == BackendKind::Convex;
    if !is_convex || facts.probe.answer.is_err() {
        return Ok(Finding::ok("No backend was asked about callers' tokens"));
    }
    let tokens = wiring::backend_tokens(config, home)?;
    let may_approve = |name| -> anyhow::Result<bool> {
        let Some(token) = tokens.read(name)? else {
            return Ok(false);
        };
        let caller = CallerClient::new(wiring::http_functions(config)?, token);
        Ok(command_runtime()?.block_on(caller.may_approve())?)
    };
    let path = |name| tokens.path(name).display().to_string();
    if may_approve(TokenName::Caller)? {
        let text = format!(
            "The token in {} may approve calls: an agent that has it can approve its own",
            path(TokenName::Caller)
        );
        let mend = format!(
            "Give the agent a token that may ask: {}, or with a hosted backend: npx convex run callers:mint \
             '{{\"name\": \"my agent\"}}'",
            command_to_type("operator callers mint \"my agent\"")
        );
        return Ok(Finding::note(text).with_mend(mend));
    }
    Ok(Finding::ok(if may_approve(TokenName::Approver)? {
        format!(
            "Of this home's tokens, the one in {} may approve calls",
            path(TokenName::Approver)
        )
    } else {
        "No token of this home may approve calls".to_owned()
    }))
}
