//! `operator`: the administration of a backend: caller tokens, the pairing code, revoked devices. It calls the
//! functions that `npx convex run` calls, with the admin key that an embedded backend stored in this home.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::{moments, print, wiring};
use crate::backend::FunctionKind;
use crate::config::WorkspaceRule;
use crate::home::TokenName;
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct OperatorArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Who may ask devices for tools, and who may approve: mint a token, list the callers, revoke them
    #[command(subcommand)]
    Callers(Callers),
    /// The code that a new device must show: renew it, or close the backend to new devices
    #[command(subcommand)]
    Pairing(Pairing),
    /// Withdraw a device for good
    #[command(subcommand)]
    Devices(Devices),
}

#[derive(Debug, Subcommand)]
enum Callers {
    /// Make a token and print it, this once
    Mint {
        /// What the caller is called here
        name: String,
        /// What the token is good for: asking for tools, approving what devices ask about, or both
        #[arg(long, value_enum, default_value_t = May::Both)]
        may: May,
    },
    /// The callers by name, without their tokens
    List,
    /// Withdraw every token of this name
    Revoke {
        /// The caller
        name: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum May {
    Ask,
    Approve,
    Both,
}

#[derive(Debug, Subcommand)]
enum Pairing {
    /// Make a new code; the old one is good no more
    Renew,
    /// Let no new device in until the next `renew`
    Close,
}

#[derive(Debug, Subcommand)]
enum Devices {
    /// End the session of a device; its key opens no other
    Revoke {
        /// The device
        id: String,
    },
}

impl What {
    /// Returns the function and its arguments.
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Callers(Callers::Mint { name, may }) => {
                let may = match may {
                    May::Ask => "ask",
                    May::Approve => "approve",
                    May::Both => "both",
                };
                ("callers:mint", json!({ "name": name, "may": may }))
            }
            Self::Callers(Callers::List) => ("callers:list", json!({})),
            Self::Callers(Callers::Revoke { name }) => ("callers:revoke", json!({ "name": name })),
            Self::Pairing(Pairing::Renew) => ("pairing:renew", json!({})),
            Self::Pairing(Pairing::Close) => ("pairing:close", json!({})),
            Self::Devices(Devices::Revoke { id }) => ("devices:revoke", json!({ "deviceId": id })),
        }
    }

    /// Prints the result for people.
    fn show(&self, value: &Value) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match self {
            Self::Callers(Callers::Mint { .. }) => print::line(&text("callerToken")),
            Self::Callers(Callers::List) => list(value),
            Self::Callers(Callers::Revoke { name }) => {
                let revoked = value.get("revoked").and_then(Value::as_f64).unwrap_or(0.0);
                print::line(&format!("Tokens of {} withdrawn: {revoked}.", print::cell(name, 80)));
            }
            Self::Pairing(Pairing::Renew) => print::line(&text("pairingCode")),
            Self::Pairing(Pairing::Close) => {
                print::line("No new device is let in until `punie-runner operator pairing renew`.");
            }
            Self::Devices(Devices::Revoke { id }) => print::line(&format!("{id} is withdrawn.")),
        }
    }

    /// Returns whether there was nothing to revoke.
    fn found_nothing(&self, value: &Value) -> bool {
        let revoked = value.get("revoked");
        match self {
            Self::Callers(Callers::Revoke { .. }) => revoked.and_then(Value::as_f64) == Some(0.0),
            Self::Devices(Devices::Revoke { .. }) => revoked.and_then(Value::as_bool) == Some(false),
            _ => false,
        }
    }
}

/// Calls one of the operator's functions.
pub fn operator(args: &OperatorArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let tokens = wiring::tokens(&config, &home)?;
    let key = tokens.read(TokenName::Admin)?.ok_or_else(|| {
        let path = tokens.path(TokenName::Admin);
        let text = format!(
            "no admin key: `punie-runner backend` and `dev` put theirs into {}; a hosted backend's operator uses \
             `npx convex run`, or puts the deployment's key there (mode 0600)",
            path.display()
        );
        Stop::with(Exit::Refused, text)
    })?;
    let functions = wiring::functions(&config)?.with_admin_key(key);
    let (path, arguments) = args.what.call();
    let calling = functions.call(FunctionKind::Any, path, &arguments, Duration::ZERO);
    let value = runtime()?.block_on(calling)?;
    if args.what.found_nothing(&value) {
        return Err(Stop::with(Exit::Failed, "there is nothing of this name to withdraw"));
    }
    if context.json() {
        print::json(&value);
    } else {
        args.what.show(&value);
    }
    Ok(Exit::Done)
}

fn list(callers: &Value) {
    let now_ms = Clock::system().now_ms();
    let row = |caller: &Value| {
        let name = caller.get("name").and_then(Value::as_str).unwrap_or_default();
        let may = match caller.get("may").and_then(Value::as_str) {
            Some("ask") => "ask",
            Some("approve") => "approve",
            _ => "ask, approve",
        };
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let minted = caller.get("mintedAtMs").and_then(Value::as_f64).unwrap_or_default() as i64;
        vec![print::cell(name, 40), may.to_owned(), moments::ago(minted, now_ms)]
    };
    let rows: Vec<_> = callers.as_array().into_iter().flatten().map(row).collect();
    print::table(&["CALLER", "MAY", "MINTED"], &rows);
}
