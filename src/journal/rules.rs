//! The state machine of a request, without any I/O: facts and events go in, writes and actions
//! come out. The journal applies what they say; the model beside them plays crashes against them.
//! Not here: SQL, clocks, who calls.

use super::entry::{Origin, State};

/// The number of times that a call that changes nothing, or that had declared nothing, may be cut off by a crash
/// before it is held to be the cause.
pub(crate) const ATTEMPTS: u32 = 3;

/// The facts of a request that the rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a row, each by itself")]
pub(crate) struct Known {
    /// Its state.
    pub state: State,
    /// True if a second execution could do harm.
    pub at_most_once: bool,
    /// Its tool declares an effect before it makes it.
    pub declares: bool,
    /// It has declared one.
    pub declared: bool,
    /// The number of times it was started.
    pub attempt: u32,
    /// The caller took it back.
    pub cancelled: bool,
    /// The place that waits for its reply.
    pub origin: Origin,
    /// It is closed, and its reply for the backend is still here.
    pub kept: bool,
}

/// An event of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
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
    Compared(Comparison),
}

/// The result of comparing declared effects with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// All of it was done.
    Done,
    /// Nothing of it was done, and nothing of it is left lying about.
    Untouched,
    /// Neither can be said.
    Unclear,
}

/// The write of a step. Each is one step of one request, in one transaction with what else the step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Nothing.
    Nothing,
    /// A new row, `accepted`.
    Insert { cancelled: bool },
    /// It was offered once more, perhaps taken back.
    CountOffer { cancelled: bool },
    /// It was offered once more, and is `finished` again: its reply is still there and is wanted once more.
    Unclose,
    /// The caller took it back.
    Cancel,
    /// `started`, one attempt more.
    Start { declares: bool },
    /// One more declared effect.
    Declare,
    /// `finished` with its reply; `delivered` at once where the reply is read here.
    Finish { read_here: bool },
    /// `accepted` again, its declared effects deleted.
    PutBack,
    /// `delivered` or `undeliverable`, the reply dropped where it was for the backend and is not to be kept.
    Close { delivered: bool, kept: bool },
}

/// The action that follows the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// It is to be run.
    Run,
    /// This run works on it, or is to start it.
    GoOn,
    /// Its call is told to stop.
    Stop,
    /// Its effect may begin.
    Begin,
    /// Its reply is posted.
    Post,
    /// The same id with other arguments: neither run nor answered.
    Conflict,
    /// It is answered so.
    Answer(Verdict),
    /// Its declared effects are compared with the files.
    Compare,
}

/// The answers that the rules give by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Taken back before it began.
    NeverRan,
    /// Taken back after it began; it certainly changed nothing.
    ChangedNothing,
    /// It started, and its end was not seen.
    Interrupted,
    /// Its declared effects are there.
    Recovered,
    /// The runner ended each time that it ran.
    Poisonous,
}

/// A step: a write and the action that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub write: Write,
    pub then: Then,
}

/// The event does not fit the state: the request moved on meanwhile. Holds the state that would have fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misfit(pub &'static str);

/// Applies an event to a known or an unknown request.
pub(crate) fn step(known: Option<&Known>, event: Event) -> Result<Step, Misfit> {
    let Some(known) = known else { return unknown(event) };
    match event {
        Event::Offered { same, cancelled } => Ok(offered_again(known, same, cancelled)),
        Event::TakenBack => Ok(taken_back(known)),
        Event::Begins { declares } => begins(known, declares),
        Event::Declares => declares(known),
        Event::Answered => answered(known),
        Event::Closed { delivered, kept } => Ok(closed(known, delivered, kept)),
        Event::Found => found(known),
        Event::Compared(comparison) => compared(known, comparison),
    }
}

/// Returns the cursor for polling after a page: never back, whatever the pages' order. None where nothing is to be
/// written.
/// Cursors are decimal numbers as text, too big for a float; what is no number cannot be compared and is taken as it
/// is.
pub(crate) fn cursor<'a>(stands: Option<&str>, offered: &'a str) -> Option<&'a str> {
    let number = |text: &str| text.parse::<u128>().ok();
    match (stands.map(number), number(offered)) {
        (Some(Some(stands)), Some(offered)) if offered <= stands => None,
        _ if stands == Some(offered) => None,
        _ => Some(offered),
    }
}

fn steps(write: Write, then: Then) -> Step {
    Step { write, then }
}

fn unknown(event: Event) -> Result<Step, Misfit> {
    match event {
        Event::Offered { cancelled, .. } => Ok(steps(Write::Insert { cancelled }, Then::Run)),
        // A cancel follows its request in the backend's order; one for a request that is forgotten, or never was
        // ours, changes nothing. So does closing what is forgotten.
        Event::TakenBack | Event::Closed { .. } => Ok(steps(Write::Nothing, Then::Nothing)),
        _ => Err(Misfit("known")),
    }
}

fn offered_again(known: &Known, same: bool, cancelled: bool) -> Step {
    if !same {
        return steps(Write::Nothing, Then::Conflict);
    }
    let cancelled = cancelled && known.state.is_open() && !known.cancelled;
    let then = match known.state {
        State::Accepted | State::Started => Then::GoOn,
        State::Finished => Then::Post,
        // The outbox has it again: whatever becomes of this post, the next one is not forgotten.
        State::Delivered if known.kept => return steps(Write::Unclose, Then::Post),
        State::Delivered | State::Undeliverable => Then::Nothing,
    };
    steps(Write::CountOffer { cancelled }, then)
}

fn taken_back(known: &Known) -> Step {
    if known.state.is_open() {
        steps(Write::Cancel, Then::Stop)
    } else {
        steps(Write::Nothing, Then::Nothing)
    }
}

fn begins(known: &Known, declares: bool) -> Result<Step, Misfit> {
    match known.state {
        State::Accepted if known.cancelled => Ok(steps(Write::Nothing, Then::Answer(Verdict::NeverRan))),
        State::Accepted => Ok(steps(Write::Start { declares }, Then::Begin)),
        _ => Err(Misfit("accepted")),
    }
}

fn declares(known: &Known) -> Result<Step, Misfit> {
    match known.state {
        State::Started if known.declares => Ok(steps(Write::Declare, Then::Begin)),
        _ => Err(Misfit("started")),
    }
}

fn answered(known: &Known) -> Result<Step, Misfit> {
    let read_here = known.origin == Origin::Task;
    match known.state {
        State::Accepted | State::Started => {
            let then = if read_here { Then::Nothing } else { Then::Post };
            Ok(steps(Write::Finish { read_here }, then))
        }
        _ => Err(Misfit("accepted or started")),
    }
}

fn closed(known: &Known, delivered: bool, kept: bool) -> Step {
    match known.state {
        State::Delivered | State::Undeliverable => steps(Write::Nothing, Then::Nothing),
        State::Accepted | State::Started | State::Finished => {
            steps(Write::Close { delivered, kept }, Then::Nothing)
        }
    }
}

fn found(known: &Known) -> Result<Step, Misfit> {
    Ok(match known.state {
        State::Accepted if known.cancelled => steps(Write::Nothing, Then::Answer(Verdict::NeverRan)),
        State::Accepted => steps(Write::Nothing, Then::Run),
        State::Started if known.declared => steps(Write::Nothing, Then::Compare),
        State::Started if known.at_most_once && !known.declares => {
            steps(Write::Nothing, Then::Answer(Verdict::Interrupted))
        }
        State::Started => again(known),
        State::Finished => steps(Write::Nothing, Then::Post),
        State::Delivered | State::Undeliverable => return Err(Misfit("open")),
    })
}

fn compared(known: &Known, comparison: Comparison) -> Result<Step, Misfit> {
    if known.state != State::Started || !known.declared {
        return Err(Misfit("started"));
    }
    Ok(match comparison {
        Comparison::Done => steps(Write::Nothing, Then::Answer(Verdict::Recovered)),
        Comparison::Untouched => again(known),
        Comparison::Unclear => steps(Write::Nothing, Then::Answer(Verdict::Interrupted)),
    })
}

/// A call that has certainly changed nothing is run again, unless it seems to crash the runner.
fn again(known: &Known) -> Step {
    if known.cancelled {
        steps(Write::Nothing, Then::Answer(Verdict::ChangedNothing))
    } else if known.attempt >= ATTEMPTS {
        steps(Write::Nothing, Then::Answer(Verdict::Poisonous))
    } else {
        steps(Write::PutBack, Then::Run)
    }
}

impl Verdict {
    /// The word in the file and in `history`.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::NeverRan | Self::ChangedNothing => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Recovered => "recovered",
            Self::Poisonous => "poisonous",
        }
    }
}

impl State {
    /// Not answered yet.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Accepted | Self::Started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_reply_that_is_wanted_once_more_is_undelivered_until_it_is_sent() {
        let known = Known {
            state: State::Delivered,
            at_most_once: true,
            declares: false,
            declared: false,
            attempt: 1,
            cancelled: false,
            kept: true,
            origin: Origin::Backend,
        };
        let again = Event::Offered { same: true, cancelled: false };
        assert_eq!(step(Some(&known), again), Ok(Step { write: Write::Unclose, then: Then::Post }));
        let dropped = Known { kept: false, ..known };
        assert_eq!(step(Some(&dropped), again).map(|step| step.then), Ok(Then::Nothing));
    }

    #[test]
    fn a_cursor_never_goes_back() {
        assert_eq!(cursor(None, "7"), Some("7"));
        assert_eq!(cursor(Some("7"), "7"), None);
        assert_eq!(cursor(Some("10"), "9"), None, "compared as numbers");
        assert_eq!(cursor(Some("9"), "10"), Some("10"));
        assert_eq!(
            cursor(Some("18446744073709551615"), "18446744073709551616"),
            Some("18446744073709551616")
        );
        assert_eq!(cursor(Some("old"), "7"), Some("7"), "what is no number is left behind");
    }
}
