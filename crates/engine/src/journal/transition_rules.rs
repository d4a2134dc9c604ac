//! The state machine of a request, without any I/O: facts and events go in, writes and actions come out. The journal
//! applies what they say; the model beside them plays crashes against them.

use super::entry::{RequestOrigin, RequestState};

/// The number of times that a call that changes nothing, or that had declared nothing, may be cut off by a crash
/// before it is held to be the cause.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// The facts of a request that the rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a row, each by itself"
)]
pub(crate) struct KnownRequest {
    pub state: RequestState,
    /// True if a second execution could do harm.
    pub at_most_once: bool,
    /// Its tool declares an effect before it makes it.
    pub declares: bool,
    pub declared: bool,
    /// The number of times it was started.
    pub attempt: u32,
    /// The caller took it back.
    pub cancelled: bool,
    /// The place that waits for its reply.
    pub origin: RequestOrigin,
    /// It is closed, and its reply for the backend is still here.
    pub kept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEvent {
    /// The backend (or a task) offers it: with the arguments it is known with or with others, taken back or not.
    Offered { same: bool, cancelled: bool },
    /// The caller takes it back.
    TakenBack,
    /// It is about to begin; its tool declares its effects or does not.
    Begins { declares: bool },
    /// It is about to make an effect, and says which.
    Declares,
    /// Its reply is there.
    Answered,
    /// The backend has the reply, or will never take it. One that may ask for it again has it kept.
    Closed { delivered: bool, kept: bool },
    /// A new run of the runner finds it.
    Found,
    /// A new run has compared its declared effects with the files.
    Compared(EffectComparison),
}

/// The result of comparing declared effects with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectComparison {
    /// All of it was done.
    Done,
    /// Nothing of it was done, and nothing of it is left lying about.
    Untouched,
    /// Neither can be said.
    Unclear,
}

/// The write of a step. Each is one step of one request, in one transaction with what else the step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransitionWrite {
    Nothing,
    /// A new row, `accepted`.
    Insert {
        cancelled: bool,
    },
    /// It was offered once more, perhaps taken back.
    CountOffer {
        cancelled: bool,
    },
    /// It was offered once more, and is `finished` again: its reply is still there and is wanted once more.
    Unclose,
    /// The caller took it back.
    Cancel,
    /// `started`, one attempt more.
    Start {
        declares: bool,
    },
    /// One more declared effect.
    Declare,
    /// `finished` with its reply; `delivered` at once where the reply is read here.
    Finish {
        read_here: bool,
    },
    /// `accepted` again, its declared effects deleted.
    Requeue,
    /// `delivered` or `undeliverable`, the reply dropped where it was for the backend and is not to be kept.
    Close {
        delivered: bool,
        kept: bool,
    },
}

/// The action that follows the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransitionResult {
    Nothing,
    Run,
    /// This run works on it, or is to start it.
    Continue,
    /// Its call is told to stop.
    Stop,
    /// Its effect may begin.
    Begin,
    /// Its reply is posted.
    Post,
    /// The same id with other arguments: neither run nor answered.
    Conflict,
    Answer(RulesReply),
    /// Its declared effects are compared with the files.
    Compare,
}

/// The answers that the rules give by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesReply {
    /// Taken back before it began.
    NeverRan,
    /// Taken back after it began; it certainly changed nothing.
    ChangedNothing,
    /// It started, and its end was not seen.
    Interrupted,
    /// Its declared effects are there.
    Recovered,
    /// The runner ended each time that it ran.
    CrashLooping,
}

/// A step: a write and the action that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTransition {
    pub write: TransitionWrite,
    pub then: TransitionResult,
}

/// The event does not fit the state: the request moved on meanwhile. Holds the state that would have fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidTransition(pub &'static str);

/// Applies an event to a known or an unknown request.
pub(crate) fn apply_event(
    known: Option<&KnownRequest>,
    event: RequestEvent,
) -> Result<RequestTransition, InvalidTransition> {
    let Some(known) = known else {
        return handle_unknown(event);
    };
    match event {
        RequestEvent::Offered { same, cancelled } => {
            Ok(handle_repeated_offer(known, same, cancelled))
        }
        RequestEvent::TakenBack => Ok(handle_cancellation(known)),
        RequestEvent::Begins { declares } => handle_start(known, declares),
        RequestEvent::Declares => handle_intents(known),
        RequestEvent::Answered => handle_reply(known),
        RequestEvent::Closed { delivered, kept } => Ok(handle_close(known, delivered, kept)),
        RequestEvent::Found => handle_recovery(known),
        RequestEvent::Compared(comparison) => handle_comparison(known, comparison),
    }
}

/// Returns the cursor for polling after a page: never back, whatever the pages' order. None where nothing is to be
/// written.
/// Cursors are decimal numbers as text, too big for a float; what is no number cannot be compared and is taken as it
/// is.
pub(crate) fn next_cursor<'a>(stands: Option<&str>, offered: &'a str) -> Option<&'a str> {
    let number = |text: &str| text.parse::<u128>().ok();
    match (stands.map(number), number(offered)) {
        (Some(Some(stands)), Some(offered)) if offered <= stands => None,
        _ if stands == Some(offered) => None,
        _ => Some(offered),
    }
}

fn transition_to(write: TransitionWrite, then: TransitionResult) -> RequestTransition {
    RequestTransition { write, then }
}

impl RequestTransition {
    /// A step that writes nothing.
    fn without_write(then: TransitionResult) -> Self {
        transition_to(TransitionWrite::Nothing, then)
    }

    /// A step that writes nothing yet: the request is answered so.
    fn answered_with(reply: RulesReply) -> Self {
        Self::without_write(TransitionResult::Answer(reply))
    }
}

fn handle_unknown(event: RequestEvent) -> Result<RequestTransition, InvalidTransition> {
    match event {
        RequestEvent::Offered { cancelled, .. } => Ok(transition_to(
            TransitionWrite::Insert { cancelled },
            TransitionResult::Run,
        )),
        // A cancel follows its request in the backend's order; one for a request that is forgotten, or never was
        // ours, changes nothing. So does closing what is forgotten.
        RequestEvent::TakenBack | RequestEvent::Closed { .. } => {
            Ok(RequestTransition::without_write(TransitionResult::Nothing))
        }
        _ => Err(InvalidTransition("known")),
    }
}

fn handle_repeated_offer(known: &KnownRequest, same: bool, cancelled: bool) -> RequestTransition {
    if !same {
        return RequestTransition::without_write(TransitionResult::Conflict);
    }
    let cancelled = cancelled && known.state.is_unanswered() && !known.cancelled;
    let then = match known.state {
        RequestState::Accepted | RequestState::Started => TransitionResult::Continue,
        RequestState::Finished => TransitionResult::Post,
        // The outbox has it again: whatever becomes of this post, the next one is not forgotten.
        RequestState::Delivered if known.kept => {
            return transition_to(TransitionWrite::Unclose, TransitionResult::Post);
        }
        RequestState::Delivered | RequestState::Undeliverable => TransitionResult::Nothing,
    };
    transition_to(TransitionWrite::CountOffer { cancelled }, then)
}

fn handle_cancellation(known: &KnownRequest) -> RequestTransition {
    if known.state.is_unanswered() {
        transition_to(TransitionWrite::Cancel, TransitionResult::Stop)
    } else {
        RequestTransition::without_write(TransitionResult::Nothing)
    }
}

fn handle_start(
    known: &KnownRequest,
    declares: bool,
) -> Result<RequestTransition, InvalidTransition> {
    match known.state {
        RequestState::Accepted if known.cancelled => {
            Ok(RequestTransition::answered_with(RulesReply::NeverRan))
        }
        RequestState::Accepted => Ok(transition_to(
            TransitionWrite::Start { declares },
            TransitionResult::Begin,
        )),
        _ => Err(InvalidTransition("accepted")),
    }
}

fn handle_intents(known: &KnownRequest) -> Result<RequestTransition, InvalidTransition> {
    match known.state {
        RequestState::Started if known.declares => Ok(transition_to(
            TransitionWrite::Declare,
            TransitionResult::Begin,
        )),
        _ => Err(InvalidTransition("started")),
    }
}

fn handle_reply(known: &KnownRequest) -> Result<RequestTransition, InvalidTransition> {
    let read_here = known.origin == RequestOrigin::Task;
    match known.state {
        RequestState::Accepted | RequestState::Started => {
            let then = if read_here {
                TransitionResult::Nothing
            } else {
                TransitionResult::Post
            };
            Ok(transition_to(TransitionWrite::Finish { read_here }, then))
        }
        _ => Err(InvalidTransition("accepted or started")),
    }
}

fn handle_close(known: &KnownRequest, delivered: bool, kept: bool) -> RequestTransition {
    if known.state.is_closed() {
        RequestTransition::without_write(TransitionResult::Nothing)
    } else {
        transition_to(
            TransitionWrite::Close { delivered, kept },
            TransitionResult::Nothing,
        )
    }
}

fn handle_recovery(known: &KnownRequest) -> Result<RequestTransition, InvalidTransition> {
    Ok(match known.state {
        RequestState::Accepted if known.cancelled => {
            RequestTransition::answered_with(RulesReply::NeverRan)
        }
        RequestState::Accepted => RequestTransition::without_write(TransitionResult::Run),
        RequestState::Started if known.declared => {
            RequestTransition::without_write(TransitionResult::Compare)
        }
        RequestState::Started if known.at_most_once && !known.declares => {
            RequestTransition::answered_with(RulesReply::Interrupted)
        }
        RequestState::Started => allow_rerun(known),
        RequestState::Finished => RequestTransition::without_write(TransitionResult::Post),
        RequestState::Delivered | RequestState::Undeliverable => {
            return Err(InvalidTransition("open"));
        }
    })
}

fn handle_comparison(
    known: &KnownRequest,
    comparison: EffectComparison,
) -> Result<RequestTransition, InvalidTransition> {
    if known.state != RequestState::Started || !known.declared {
        return Err(InvalidTransition("started"));
    }
    Ok(match comparison {
        EffectComparison::Done => RequestTransition::answered_with(RulesReply::Recovered),
        EffectComparison::Untouched => allow_rerun(known),
        EffectComparison::Unclear => RequestTransition::answered_with(RulesReply::Interrupted),
    })
}

/// A call that has certainly changed nothing is run again, unless it seems to crash the runner.
fn allow_rerun(known: &KnownRequest) -> RequestTransition {
    if known.cancelled {
        RequestTransition::answered_with(RulesReply::ChangedNothing)
    } else if known.attempt >= MAX_ATTEMPTS {
        RequestTransition::answered_with(RulesReply::CrashLooping)
    } else {
        transition_to(TransitionWrite::Requeue, TransitionResult::Run)
    }
}

impl RulesReply {
    /// The word in the file and in `history`.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::NeverRan | Self::ChangedNothing => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Recovered => "recovered",
            Self::CrashLooping => "poisonous",
        }
    }
}

impl RequestState {
    /// Not answered yet.
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self, Self::Accepted | Self::Started)
    }

    /// Nothing more is posted for it.
    pub(crate) fn is_closed(self) -> bool {
        matches!(self, Self::Delivered | Self::Undeliverable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_reply_that_is_wanted_once_more_is_undelivered_until_it_is_sent() {
        let known = KnownRequest {
            state: RequestState::Delivered,
            at_most_once: true,
            declares: false,
            declared: false,
            attempt: 1,
            cancelled: false,
            kept: true,
            origin: RequestOrigin::Backend,
        };
        let again = RequestEvent::Offered {
            same: true,
            cancelled: false,
        };
        assert_eq!(
            apply_event(Some(&known), again),
            Ok(RequestTransition {
                write: TransitionWrite::Unclose,
                then: TransitionResult::Post
            })
        );
        let dropped = KnownRequest {
            kept: false,
            ..known
        };
        assert_eq!(
            apply_event(Some(&dropped), again).map(|step| step.then),
            Ok(TransitionResult::Nothing)
        );
    }

    #[test]
    fn a_cursor_never_goes_back() {
        assert_eq!(next_cursor(None, "7"), Some("7"));
        assert_eq!(next_cursor(Some("7"), "7"), None);
        assert_eq!(next_cursor(Some("10"), "9"), None, "compared as numbers");
        assert_eq!(next_cursor(Some("9"), "10"), Some("10"));
        assert_eq!(
            next_cursor(Some("18446744073709551615"), "18446744073709551616"),
            Some("18446744073709551616")
        );
        assert_eq!(
            next_cursor(Some("old"), "7"),
            Some("7"),
            "what is no number is left behind"
        );
    }
}
