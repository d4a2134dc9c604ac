//! A device as its caller reaches it through a backend, for one client.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::cli::caller_client::{CallerAnswer, CallerClient, CallerRequest, OutputPiece};
use crate::mcp::{LinkAnswer, LinkError, LinkQuestion};
use punie_core::ids::{DeviceId, RequestId};
use punie_engine::backend::BackendError;

/// The longest wait for a backend that is away, until a call fails.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for an answer; clients have shorter limits of their own, and cancel.
const ANSWER_TIMEOUT: Duration = Duration::from_hours(24);

/// A device, and a caller of it.
#[derive(Clone)]
pub(super) struct LinkConnection {
    caller: CallerClient,
    device: DeviceId,
}

/// The output of a call on its way to the client.
pub(super) struct OutputSender {
    sender: UnboundedSender<String>,
    /// The number of the last piece that was sent.
    last: Option<f64>,
}

impl OutputSender {
    pub fn new(sender: UnboundedSender<String>) -> Self {
        Self { sender, last: None }
    }

    /// Sends a piece, unless it was sent before.
    fn send_piece(&mut self, piece: &OutputPiece) {
        if self.last.is_none_or(|last| piece.n > last) {
            self.last = Some(piece.n);
            // The client may have gone meanwhile.
            let _ = self.sender.send(piece.text.clone());
        }
    }
}

impl LinkConnection {
    /// Connects to a device.
    pub fn new(caller: CallerClient, device: DeviceId) -> Self {
        Self { caller, device }
    }

    /// Sends a call. One that was sent before counts once.
    pub async fn send_call(&self, ask: &CallerRequest) -> Result<(), LinkError> {
        let sent = self
            .caller
            .append_within(&self.device, ask, APPEND_TIMEOUT)
            .await;
        sent.map_err(|error| link_error(&error))
    }

    /// Waits for the answer of a call that was sent. Its output is sent meanwhile.
    pub async fn wait_for_answer(
        &self,
        id: &RequestId,
        output: Option<&mut OutputSender>,
    ) -> Result<LinkAnswer, LinkError> {
        let mut show = output.map(|output| move |piece: &OutputPiece| output.send_piece(piece));
        let show: Option<&mut (dyn FnMut(&OutputPiece) + Send)> = match &mut show {
            Some(show) => Some(show),
            None => None,
        };
        let answered = self.caller.watch_for_answer(id, ANSWER_TIMEOUT, show).await;
        let answer = answered.map_err(|error| link_error(&error))?;
        answer
            .map(read_answer)
            .ok_or_else(|| LinkError("there was no answer within a day".to_owned()))
    }

    /// Cancels a call, which is answered then.
    pub async fn cancel_call(&self, id: &RequestId) -> Result<(), LinkError> {
        let cancelled = self.caller.cancel_request(id).await;
        cancelled.map(drop).map_err(|error| link_error(&error))
    }

    /// Lists the entries of one kind in the device's catalog.
    pub async fn list_catalog(&self, kind: &str) -> Result<Vec<Value>, LinkError> {
        let listed = self.caller.list_catalog(&self.device, kind).await;
        listed.map_err(|error| link_error(&error))
    }

    /// Lists the open questions.
    pub async fn open_questions(&self) -> Result<Vec<LinkQuestion>, LinkError> {
        let listed = self.caller.list_questions(&self.device).await;
        let listed = listed.map_err(|error| link_error(&error))?;
        let rows = listed.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(rows.iter().filter_map(read_question).collect())
    }

    pub async fn answer_question(
        &self,
        question: &str,
        option: &str,
        text: Option<&str>,
    ) -> Result<(), LinkError> {
        let answered = self.caller.answer_question(question, option, text).await;
        answered.map_err(|error| link_error(&error))
    }
}

fn read_answer(answer: CallerAnswer) -> LinkAnswer {
    LinkAnswer {
        is_ok: answer.outcome == "ok",
        payload: answer.payload,
    }
}

/// Reads a row of the backend, if it is valid.
fn read_question(row: &Value) -> Option<LinkQuestion> {
    let word = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let option = |option: &Value| {
        let refuses = word(option, "kind")?.starts_with("reject");
        Some((word(option, "optionId")?, word(option, "name")?, refuses))
    };
    Some(LinkQuestion {
        id: word(row, "permissionId")?,
        request: word(row, "requestId")?,
        title: word(row, "title")?,
        options: row["options"]
            .as_array()?
            .iter()
            .filter_map(option)
            .collect(),
    })
}

fn link_error(error: &BackendError) -> LinkError {
    LinkError(format!("the device cannot be reached: {error}"))
}
