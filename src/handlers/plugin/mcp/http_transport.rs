//! The connection to a server over HTTP: one address, no redirects, bounded answers. Not here: which addresses are allowed
//! (config).

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, Transport};

use super::output_meter::{MAX_MESSAGE_BYTES, OutputMeter};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts what arrives, as it is counted from a program.
pub(super) struct MeteredTransport<T> {
    inner: T,
    meter: Arc<OutputMeter>,
}

/// Prepares the connection; nothing is sent yet. An error is part of a sentence.
pub(super) fn open_http_transport(
    url: &str,
    headers: Vec<(String, String)>,
    meter: Arc<OutputMeter>,
) -> Result<impl Transport<RoleClient> + use<>, String> {
    let limit = usize::try_from(MAX_MESSAGE_BYTES).unwrap_or(usize::MAX);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = limit;
    config.max_json_response_size = limit;
    config.custom_headers = parse_headers(headers)?;
    let client = build_client(url).map_err(|error| error.to_string())?;
    Ok(MeteredTransport {
        inner: StreamableHttpClientTransport::with_client(client, config),
        meter,
    })
}

fn parse_headers(
    headers: Vec<(String, String)>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let parse = |(name, value): (String, String)| {
        let parsed = name.parse::<HeaderName>().ok().zip(value.parse().ok());
        let (parsed_name, mut parsed_value): (_, HeaderValue) = parsed.ok_or_else(|| {
            format!("the header {name:?} or its value has characters that HTTP does not allow")
        })?;
        parsed_value.set_sensitive(true);
        Ok((parsed_name, parsed_value))
    };
    headers.into_iter().map(parse).collect()
}

fn build_client(url: &str) -> reqwest::Result<Client> {
    // Installing it twice is harmless: the first one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would take the headers along.
        .redirect(Policy::none());
    if Url::parse(url).is_ok_and(|url| url.scheme() == "http") {
        // Only this machine is reached so. No certificate will be checked, and loading the system's takes long.
        client = client.no_proxy().tls_certs_only([]);
    }
    client.build()
}

/// Explains why a message was not answered; part of a sentence.
pub(super) fn explain_http_error(error: &DynamicTransportError) -> String {
    let mut deepest: &(dyn Error + 'static) = error.error.as_ref();
    let mut is_reached = true;
    loop {
        let cause = match deepest.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::AuthRequired(_)) => {
                return "it wants authorization (HTTP 401). Add the header Authorization to its settings"
                    .to_owned();
            }
            Some(StreamableHttpError::Client(client)) => {
                is_reached = !client.is_connect();
                Some(client as &(dyn Error + 'static))
            }
            _ => deepest.source(),
        };
        match cause {
            Some(cause) => deepest = cause,
            None if is_reached => return format!("its answer cannot be used ({deepest})"),
            None => return format!("it cannot be reached ({deepest})"),
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for MeteredTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        let bytes = serde_json::to_string(&message).map_or(0, |text| text.len());
        self.meter.count_message(bytes).then_some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
