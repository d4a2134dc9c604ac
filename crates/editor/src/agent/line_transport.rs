//! Line transport of the protocol: one JSON message per line, bounded in length. A line that is too long or is not
//! UTF-8 affects no other line.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{Sink, Stream, sink, stream};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};

use crate::protocol::Lines;

/// The longest accepted line, in bytes; the same limit as in the protocol's own TypeScript library.
pub const MAX_LINE_BYTES: usize = 32 << 20;
/// The error code that replaces an answer longer than that; outside the ranges that JSON-RPC and ACP reserve.
pub const TOO_LONG_ERROR: i32 = -31_003;
/// The method that replaces a request longer than that; it is answered with an error.
pub const TOO_LONG_METHOD: &str = "_punie/too_long";
/// The bytes of each end of a line that is too long that are searched for its id.
const INSPECTED_END_BYTES: usize = 4_096;
/// The most updates that may wait: before progress updates are dropped, and before all updates are.
const BACKLOG_LIMITS: (usize, usize) = (500, 5_000);

/// The number of updates that wait to be written. It is bounded here because the protocol's library queues without
/// limit.
#[derive(Debug, Default)]
pub struct UpdateBacklog(AtomicUsize);

impl UpdateBacklog {
    /// Counts another update, if the queue has space for it. Updates that do not change a call's state are dropped
    /// sooner.
    pub fn try_admit(&self, is_needed: bool) -> bool {
        let most = if is_needed {
            BACKLOG_LIMITS.1
        } else {
            BACKLOG_LIMITS.0
        };
        let taken = self.0.load(Ordering::Relaxed) < most;
        if taken {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn record_written_line(&self, line: &str) {
        if line
            .get(..line.floor_char_boundary(120))
            .is_some_and(|head| head.contains("\"session/update\""))
        {
            // This line was counted when it was queued.
            let _ = self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        }
    }
}

/// Opens a line transport over this reader and writer.
pub fn open_line_transport(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    backlog: Arc<UpdateBacklog>,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let outgoing = sink::unfold(writer, move |mut writer, line: String| {
        let backlog = Arc::clone(&backlog);
        async move {
            backlog.record_written_line(&line);
            let mut bytes = line.into_bytes();
            bytes.push(b'\n');
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            Ok(writer)
        }
    });
    let incoming = stream::unfold(
        BufReader::with_capacity(64 * 1024, reader),
        async |mut reader| {
            loop {
                match read_next_line(&mut reader, MAX_LINE_BYTES).await {
                    Ok(None) => return None,
                    Ok(Some(line)) if line.trim().is_empty() => {}
                    Ok(Some(line)) => return Some((Ok(line), reader)),
                    Err(error) => return Some((Err(error), reader)),
                }
            }
        },
    );
    // Unfolding futures are not `Unpin`, and the library requires exactly these bounds.
    Lines::new(Box::pin(outgoing), Box::pin(incoming))
}

/// Reads the next line without its end, replacing invalid UTF-8; `None` at the end of the input. A line that is too
/// long is replaced. An answer becomes an error, a request becomes one that will be refused, and any other line becomes
/// text that is not JSON.
async fn read_next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut tail = Vec::new();
    let mut length = 0_usize;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            if length == 0 {
                return Ok(None);
            }
            break;
        }
        let end = memchr::memchr(b'\n', chunk);
        let taken = end.unwrap_or(chunk.len());
        length += taken;
        if length <= most {
            line.extend_from_slice(&chunk[..taken]);
        } else {
            if tail.is_empty() {
                tail.extend_from_slice(&line[line.len().saturating_sub(INSPECTED_END_BYTES)..]);
            }
            line.truncate(INSPECTED_END_BYTES);
            line.shrink_to_fit();
            line.extend_from_slice(
                &chunk[..taken.min(INSPECTED_END_BYTES.saturating_sub(line.len()))],
            );
            tail.extend_from_slice(&chunk[taken.saturating_sub(INSPECTED_END_BYTES)..taken]);
            tail.drain(..tail.len().saturating_sub(INSPECTED_END_BYTES));
        }
        reader.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            break;
        }
    }
    if length > most {
        tracing::warn!(
            bytes = length,
            most,
            "a line of the editor's is too long and is not taken"
        );
        return Ok(Some(substitute_message(&line, &tail)));
    }
    let text = match String::from_utf8(line) {
        Ok(text) => text,
        Err(damaged) => String::from_utf8_lossy(damaged.as_bytes()).into_owned(),
    };
    Ok(Some(text))
}

/// Builds the replacement of a line that was too long, from the line's two ends.
fn substitute_message(head: &[u8], tail: &[u8]) -> String {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    let (kind, id) = identify_message(&head);
    match (kind, id.or_else(|| trailing_message_id(&tail))) {
        (Some(RpcMessageKind::Answer), Some(id)) => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{TOO_LONG_ERROR},"message":"the answer is longer than {} MiB"}}}}"#,
            MAX_LINE_BYTES >> 20
        ),
        (Some(RpcMessageKind::Request), Some(id)) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{TOO_LONG_METHOD}","params":{{}}}}"#)
        }
        _ => "a line that is too long".to_owned(),
    }
}

/// The kind of a JSON-RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RpcMessageKind {
    Request,
    Answer,
}

/// Reads the kind of a message and its id as JSON, from the outermost keys in the part of the message that is there.
fn identify_message(head: &str) -> (Option<RpcMessageKind>, Option<String>) {
    let mut kind = None;
    let mut id = None;
    let mut read = || -> Option<()> {
        let mut rest = head.trim_start().strip_prefix('{')?;
        loop {
            let key: String = take_leading_json(&mut rest)?;
            rest = rest.trim_start().strip_prefix(':')?;
            match key.as_str() {
                "method" | "params" => kind = Some(RpcMessageKind::Request),
                "result" | "error" => kind = Some(RpcMessageKind::Answer),
                _ => {}
            }
            let value: serde_json::Value = take_leading_json(&mut rest)?;
            if key == "id" && (value.is_string() || value.is_number()) {
                id = Some(value.to_string());
            }
            rest = rest.trim_start().strip_prefix(',')?;
        }
    };
    // `None` only means that the head ended.
    let _ = read();
    (kind, id)
}

/// Returns the id of a message that has it as the last key of its outermost object.
fn trailing_message_id(tail: &str) -> Option<String> {
    let mut rest = tail[tail.rfind("\"id\"")? + 4..]
        .trim_start()
        .strip_prefix(':')?;
    let value: serde_json::Value = take_leading_json(&mut rest)?;
    let is_last = rest.trim() == "}" && (value.is_string() || value.is_number());
    is_last.then(|| value.to_string())
}

fn take_leading_json<T: serde::de::DeserializeOwned>(rest: &mut &str) -> Option<T> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
    let value = values.next()?.ok()?;
    *rest = &rest[values.byte_offset()..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], most: usize) -> Vec<String> {
        let mut reader = BufReader::with_capacity(7, bytes);
        let mut all = Vec::new();
        while let Some(line) = read_next_line(&mut reader, most).await.expect("readable") {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn a_line_that_is_no_text_or_too_long_spoils_no_other() {
        assert_eq!(read(b"one\ntwo", 100).await, ["one", "two"]);
        assert_eq!(read(b"a\xFFb\nnext\n", 100).await, ["a\u{FFFD}b", "next"]);
        let long = format!("{}\nnext\n", "x".repeat(5_000));
        assert_eq!(
            read(long.as_bytes(), 100).await,
            ["a line that is too long", "next"]
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_answers_its_request_with_an_error() {
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":"abc","result":"{}"}}"#,
            "x".repeat(9_000)
        );
        let lines = read(long.as_bytes(), 100).await;
        let answer: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&"abc".into(), &TOO_LONG_ERROR.into())
        );
        // A notification of theirs, and an answer whose id is nowhere to be seen.
        for other in [r#"{"method":"x","params":""#, r#"{"result":{"id":1},"y":""#] {
            let lines = read(format!("{other}{}", "x".repeat(9_000)).as_bytes(), 100).await;
            assert_eq!(lines, ["a line that is too long"], "{other}");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_too_long_becomes_one_that_is_refused_under_its_id() {
        let text = "x".repeat(9_000);
        for long in [
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{{"a":"{text}"}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/prompt","params":{{"a":"{text}"}},"id":7}}"#
            ),
            format!(r#"{{"params":{{"id":1,"a":"{text}"}},"id": 7 }}"#),
        ] {
            let lines = read(format!("{long}\nnext\n").as_bytes(), 100).await;
            let request: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
            assert_eq!(
                (&request["id"], &request["method"]),
                (&7.into(), &TOO_LONG_METHOD.into()),
                "{lines:?}"
            );
            assert_eq!(lines[1], "next");
        }
        let nested = format!(r#"{{"method":"x","params":{{"a":"{text}","id":7}}}}"#);
        assert_eq!(
            read(nested.as_bytes(), 100).await,
            ["a line that is too long"]
        );
    }

    #[test]
    fn an_editor_that_does_not_read_is_told_less_and_then_nothing() {
        let backlog = UpdateBacklog::default();
        let mut pictures = 0;
        while backlog.try_admit(false) {
            pictures += 1;
        }
        assert_eq!(pictures, BACKLOG_LIMITS.0);
        assert!(backlog.try_admit(true));
        backlog.record_written_line(r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
        backlog.record_written_line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(!backlog.try_admit(false), "still as many");
        while backlog.try_admit(true) {}
        assert_eq!(backlog.0.load(Ordering::Relaxed), BACKLOG_LIMITS.1);
    }
}
