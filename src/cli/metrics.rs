//! `metrics`: numbers of this device for a monitoring system, as OpenMetrics text
//! (<https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>). They are read from the home, so
//! that a runner does nothing for them. Labels are names of tools and of outcomes, never paths or commands.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::Args;

use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::status::journal_facts::JournalFacts;
use super::wiring::SettingsInForce;
use super::{approvals, console, log_file};
use crate::config::WorkspaceRule;
use punie_core::durable::{Readers, replace_file};
use punie_engine::journal::JournalReader;
use punie_home::RunnerLock;

/// The media type of the text, which names the version.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Write them to this file, in one step
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    output: Option<PathBuf>,
    /// Serve them at this port of 127.0.0.1 under /metrics until Ctrl-C; 0: any free port
    #[arg(long, value_name = "PORT")]
    listen: Option<u16>,
}

/// Prints the metrics, writes them to a file, or serves them.
pub fn run_metrics(args: &MetricsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    if let Some(port) = args.listen {
        return command_runtime()?
            .block_on(serve_metrics(port, Arc::new(context.with_flags(|_| ()))));
    }
    let text = collect_metrics(context)?;
    match &args.output {
        None => console::print_text(&text),
        Some(path) => replace_file(path, text.as_bytes(), Readers::AsBefore)
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(Exit::Done)
}

async fn serve_metrics(port: u16, context: Arc<CliContext>) -> anyhow::Result<Exit> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .with_context(|| format!("cannot listen at 127.0.0.1:{port}"))?;
    let address = listener.local_addr()?;
    console::print_line(&format!("http://{address}/metrics"));
    let answer = move |headers: HeaderMap| {
        let context = Arc::clone(&context);
        async move {
            if !names_this_machine(&headers) {
                return (
                    StatusCode::FORBIDDEN,
                    "ask by the name 127.0.0.1 or localhost\n",
                )
                    .into_response();
            }
            let collected = tokio::task::spawn_blocking(move || collect_metrics(&context)).await;
            answer_scrape(collected.map_err(anyhow::Error::from).flatten())
        }
    };
    let routes = Router::new().route("/metrics", get(answer));
    axum::serve(listener, routes)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    Ok(Exit::Done)
}

/// Returns whether a request comes from a program that asks for this machine. A web page has an origin, and one whose
/// name was made to lead here has another host.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| matches!(host.host(), "127.0.0.1" | "localhost"));
    is_own && !headers.contains_key(header::ORIGIN)
}

fn answer_scrape(collected: anyhow::Result<String>) -> Response {
    match collected {
        Ok(text) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")).into_response(),
    }
}

/// Reads the numbers of this moment. The backend is not asked: a scrape causes no call.
fn collect_metrics(context: &CliContext) -> anyhow::Result<String> {
    let (mut config, home) = context.config_beside_runner(WorkspaceRule::NotNeeded)?;
    let holder = RunnerLock::find_holder(&home)?;
    let in_force = holder.and_then(|holder| SettingsInForce::read_for(holder, &home));
    if let Some(in_force) = &in_force {
        in_force.apply_backend(&mut config);
    }
    let is_running = holder.is_some();
    let facts = JournalFacts::read_current(&config, &home, is_running, in_force.as_ref())?;
    let mut text = MetricsText::default();
    text.add_gauge(
        "punie_runner_up",
        "1 if a runner runs in this home.",
        u8::from(is_running),
    );
    text.add_gauge(
        "punie_requests_waiting",
        "Requests that were accepted and not started.",
        facts.pending.count,
    );
    text.add_gauge(
        "punie_requests_running",
        "Requests that run.",
        facts.counts.started,
    );
    text.add_gauge(
        "punie_results_undelivered",
        "Results that the backend has not taken.",
        facts.counts.outbox,
    );
    text.add_gauge(
        "punie_results_undelivered_bytes",
        "The size of these results.",
        facts.undelivered_bytes,
    );
    text.add_gauge(
        "punie_shells_running",
        "Background shells that run.",
        facts.shells.len(),
    );
    text.add_gauge(
        "punie_questions_open",
        "Calls and questions that wait for a person.",
        approvals::list_open_questions(&home)?.len(),
    );
    text.add_gauge(
        "punie_log_bytes",
        "The size of the runner's log.",
        log_file::measure_folder(&home.logs_dir())?,
    );
    if let Some(at) = facts.last_contact_ms.max(facts.last_poll_ms) {
        text.add_gauge(
            "punie_backend_last_contact_timestamp_seconds",
            "The time of the last answer of the backend.",
            at / 1_000,
        );
    }
    text.add_head(
        "punie_requests_kept",
        "Requests in the journal, which forgets old ones, by tool and outcome.",
    );
    if let Some(journal) = JournalReader::find(&home.journal_file())? {
        for (tool, outcome, count) in journal.count_ended_requests()? {
            let _ = writeln!(
                text.0,
                "punie_requests_kept{{tool=\"{tool}\",outcome=\"{outcome}\"}} {count}"
            );
        }
    }
    text.0.push_str("# EOF\n");
    Ok(text.0)
}

/// The text while it is built.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn add_head(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} gauge\n# HELP {name} {help}");
    }

    fn add_gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.add_head(name, help);
        let _ = writeln!(self.0, "{name} {value}");
    }
}
