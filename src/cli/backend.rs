//! `backend`: the embedded backend without a runner.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::context::{CliContext, command_runtime};
use super::dev::{ReadyMessage, approver_row, backend_ready_message, send_hint};
use super::exit::{self, Exit};
use super::{console, embedded_tokens, process_signals, runner_screen};
use crate::config::WorkspaceRule;
use punie_dev_backend::{
    BackendClock, DevBackend, DevBackendOptions, FaultInjector, MAX_CONNECTIONS,
};
use punie_engine::runner::ShutdownSignal;
use punie_home::{EmbeddedBackendAddress, TokenName, command_to_type};

#[derive(Debug, Args)]
pub struct BackendArgs {
    /// The port on 127.0.0.1; 0: the one before, or any free one
    #[arg(long, default_value_t = 0, value_name = "N")]
    port: u16,
    /// The database file [default: dev-backend.sqlite3 in the home]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The most connections; above it the one that was idle longest is closed
    #[arg(
        long,
        default_value_t = MAX_CONNECTIONS,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..)
    )]
    max_connections: usize,
    /// Inject faults, for testing agents: a file or a text, one fault a line: TARGET [xN] FAULT [VALUE]
    ///
    /// TARGET is a function (events:appendResult), a route (/version) or *; xN is how often, else always. FAULT is one
    /// of unheard, drop, status CODE [code=WORD] [retry-after=VALUE], redirect URL, html, cut BYTES, half, slow
    /// BYTES_A_SECOND, oversize BYTES, date SECONDS, reorder, duplicate, rewind, args JSON. A mutation over a socket knows
    /// unheard, drop and status.
    #[arg(long, value_name = "FILE|TEXT")]
    faults: Option<String>,
}

/// Serves until stopped.
pub fn run_backend(args: &BackendArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let runtime = command_runtime()?;
    runtime.block_on(async {
        let stop = ShutdownSignal::new();
        let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
        let options = DevBackendOptions {
            db: args.db.clone().unwrap_or_else(|| home.dev_backend_file()),
            port: EmbeddedBackendAddress::choose_port(&home, args.port),
            clock: BackendClock::from_system(),
            holds: true,
            max_connections: args.max_connections,
            faults: args.faults.as_deref().map(load_faults).transpose()?,
        };
        let backend = DevBackend::start_server(options).await?;
        let tokens = embedded_tokens::prepare_tokens(&backend, &home)?;
        let _address = EmbeddedBackendAddress::publish(&home, backend.listen_url())?;
        let ready = backend_ready_message(&backend, &tokens, &config)?;
        if context.is_json() {
            console::print_json(&ready);
        } else {
            let token_file = |name| tokens.path(name).display().to_string();
            let code = ready.pairing_code.as_deref();
            let code = code.unwrap_or("none: no new device is let in");
            let stored = |name| format!("in {}", token_file(name));
            console::print_row("Backend", &ready.url);
            console::print_row("Pairing code", code);
            console::print_row("Caller token", &stored(TokenName::Caller));
            let approver = token_file(TokenName::Approver);
            console::print_row("Approver", &approver_row(&approver));
            console::print_row("Admin key", &stored(TokenName::Admin));
            print_next_steps(&ready, context);
        }
        backend.serve_until(stop.wait_for_stop_request()).await;
        anyhow::Ok(())
    })?;
    runner_screen::print_stopped(context.is_json());
    Ok(Exit::Done)
}

/// Prints the commands for a device and for a caller, and how to stop.
fn print_next_steps(ready: &ReadyMessage, context: &CliContext) {
    if let Some(code) = &ready.pairing_code {
        console::print_line("\nTo pair a device with it, type there:");
        console::print_line(&format!(
            "  punie-runner --backend-url {} pair {code}\n  punie-runner",
            ready.url
        ));
        let renew = command_to_type("operator pairing renew");
        console::print_paragraph(
            "",
            &format!(
                "A code is for one device within 15 minutes, unless more was said. `{renew}` makes another."
            ),
        );
    }
    console::print_line("To send the device a request, type here:");
    console::print_line(&format!("  {}", send_hint(context, &ready.url)));
    console::print_line("Ctrl-C stops the backend.");
}

/// Parses the faults in this file, or in this text.
fn load_faults(given: &str) -> anyhow::Result<FaultInjector> {
    let script = match std::fs::read_to_string(given) {
        Ok(script) => script,
        // A fault contains at least one space.
        Err(_) if given.contains(char::is_whitespace) => given.to_owned(),
        Err(cause) => {
            return Err(exit::CommandError::with_exit(
                Exit::Usage,
                format!("{given}: {cause}"),
            ));
        }
    };
    FaultInjector::parse_script(&script)
        .map_err(|bad| exit::CommandError::with_exit(Exit::Usage, bad.to_string()))
}
