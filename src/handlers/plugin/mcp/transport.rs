//! Messages of the protocol over a program's standard streams: one JSON-RPC message a line, bounded in length. A line
//! that does not look like one is skipped.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::Mutex;

use super::output_meter::{MAX_MESSAGE_BYTES, OutputMeter};
use punie_text::output::hidden_characters::escape_to_one_line;

/// The characters of a wrong line that are shown.
const SHOWN_CHARS: usize = 120;

/// The streams of one server.
pub(super) struct LineTransport<R, W> {
    output: BufReader<R>,
    input: Arc<Mutex<W>>,
    meter: Arc<OutputMeter>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin> LineTransport<R, W> {
    pub fn new(output: R, input: W, meter: Arc<OutputMeter>) -> Self {
        Self {
            output: BufReader::new(output),
            input: Arc::new(Mutex::new(input)),
            meter,
        }
    }

    /// Reads the next line with something on it; `None` at the end of the output.
    async fn read_message(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.output).take(MAX_MESSAGE_BYTES);
            let read = limited.read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(None);
            }
            if !self.meter.count_message(read) {
                return Err(io::Error::other("it printed too much"));
            }
            if read as u64 == MAX_MESSAGE_BYTES && line.last() != Some(&b'\n') {
                let most = MAX_MESSAGE_BYTES >> 20;
                return Err(io::Error::other(format!(
                    "it sent a message of more than {most} MiB"
                )));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
        }
    }
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            input.write_all(&line).await?;
            input.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.read_message().await {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.meter.record_fault(error.to_string());
                    return None;
                }
            };
            if let Ok(message) = serde_json::from_str(&line) {
                return Some(message);
            }
            let shown: String = line.trim().chars().take(SHOWN_CHARS).collect();
            let shown = escape_to_one_line(&shown);
            // A call waits for an answer, also for one that cannot be read. Anything else is a banner, or what the program
            // prints.
            let fields = serde_json::from_str::<Map<String, Value>>(&line).unwrap_or_default();
            let has = |name| fields.contains_key(name);
            if has("jsonrpc") || has("id") && (has("result") || has("error")) {
                let text = format!("it printed a line that is no message of the protocol: {shown}");
                self.meter.record_fault(text);
                return None;
            }
            self.meter.record_skipped(shown);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
