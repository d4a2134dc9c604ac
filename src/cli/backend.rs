//! `backend`: the embedded backend alone.

use std::path::PathBuf;

use clap::Args;

use super::context::{Context, runtime};
use super::dev::{caller_token, of_backend};
use super::exit::Exit;
use super::{print, stop};
use crate::config::WorkspaceRule;
use crate::dev_backend::{Clock, DevBackend, DevBackendOptions};
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
        };
        let backend = DevBackend::start(options).await?;
        let token = caller_token(&backend, &home)?;
        let ready = of_backend(&backend, &token, &config);
        if context.json() {
            print::json(&ready);
        } else {
            let token_file = crate::home::Tokens::of(&home).path(crate::home::TokenName::Caller);
            print::line(&format!("Backend       {}", ready.url));
            print::line(&format!("Pairing code  {}", ready.pairing_code));
            print::line(&format!("Caller token  in {}", token_file.display()));
        }
        backend.serve_until(stop.requested()).await;
        anyhow::Ok(())
    })?;
    Ok(Exit::Done)
}
