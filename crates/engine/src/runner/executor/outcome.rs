//! The outcome of a call, made from its tool's result and from the reason that stopped it.

use std::time::Duration;

use punie_tool::ToolError;
use punie_tool::request::{CallFailure, CallOutcome, ErrorCode, ResultMeta, ToolReply};

/// The first line of the answer to a call that the owner stopped.
const OWNER_STOPPED_IT: &str = "The owner stopped it, by a command on this device. Do not start it again before the \
                                owner asks for it.";

/// The reason why a call was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum StopReason {
    /// The caller cancelled it.
    Cancelled,
    Owner,
    /// The observer wants it to stop.
    Followed,
    /// Its time was up, after this duration.
    Deadline(Duration),
    /// The runner stops.
    Stopped,
}

/// Returns the outcome of a call that was stopped for this reason, if any, and returned this result, if any.
pub fn call_outcome(
    cut: Option<StopReason>,
    answer: Option<Result<ToolReply, ToolError>>,
) -> CallOutcome {
    let failure = match answer {
        // It finished before it noticed the stop, so its result is true.
        Some(Ok(reply)) => return CallOutcome::Ok(reply),
        Some(Err(error)) => CallFailure::from(error),
        None => CallFailure::new(
            ErrorCode::Cancelled,
            "It did not stop when it was told to and was abandoned.",
        )
        .with_meta(ResultMeta {
            may_have_run: true,
            ..ResultMeta::default()
        }),
    };
    if failure.code != ErrorCode::Cancelled {
        return CallOutcome::Error(failure);
    }
    let led = |code, lead: &str| CallFailure {
        code,
        text: format!("{lead}\n{}", failure.text),
        meta: failure.meta.clone(),
    };
    match cut {
        None | Some(StopReason::Cancelled) => CallOutcome::Cancelled(failure),
        Some(StopReason::Owner) => {
            CallOutcome::Cancelled(led(ErrorCode::Cancelled, OWNER_STOPPED_IT))
        }
        Some(StopReason::Followed) => CallOutcome::Cancelled(led(
            ErrorCode::Cancelled,
            "Stopped by the person at the editor, who ended the turn. Do not start it again before that person lets the \
             conversation go on.",
        )),
        Some(StopReason::Deadline(limit)) => CallOutcome::Error(led(
            ErrorCode::Timeout,
            &format!(
                "Stopped at its deadline, after {:.1} s.",
                limit.as_secs_f64()
            ),
        )),
        Some(StopReason::Stopped) => {
            let mut failure = led(
                ErrorCode::Interrupted,
                "The device's runner was stopped while this ran.",
            );
            failure.meta.may_have_run = true;
            CallOutcome::Error(failure)
        }
    }
}

pub fn refused_outcome(error: ToolError) -> CallOutcome {
    CallOutcome::Error(error.into())
}

pub fn cancelled_before_start() -> CallOutcome {
    let text = "Cancelled before it started; it never ran.";
    CallOutcome::Cancelled(CallFailure::new(ErrorCode::Cancelled, text))
}

/// Returns the answer to a call that the owner stopped before it started.
pub fn stopped_before_start() -> CallOutcome {
    let text = format!("{OWNER_STOPPED_IT}\nIt had not started; it never ran.");
    CallOutcome::Cancelled(CallFailure::new(ErrorCode::Cancelled, text))
}

/// Returns the answer to a call that could not be checked in time, for example because its paths hang.
pub fn preparation_timeout(limit: Duration) -> CallOutcome {
    let text = format!(
        "Not begun: looking at what it touches took longer than {:.1} s. It changed nothing. A disk or a network \
         folder may not answer.",
        limit.as_secs_f64()
    );
    CallOutcome::Error(CallFailure::new(ErrorCode::Timeout, text))
}

pub fn panic_error() -> ToolError {
    ToolError::internal("The tool failed inside (a fault of punie-runner, not of the arguments). What it had done so far stands.")
        .with_meta(ResultMeta { may_have_run: true, ..ResultMeta::default() })
}
