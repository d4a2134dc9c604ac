//! The outcome of a call, made from its tool's result and from the reason that stopped it. Not here: the call itself
//! (`call_runner`).

use std::time::Duration;

use crate::request::{ErrorCode, Failure, Meta, Outcome, Reply};
use crate::tool::ToolError;

/// The reason why a call was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Cut {
    /// The caller cancelled it.
    Cancelled,
    /// The observer wants it to stop.
    Followed,
    /// Its time was up, after this duration.
    Deadline(Duration),
    /// The runner stops.
    Stopped,
}

/// Returns the outcome of a call that was stopped for this reason, if any, and returned this result, if any.
pub(in crate::runner) fn outcome(cut: Option<Cut>, answer: Option<Result<Reply, ToolError>>) -> Outcome {
    let failure = match answer {
        // It finished before it noticed the stop, so its result is true.
        Some(Ok(reply)) => return Outcome::Ok(reply),
        Some(Err(error)) => Failure::from(error),
        None => Failure {
            code: ErrorCode::Cancelled,
            text: "It did not stop when it was told to and was abandoned.".to_owned(),
            meta: Meta { may_have_run: true, ..Meta::default() },
        },
    };
    if failure.code != ErrorCode::Cancelled {
        return Outcome::Error(failure);
    }
    let led = |code, lead: &str| Failure {
        code,
        text: format!("{lead}\n{}", failure.text),
        meta: failure.meta.clone(),
    };
    match cut {
        None | Some(Cut::Cancelled) => Outcome::Cancelled(failure),
        Some(Cut::Followed) => Outcome::Cancelled(led(
            ErrorCode::Cancelled,
            "Stopped by the person at the editor, who ended the turn. Do not start it again before that person lets the \
             conversation go on.",
        )),
        Some(Cut::Deadline(limit)) => Outcome::Error(led(
            ErrorCode::Timeout,
            &format!("Stopped at its deadline, after {:.1} s.", limit.as_secs_f64()),
        )),
        Some(Cut::Stopped) => {
            let mut failure = led(ErrorCode::Interrupted, "The device's runner was stopped while this ran.");
            failure.meta.may_have_run = true;
            Outcome::Error(failure)
        }
    }
}

pub(in crate::runner) fn refused(error: ToolError) -> Outcome {
    Outcome::Error(error.into())
}

pub(in crate::runner) fn never_ran() -> Outcome {
    let text = "Cancelled before it started; it never ran.".to_owned();
    Outcome::Cancelled(Failure { code: ErrorCode::Cancelled, text, meta: Meta::default() })
}

/// Returns the answer to a call that could not be checked in time, for example because its paths hang.
pub(in crate::runner) fn not_begun_in_time(limit: Duration) -> Outcome {
    let text = format!(
        "Not begun: looking at what it touches took longer than {:.1} s. It changed nothing. A disk or a network \
         folder may not answer.",
        limit.as_secs_f64()
    );
    Outcome::Error(Failure { code: ErrorCode::Timeout, text, meta: Meta::default() })
}

pub(in crate::runner) fn panicked() -> ToolError {
    ToolError::internal("The tool failed inside (a fault of punie-runner, not of the arguments). What it had done so far stands.")
        .with_meta(Meta { may_have_run: true, ..Meta::default() })
}
