//! Faulty replies: a replacement for the function's answer, or the corrupted answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::Sleep;

use super::injected_fault::InjectedFault;

const LOGIN: &str = "<!doctype html><title>Welcome</title><p>Please log in to use this network.";

/// The filler that is sent at once.
static FILLER: [u8; 64 << 10] = [b' '; 64 << 10];

/// Returns the answer of a fault that prevents the function from running.
pub(super) fn replacement_reply(fault: &InjectedFault) -> Option<Response> {
    let answer = |status: u16, kind: &'static str, body: String| {
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() =
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer
    };
    let header = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    Some(match fault {
        InjectedFault::Unheard => Response::new(ScriptedBody::from_pieces([BodyPiece::Break])),
        InjectedFault::Status {
            status,
            code,
            retry_after,
        } => {
            let body = json!({ "code": code, "message": "a fault on purpose" }).to_string();
            let mut answer = answer(*status, "application/json", body);
            if let Some(text) = retry_after {
                answer
                    .headers_mut()
                    .insert(header::RETRY_AFTER, header(text));
            }
            answer
        }
        InjectedFault::Redirect(to) => {
            let mut answer = answer(302, "text/html", LOGIN.to_owned());
            answer.headers_mut().insert(header::LOCATION, header(to));
            answer
        }
        InjectedFault::Html => answer(200, "text/html", LOGIN.to_owned()),
        _ => return None,
    })
}

/// Corrupts the function's own answer.
pub(super) async fn corrupt_reply(answer: Response, fault: &InjectedFault) -> Response {
    let (mut parts, body) = answer.into_parts();
    // The functions' answers are in memory anyway.
    let whole = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut announced = whole.len();
    let body = match fault {
        InjectedFault::Drop => ScriptedBody::from_pieces([BodyPiece::Break]),
        InjectedFault::Cut(bytes) => ScriptedBody::from_pieces([
            BodyPiece::Bytes(whole.slice(..whole.len().min(*bytes))),
            BodyPiece::Flush,
            BodyPiece::Break,
        ]),
        InjectedFault::Half => {
            announced = whole.len() / 2;
            Body::from(whole.slice(..announced))
        }
        InjectedFault::Slow(rate) => {
            let rate = (*rate).max(1);
            let end = whole.len();
            ScriptedBody::from_pieces((0..end).step_by(rate).flat_map(move |at| {
                [
                    BodyPiece::Bytes(whole.slice(at..end.min(at + rate))),
                    BodyPiece::Wait(Duration::from_secs(1)),
                ]
            }))
        }
        InjectedFault::Oversize(bytes) => {
            let filler = Bytes::from_static(&FILLER);
            let pieces = bytes.div_ceil(filler.len());
            announced += pieces * filler.len();
            ScriptedBody::from_pieces(
                std::iter::repeat_n(filler, pieces)
                    .chain([whole])
                    .map(BodyPiece::Bytes),
            )
        }
        InjectedFault::Date(seconds) => {
            let by = Duration::from_secs(seconds.unsigned_abs());
            let now = SystemTime::now();
            let date = if *seconds < 0 {
                now.checked_sub(by)
            } else {
                now.checked_add(by)
            };
            let date = httpdate::fmt_http_date(date.unwrap_or(now));
            parts.headers.insert(
                header::DATE,
                HeaderValue::from_str(&date).expect("a date is ASCII"),
            );
            Body::from(whole)
        }
        page => {
            let other = corrupt_page(&whole, page);
            announced = other.len();
            Body::from(other)
        }
    };
    parts
        .headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(announced));
    Response::from_parts(parts, body)
}

/// Changes the events or the cursor of a page; other answers stay as they are.
fn corrupt_page(whole: &Bytes, fault: &InjectedFault) -> Bytes {
    let Ok(mut answer) = serde_json::from_slice::<Value>(whole) else {
        return whole.clone();
    };
    let Some(events) = answer
        .pointer_mut("/value/events")
        .and_then(Value::as_array_mut)
    else {
        return whole.clone();
    };
    match fault {
        InjectedFault::Reorder => events.reverse(),
        InjectedFault::Duplicate => {
            *events = events
                .iter()
                .flat_map(|event| [event.clone(), event.clone()])
                .collect();
        }
        InjectedFault::Args(args) => {
            for event in events {
                if let Some(known) = event.pointer_mut("/request/args") {
                    *known = Value::String(args.clone());
                }
            }
        }
        InjectedFault::Rewind => answer["value"]["cursor"] = json!("1"),
        _ => {}
    }
    Bytes::from(answer.to_string())
}

/// A part of a body.
enum BodyPiece {
    Bytes(Bytes),
    Wait(Duration),
    /// Earlier parts are sent first.
    Flush,
    /// The connection is closed here.
    Break,
}

/// A body that is sent by a script.
struct ScriptedBody {
    pieces: Box<dyn Iterator<Item = BodyPiece> + Send>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl ScriptedBody {
    fn from_pieces<P>(pieces: impl IntoIterator<Item = BodyPiece, IntoIter = P>) -> Body
    where
        P: Iterator<Item = BodyPiece> + Send + 'static,
    {
        Body::new(Self {
            pieces: Box::new(pieces.into_iter()),
            waiting: None,
        })
    }
}

impl HttpBody for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            match self.pieces.next() {
                None => return Poll::Ready(None),
                Some(BodyPiece::Bytes(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(BodyPiece::Wait(time)) => {
                    self.waiting = Some(Box::pin(tokio::time::sleep(time)));
                }
                Some(BodyPiece::Flush) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(BodyPiece::Break) => {
                    return Poll::Ready(Some(Err(io::Error::other("a fault on purpose"))));
                }
            }
        }
    }
}
