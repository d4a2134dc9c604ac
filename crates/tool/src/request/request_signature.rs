//! A caller's signature of a request. Nothing between the caller and the device can create or change a signed request.
//! Not here: the reaction to a wrong signature (`runner`), and the storage of keys (`config`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use super::{RequestSession, ToolRequest};
use punie_core::ids::{ConversationId, DeviceId, RequestId, to_hex};

/// The signed parts of a request.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The request's id.
    pub request: &'a RequestId,
    /// The device that the request is for.
    pub device: &'a DeviceId,
    /// The tool.
    pub tool: &'a str,
    /// The arguments as JSON text.
    pub args: &'a str,
    /// The time of signing, in whole milliseconds since 1970.
    pub issued_at_ms: i64,
    /// The latest time at which it may start, in the same unit. `None` if the device's own limit applies.
    pub deadline_ms: Option<i64>,
    /// The conversation; `None` if the request is its own.
    pub conversation: Option<&'a ConversationId>,
    /// The kind of agent that asks; `None` and an empty text mean the same.
    pub agent_type: Option<&'a str>,
    /// The session that the request belongs to; it is signed, so that nobody can add, change or remove it.
    pub session: Option<&'a RequestSession>,
}

impl SignedRequest<'_> {
    /// Returns the text that is signed: one field per line. Version 2 has a line for the session, before the agent's kind;
    /// a request without a session is signed with version 1. The agent's kind is last, because it may contain anything.
    pub fn signing_text(&self) -> String {
        let args = to_hex(&Sha256::digest(self.args));
        let deadline = self
            .deadline_ms
            .map_or_else(|| "-".to_owned(), |at| at.to_string());
        let conversation = self
            .conversation
            .map_or_else(|| self.request.to_string(), ToString::to_string);
        let (version, session) = match self.session {
            Some(session) => {
                let digest = to_hex(&Sha256::digest(session.signed_lines()));
                ("v2", format!("{digest}\n"))
            }
            None => ("v1", String::new()),
        };
        format!(
            "punie-request:{version}\n{}\n{}\n{}\n{args}\n{}\n{deadline}\n{conversation}\n{session}{}",
            self.request,
            self.device,
            self.tool,
            self.issued_at_ms,
            self.agent_type.unwrap_or_default()
        )
    }

    /// Signs with this key (a seed of 32 bytes). Returns 64 bytes as base64.
    pub fn sign_with_seed(&self, seed: &[u8; 32]) -> String {
        STANDARD.encode(
            SigningKey::from_bytes(seed)
                .sign(self.signing_text().as_bytes())
                .to_bytes(),
        )
    }
}

/// Returns the public key of a private key (a seed of 32 bytes), as base64.
pub fn public_key_from_seed(seed: &[u8; 32]) -> String {
    STANDARD.encode(SigningKey::from_bytes(seed).verifying_key().as_bytes())
}

/// The check that a request is signed for this device with the configured key.
#[derive(Debug, Clone)]
pub struct RequestAuth {
    device: DeviceId,
    key: VerifyingKey,
}

/// The reason why a request does not count as signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureRejection {
    /// It has no signature or no signing time.
    Missing,
    /// The signature does not match the key, the request and this device.
    Bad,
    /// It was signed too long ago, or its deadline has passed, by this many milliseconds.
    Expired(i64),
    /// It was signed in the future by this machine's clock, by this many milliseconds.
    Early(i64),
}

impl RequestAuth {
    /// The tolerance for this machine's clock, in milliseconds.
    pub const SKEW_MS: f64 = 300_000.0;
    /// The same as a whole number.
    pub const SKEW_MS_WHOLE: i64 = 300_000;

    /// Requires signatures for this device with this key of 32 bytes. Returns `None` if it is not a valid key.
    pub fn new(device: DeviceId, key: &[u8; 32]) -> Option<Self> {
        VerifyingKey::from_bytes(key)
            .ok()
            .filter(|key| !key.is_weak())
            .map(|key| Self { device, key })
    }

    /// Returns the key's 32 bytes as base64.
    pub fn public_key_text(&self) -> String {
        STANDARD.encode(self.key.as_bytes())
    }

    /// Checks a request at this time of this machine, in milliseconds. A request without a deadline is valid for
    /// `ttl_ms`.
    ///
    /// # Errors
    /// The request must not run.
    pub fn check_signature(
        &self,
        request: &ToolRequest,
        now_ms: f64,
        ttl_ms: f64,
    ) -> Result<(), SignatureRejection> {
        let (Some(issued), Some(signature)) = (request.issued_at_ms, &request.signature) else {
            return Err(SignatureRejection::Missing);
        };
        let whole = |ms: Option<f64>| match ms {
            Some(ms) => whole_millis(ms).map(Some).ok_or(SignatureRejection::Bad),
            None => Ok(None),
        };
        let signed = SignedRequest {
            request: &request.id,
            device: &self.device,
            tool: request.tool.as_str(),
            args: &request.args,
            issued_at_ms: whole(Some(issued))?.unwrap_or_default(),
            deadline_ms: whole(request.deadline_ms)?,
            conversation: Some(&request.conversation),
            agent_type: request.agent_type.as_deref(),
            session: request.session.as_deref(),
        };
        let bytes = STANDARD.decode(signature).ok();
        let signature = bytes
            .and_then(|bytes| Signature::from_slice(&bytes).ok())
            .ok_or(SignatureRejection::Bad)?;
        self.key
            .verify_strict(signed.signing_text().as_bytes(), &signature)
            .map_err(|_| SignatureRejection::Bad)?;
        let over = now_ms - Self::expires_at_ms(request, ttl_ms);
        if over > Self::SKEW_MS {
            return Err(SignatureRejection::Expired(round_millis(over)));
        }
        if issued - now_ms > Self::SKEW_MS {
            return Err(SignatureRejection::Early(round_millis(issued - now_ms)));
        }
        Ok(())
    }

    /// Returns the latest time at which a signed request may start, in milliseconds.
    fn expires_at_ms(request: &ToolRequest, ttl_ms: f64) -> f64 {
        request
            .deadline_ms
            .unwrap_or_else(|| request.issued_at_ms.unwrap_or_default() + ttl_ms)
    }
}

/// Returns the time as a whole number of milliseconds, or `None` if it is not one.
#[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
fn whole_millis(ms: f64) -> Option<i64> {
    (ms.fract() == 0.0 && ms.abs() < 9e15).then_some(ms as i64)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "milliseconds of a few years"
)]
fn round_millis(ms: f64) -> i64 {
    ms.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::ToolName;

    const SEED: [u8; 32] = [42; 32];
    const ISSUED: f64 = 1_763_000_000_000.0;
    const TTL: f64 = 600_000.0;

    fn device() -> DeviceId {
        DeviceId::parse("dev-1").expect("an id")
    }

    fn auth() -> RequestAuth {
        let key = SigningKey::from_bytes(&SEED).verifying_key();
        RequestAuth::new(device(), key.as_bytes()).expect("a key")
    }

    fn request(
        deadline_ms: Option<f64>,
        conversation: &str,
        agent: Option<&str>,
        signature: &str,
    ) -> ToolRequest {
        ToolRequest {
            id: RequestId::parse("req-1").expect("an id"),
            tool: ToolName::parse("Bash").expect("a name"),
            args: r#"{"command":"date"}"#.to_owned(),
            conversation: ConversationId::parse(conversation).expect("an id"),
            agent_type: agent.map(str::to_owned),
            caller: None,
            session: None,
            created_at_ms: 0.0,
            deadline_ms,
            cancelled: false,
            issued_at_ms: Some(ISSUED),
            signature: Some(signature.to_owned()),
        }
    }

    #[test]
    fn what_another_program_signed_is_taken() {
        // Created with Node's crypto from the text that docs/audit-format.md describes.
        let whole = "TloLEPynriOAoskeAF/rvZ7DQqqmR0c5BvOF2qpD6uF3oeEdNTbW65/DA59XDb7jGqPAkbIJdzwCL7aqY3obCQ==";
        let least = "kFQbAc1eaTVoWKnGZfMao0u+PuUgGLEzDLd+H5vCVk9GzrJLL/gyLDQSQosVfv+qSd8BKs1QGgOtbq4+hVQAAA==";
        assert_eq!(
            public_key_from_seed(&SEED),
            "GX9rI+FshTLGq8g4+s1ep4m+DHaykgM0A5v6iz02jWE="
        );
        let one = request(Some(ISSUED + 60_000.0), "talk", Some("main"), whole);
        assert_eq!(auth().check_signature(&one, ISSUED, TTL), Ok(()));
        for agent in [None, Some("")] {
            assert_eq!(
                auth().check_signature(&request(None, "req-1", agent, least), ISSUED, TTL),
                Ok(())
            );
        }
        assert_eq!(
            auth().check_signature(&request(None, "req-1", None, whole), ISSUED, TTL),
            Err(SignatureRejection::Bad)
        );
    }

    #[test]
    fn a_request_is_good_until_its_time_and_what_clocks_differ_by() {
        let least = "kFQbAc1eaTVoWKnGZfMao0u+PuUgGLEzDLd+H5vCVk9GzrJLL/gyLDQSQosVfv+qSd8BKs1QGgOtbq4+hVQAAA==";
        let request = request(None, "req-1", None, least);
        let at = |now_ms: f64| auth().check_signature(&request, now_ms, TTL);
        let closes = ISSUED + TTL + RequestAuth::SKEW_MS;
        assert_eq!(
            (at(closes), at(closes + 1.0)),
            (Ok(()), Err(SignatureRejection::Expired(300_001)))
        );
        let opens = ISSUED - RequestAuth::SKEW_MS;
        assert_eq!(
            (at(opens), at(opens - 1.0)),
            (Ok(()), Err(SignatureRejection::Early(300_001)))
        );
    }

    #[test]
    fn times_that_are_no_whole_milliseconds_are_refused() {
        for odd in [ISSUED + 0.5, f64::NAN, f64::INFINITY, 1e300, -1e300] {
            let odd_deadline = request(Some(odd), "req-1", None, "");
            assert_eq!(
                auth().check_signature(&odd_deadline, ISSUED, TTL),
                Err(SignatureRejection::Bad),
                "{odd}"
            );
            let odd_issued = ToolRequest {
                issued_at_ms: Some(odd),
                ..request(None, "req-1", None, "")
            };
            assert_eq!(
                auth().check_signature(&odd_issued, ISSUED, TTL),
                Err(SignatureRejection::Bad),
                "{odd}"
            );
        }
    }

    #[test]
    fn a_key_of_small_order_is_no_key() {
        assert!(RequestAuth::new(device(), &[0; 32]).is_none());
        let mut one = [0; 32];
        one[0] = 1;
        assert!(RequestAuth::new(device(), &one).is_none());
    }
}
