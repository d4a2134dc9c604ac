//! `backend`: the embedded backend without a runner.
#![expect(clippy::disallowed_methods, reason = "it reads the script of faults that the user names")]

use std::path::PathBuf;

use clap::Args;

use super::context::{Context, runtime};
use super::dev::of_backend;
use super::exit::{self, Exit};
use super::{embedded_tokens, print, stop};
use crate::config::WorkspaceRule;
use crate::dev_backend::{Clock, DevBackend, DevBackendOptions, Faults};
use crate::home::TokenName;
use crate::runner::Stop;

#[derive(Debug, Args)]
pub struct BackendArgs {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0, value_name = "N")]
    port: u16,
    /// The database [default: dev-backend.sqlite3 in the home]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Hide the text of errors without a code, as production deployments do
    #[arg(long)]
    production_errors: bool,
    /// Answer every poll at once, as Convex does: devices then listen on a wake-up socket
    #[arg(long)]
    no_hold: bool,
    /// Misbehave as this file or text says, a fault a line: TARGET [xN] FAULT [VALUE]
    ///
    /// TARGET is a function (events:appendResult), a route (/version) or *; xN is how often, else always. FAULT is one
    /// of unheard, drop, status CODE [code=WORD] [retry-after=VALUE], redirect URL, html, cut BYTES, half, slow
    /// BYTES_A_SECOND, oversize BYTES, date SECONDS, reorder, duplicate, rewind, args JSON. A mutation over a socket knows
    /// unheard, drop and status. For testing agents.
    #[arg(long, value_name = "FILE|TEXT")]
    faults: Option<String>,
}

/// Serves until stopped.
pub fn backend(args: &BackendArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let stop = Stop::new();
        let _signals = stop::on_signals(&stop)?;
        let options = DevBackendOptions {
            db: args.db.clone().unwrap_or_else(|| home.dev_backend_file()),
            port: args.port,
            clock: Clock::system(),
            production_errors: args.production_errors,
            holds: !args.no_hold,
            faults: args.faults.as_deref().map(faults).transpose()?,
        };
        let backend = DevBackend::start(options).await?;
        let tokens = embedded_tokens::prepare(&backend, &home)?;
        let ready = of_backend(&backend, &tokens, &config)?;
        if context.json() {
            print::json(&ready);
        } else {
            let token_file = |name| tokens.path(name).display().to_string();
            print::line(&format!("Backend       {}", ready.url));
            let code = ready.pairing_code.as_deref();
            print::line(&format!("Pairing code  {}", code.unwrap_or("none: no new device is let in")));
            print::line(&format!("Caller token  in {}", token_file(TokenName::Caller)));
            print::line(&format!("Admin key     in {}", token_file(TokenName::Admin)));
        }
        backend.serve_until(stop.requested()).await;
        anyhow::Ok(())
    })?;
    Ok(Exit::Done)
}

/// Parses the faults in this file, or in this text.
fn faults(given: &str) -> anyhow::Result<Faults> {
    let script = match std::fs::read_to_string(given) {
        Ok(script) => script,
        // A fault contains at least one space.
        Err(_) if given.contains(char::is_whitespace) => given.to_owned(),
        Err(cause) => return Err(exit::Stop::with(Exit::Usage, format!("{given}: {cause}"))),
    };
    Faults::parse(&script).map_err(|bad| exit::Stop::with(Exit::Usage, bad.to_string()))
}
