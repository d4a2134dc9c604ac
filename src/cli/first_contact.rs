//! First contact: the question to a person who starts a runner that knows no backend, and the next step after each
//! step.

use std::io::{self, IsTerminal as _};

use super::context::CliContext;
use super::exit::{CommandError, Exit, describe_error};
use super::runner_screen::describe_workspaces;
use super::{console, dev, pair, service};
use crate::config::{ValueOrigin, WorkspaceRule};
use punie_engine::backend::BackendError;
use punie_engine::runner::RunnerError;
use punie_home::{change_hint_flags, command_to_type};

/// The next command after a person answered.
pub(super) enum FirstStep {
    /// The command was run.
    Done(Exit),
    /// Go on as a runner: the device is paired now.
    Run,
}

/// Asks a person on a terminal what to do if no backend is configured. `None` if there is one, or nobody to ask.
pub(super) fn ask_first_step(context: &CliContext) -> anyhow::Result<Option<FirstStep>> {
    let can_ask = !context.is_json() && console::is_terminal() && io::stdin().is_terminal();
    if !can_ask || context.has_backend() {
        return Ok(None);
    }
    console::print_stderr(&format!(
        "This device has no backend yet. Choose:
  1  try it here, without an account, until Ctrl-C (the same as `{}`)
  2  pair with a backend; you need its address and a pairing code
  q  quit
Once paired, `{}` keeps it running in the background.
",
        command_to_type("dev"),
        command_to_type("service install")
    ));
    loop {
        let Some(answer) = console::ask_line("[1/2/q] ")? else {
            return Ok(Some(FirstStep::Done(Exit::Done)));
        };
        match answer.as_str() {
            "1" => {
                return dev::run_dev(&dev::DevArgs::default(), context)
                    .map(|exit| Some(FirstStep::Done(exit)));
            }
            "2" => return pair_with_answers(context).map(Some),
            "q" | "Q" => return Ok(Some(FirstStep::Done(Exit::Done))),
            _ => {}
        }
    }
}

fn pair_with_answers(context: &CliContext) -> anyhow::Result<FirstStep> {
    let (Some(url), Some(code)) = (
        console::ask_line("The backend's address: ")?,
        console::ask_line("The pairing code: ")?,
    ) else {
        return Ok(FirstStep::Done(Exit::Done));
    };
    change_hint_flags(|flags| flags.backend_url = Some(url.clone()));
    let pairing = context.with_flags(|flags| flags.backend_url = Some(url));
    pair::run_pair(&pair::PairArgs::with_code(code), &pairing)?;
    offer_service(context)
}

/// Offers to install the service of this home, if its manager can be reached.
fn offer_service(context: &CliContext) -> anyhow::Result<FirstStep> {
    // An error is that of the run that follows, too.
    let Ok(config) = context.try_config(WorkspaceRule::OrCurrentDir) else {
        return Ok(FirstStep::Run);
    };
    let mut installing = context.with_flags(|_| {});
    if config.value_origin("workspaces.paths") == Some(&ValueOrigin::CurrentDir) {
        // A service has no current folder.
        change_hint_flags(|flags| flags.workspaces.clone_from(&config.workspaces));
        installing = context.with_flags(|flags| flags.workspaces.clone_from(&config.workspaces));
    }
    if service::has_manager(&config, &installing) {
        let wants_service = console::ask_yes_no(&format!(
            "Install it as a service, which works in {} in the background from now on?",
            describe_workspaces(&config.workspaces, context.environment())
        ))?;
        if wants_service {
            match service::install_service(false, false, &installing) {
                Ok(exit) => return Ok(FirstStep::Done(exit)),
                Err(error) => console::print_error(&describe_error(&error)),
            }
        }
    }
    console::print_line(&format!(
        "It runs here now, until Ctrl-C. To keep it running in the background: {}",
        command_to_type("service install")
    ));
    Ok(FirstStep::Run)
}

/// Explains to the owner that this device is not paired, or that the code is wrong. Leaves other errors as they are.
pub(super) fn explain_pairing(
    error: anyhow::Error,
    url: Option<&str>,
    has_code: bool,
) -> anyhow::Error {
    let refusal = match error.downcast_ref::<RunnerError>() {
        Some(RunnerError::Barred(cause) | RunnerError::Backend(cause)) => Some(cause),
        _ => error.downcast_ref::<BackendError>(),
    };
    let code = refusal.and_then(BackendError::refusal_code);
    let backend = url.unwrap_or("the backend");
    if code == Some("DEVICE_UNAUTHORIZED") && has_code {
        let text = format!(
            "{backend} has revoked this device. To pair it as a new one, run: {}",
            command_to_type("pair --new-device CODE")
        );
        return CommandError::with_exit(Exit::Refused, text);
    }
    if code != Some("PAIRING_REQUIRED") {
        return error;
    }
    let pair = command_to_type("pair CODE");
    let text = if has_code {
        format!(
            "{backend} does not accept this pairing code: it is wrong, was used or has ended, or pairing is closed \
             there. Get a code there, then run: {pair}"
        )
    } else {
        format!("This device is not paired with {backend}. Get a code there, then run: {pair}")
    };
    CommandError::with_exit(Exit::Refused, text)
}
