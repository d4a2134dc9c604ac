//! `operator`: the administration of a backend: caller tokens, the pairing code, devices. It calls the functions that
//! `npx convex run` calls, with the admin key that an embedded backend stored in this home. Callers may list the devices.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{console, display_time, wiring};
use crate::config::Config;
use punie_engine::backend::FunctionKind;
use punie_engine::runner::Clock;
use punie_home::{Home, TokenName, command_to_type};

#[derive(Debug, Args)]
pub struct OperatorArgs {
    #[command(subcommand)]
    what: OperatorCommand,
}

#[derive(Debug, Subcommand)]
enum OperatorCommand {
    /// Manage callers, who may send requests and approve: make a token, list, revoke
    #[command(subcommand)]
    Callers(CallersCommand),
    /// Renew the pairing code, or close the backend to new devices
    #[command(subcommand)]
    Pairing(PairingCommand),
    /// List the devices, or revoke one
    #[command(subcommand)]
    Devices(DevicesCommand),
}

#[derive(Debug, Subcommand)]
enum CallersCommand {
    /// Make a token and print it; it cannot be shown again
    Mint {
        /// A name for the caller
        name: String,
        /// What the caller may do: send requests, approve calls, or both
        #[arg(long, value_enum, default_value_t = CallerRights::Ask)]
        may: CallerRights,
    },
    /// List the callers, without their tokens
    List,
    /// Revoke all tokens of a caller
    Revoke {
        /// The caller's name
        name: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CallerRights {
    Ask,
    Approve,
    Both,
}

#[derive(Debug, Subcommand)]
enum PairingCommand {
    /// Make a new code; the old one stops working
    Renew {
        /// How many devices may be paired with it
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        uses: u32,
        /// The minutes after which it ends
        #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_080))]
        minutes: u32,
    },
    /// Accept no new device until the next `renew`
    Close,
}

#[derive(Debug, Subcommand)]
enum DevicesCommand {
    /// List the devices that are not revoked, with the token of a caller
    List,
    /// Revoke a device for good: its key opens no new session
    Revoke {
        /// The device's id, as `list` shows it, and `status -v` on the device
        id: String,
    },
}

impl OperatorCommand {
    /// Returns the operator's function and its arguments; `None` for what callers may do as well.
    fn function(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::Callers(CallersCommand::Mint { name, may }) => {
                let may = match may {
                    CallerRights::Ask => "ask",
                    CallerRights::Approve => "approve",
                    CallerRights::Both => "both",
                };
                ("callers:mint", json!({ "name": name, "may": may }))
            }
            Self::Callers(CallersCommand::List) => ("callers:list", json!({})),
            Self::Callers(CallersCommand::Revoke { name }) => {
                ("callers:revoke", json!({ "name": name }))
            }
            Self::Pairing(PairingCommand::Renew { uses, minutes }) => {
                ("pairing:renew", json!({ "uses": uses, "minutes": minutes }))
            }
            Self::Pairing(PairingCommand::Close) => ("pairing:close", json!({})),
            Self::Devices(DevicesCommand::Revoke { id }) => {
                ("devices:revoke", json!({ "deviceId": id }))
            }
            Self::Devices(DevicesCommand::List) => return None,
        })
    }

    /// Prints the result for people.
    fn show_result(&self, value: &Value) {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Callers(CallersCommand::Mint { .. }) => console::print_line(&text("callerToken")),
            Self::Callers(CallersCommand::List) => print_callers(value),
            Self::Callers(CallersCommand::Revoke { name }) => {
                let revoked = value["revoked"].as_f64().unwrap_or(0.0);
                console::print_line(&format!(
                    "Tokens of {} withdrawn: {revoked}.",
                    console::cell_text(name, 80)
                ));
            }
            Self::Pairing(PairingCommand::Renew { .. }) => {
                console::print_line(&text("pairingCode"));
            }
            Self::Pairing(PairingCommand::Close) => {
                console::print_line(&format!(
                    "No new device is let in until `{}`.",
                    command_to_type("operator pairing renew")
                ));
            }
            Self::Devices(DevicesCommand::List) => print_devices(value),
            Self::Devices(DevicesCommand::Revoke { id }) => {
                console::print_line(&format!("{id} is withdrawn."));
            }
        }
    }

    /// Returns whether there was nothing to revoke.
    fn revoked_nothing(&self, value: &Value) -> bool {
        let revoked = &value["revoked"];
        match self {
            Self::Callers(CallersCommand::Revoke { .. }) => revoked.as_f64() == Some(0.0),
            Self::Devices(DevicesCommand::Revoke { .. }) => revoked.as_bool() == Some(false),
            _ => false,
        }
    }
}

/// Calls one of the operator's functions.
pub fn run_operator(args: &OperatorArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.caller_config()?;
    let value = if let Some((path, arguments)) = args.what.function() {
        call_with_admin_key(path, &arguments, &config, &home)?
    } else {
        let caller = CliContext::caller_client(&config, &home)?;
        command_runtime()?.block_on(caller.list_devices())?
    };
    if args.what.revoked_nothing(&value) {
        return Err(CommandError::with_exit(
            Exit::Failed,
            "there is nothing of this name to withdraw",
        ));
    }
    if context.is_json() {
        console::print_json(&value);
    } else {
        args.what.show_result(&value);
    }
    Ok(Exit::Done)
}

fn call_with_admin_key(
    path: &str,
    arguments: &Value,
    config: &Config,
    home: &Home,
) -> anyhow::Result<Value> {
    let tokens = wiring::backend_tokens(config, home)?;
    let key = tokens.read(TokenName::Admin)?.ok_or_else(|| {
        let path = tokens.path(TokenName::Admin);
        let text = format!(
            "no admin key. `backend` and `dev` keep theirs in their own home: name that home with --home DIR. A hosted \
             backend's operator uses `npx convex run`, or puts the deployment's key into {} (mode 0600)",
            path.display()
        );
        CommandError::with_exit(Exit::Refused, text)
    })?;
    let functions = wiring::http_functions(config)?.with_admin_key(key);
    let calling = functions.call_function(FunctionKind::Any, path, arguments, Duration::ZERO);
    Ok(command_runtime()?.block_on(calling)?)
}

fn print_devices(devices: &Value) {
    let now_ms = Clock::system().now_ms();
    let row = |device: &Value| {
        let text = |key: &str| console::cell_text(device[key].as_str().unwrap_or_default(), 40);
        let seen = milliseconds(&device["seenAtMs"]);
        // A device that ended without a goodbye stays `online`; its next heartbeats do not come.
        let is_late = |seen: i64| {
            let beat_ms = milliseconds(&device["beatMs"]).unwrap_or(60_000);
            2 * (now_ms - seen) > 5 * beat_ms
        };
        let is_online = device["online"] == true && !seen.is_some_and(is_late);
        vec![
            device["deviceId"].as_str().unwrap_or_default().to_owned(),
            text("name"),
            text("platform"),
            if is_online { "online" } else { "offline" }.to_owned(),
            seen.map_or_else(
                || "never".to_owned(),
                |at| display_time::format_age(at, now_ms),
            ),
        ]
    };
    let rows: Vec<_> = devices.as_array().into_iter().flatten().map(row).collect();
    let columns = ["DEVICE", "NAME", "PLATFORM", "STATE", "SEEN"];
    console::print_list(&columns, &rows, "No device is paired with this backend.");
}

/// Reads a time or a duration in milliseconds.
fn milliseconds(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
    value.as_f64().map(|ms| ms as i64)
}

fn print_callers(callers: &Value) {
    let now_ms = Clock::system().now_ms();
    let row = |caller: &Value| {
        let name = caller["name"].as_str().unwrap_or_default();
        let may = match caller["may"].as_str() {
            Some("ask") => "ask",
            Some("approve") => "approve",
            _ => "ask, approve",
        };
        let minted = milliseconds(&caller["mintedAtMs"]).unwrap_or_default();
        vec![
            console::cell_text(name, 40),
            may.to_owned(),
            display_time::format_age(minted, now_ms),
        ]
    };
    let rows: Vec<_> = callers.as_array().into_iter().flatten().map(row).collect();
    console::print_table(&["CALLER", "MAY", "MINTED"], &rows);
}
