//! What a caller signs of a request, so that whatever lies between it and the device can neither make nor change one.
//! Not here: what a device does with a request whose signature is wrong (runner), and where keys are kept (config).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use super::ToolRequest;
use crate::ids::{ConversationId, DeviceId, RequestId, hex};

/// What is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The request's id.
    pub request: &'a RequestId,
    /// The device that is to do it.
    pub device: &'a DeviceId,
    /// The tool.
    pub tool: &'a str,
    /// The arguments as JSON text.
    pub args: &'a str,
    /// When it was signed, in whole milliseconds since 1970.
    pub issued_at_ms: i64,
    /// Until when it may be begun, the same; none where the device's own limit holds.
    pub deadline_ms: Option<i64>,
    /// The conversation; none where the request is its own.
    pub conversation: Option<&'a ConversationId>,
    /// What kind of agent asks; none and an empty one are the same.
    pub agent_type: Option<&'a str>,
}

impl Signed<'_> {
    /// The text whose bytes are signed: one field a line, the agent's kind, which may hold anything, last.
    pub fn text(&self) -> String {
        let args = hex(&Sha256::digest(self.args));
        let deadline = self.deadline_ms.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let conversation = self.conversation.map_or(self.request.as_str(), ConversationId::as_str);
        format!(
            "punie-request:v1\n{}\n{}\n{}\n{args}\n{}\n{deadline}\n{conversation}\n{}",
            self.request,
            self.device,
            self.tool,
            self.issued_at_ms,
            self.agent_type.unwrap_or_default()
        )
    }

    /// Its signature by this key (a seed of 32 bytes): 64 bytes as base64.
    pub fn sign(&self, seed: &[u8; 32]) -> String {
        STANDARD.encode(SigningKey::from_bytes(seed).sign(self.text().as_bytes()).to_bytes())
    }
}

/// The public key that belongs to a private one (a seed of 32 bytes), as base64.
pub fn public_key_of(seed: &[u8; 32]) -> String {
    STANDARD.encode(SigningKey::from_bytes(seed).verifying_key().as_bytes())
}

/// Whose requests this device runs: those signed for it with this key.
#[derive(Debug, Clone)]
pub struct RequestAuth {
    device: DeviceId,
    key: VerifyingKey,
}

/// Why a request is not taken for the key holder's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSigned {
    /// It has no signature, or does not say when it was signed.
    Missing,
    /// The signature is not the key's for this request at this device.
    Bad,
    /// It was signed too long ago, or its deadline has passed; by how many milliseconds.
    Expired(i64),
    /// It was signed in the future, by this machine's clock; by how many milliseconds.
    Early(i64),
}

impl RequestAuth {
    /// By how much this machine's clock may be off, in milliseconds.
    pub const SKEW_MS: f64 = 300_000.0;
    /// The same as a whole number.
    pub const SKEW_MS_WHOLE: i64 = 300_000;

    /// Requires signatures for this device with this key, 32 bytes; none where these are no key.
    pub fn new(device: DeviceId, key: &[u8; 32]) -> Option<Self> {
        VerifyingKey::from_bytes(key).ok().filter(|key| !key.is_weak()).map(|key| Self { device, key })
    }

    /// The key: its 32 bytes as base64.
    pub fn key_text(&self) -> String {
        STANDARD.encode(self.key.as_bytes())
    }

    /// Checks a request at this time of this machine, in milliseconds; one without a deadline is good for `ttl_ms`.
    ///
    /// # Errors
    /// It must not be run.
    pub fn check(&self, request: &ToolRequest, now_ms: f64, ttl_ms: f64) -> Result<(), NotSigned> {
        let (Some(issued), Some(signature)) = (request.issued_at_ms, &request.signature) else {
            return Err(NotSigned::Missing);
        };
        let whole = |ms: Option<f64>| match ms {
            Some(ms) => whole(ms).map(Some).ok_or(NotSigned::Bad),
            None => Ok(None),
        };
        let signed = Signed {
            request: &request.id,
            device: &self.device,
            tool: request.tool.as_str(),
            args: &request.args,
            issued_at_ms: whole(Some(issued))?.unwrap_or_default(),
            deadline_ms: whole(request.deadline_ms)?,
            conversation: Some(&request.conversation),
            agent_type: request.agent_type.as_deref(),
        };
        let bytes = STANDARD.decode(signature).ok();
        let signature = bytes.and_then(|bytes| Signature::from_slice(&bytes).ok()).ok_or(NotSigned::Bad)?;
        self.key.verify_strict(signed.text().as_bytes(), &signature).map_err(|_| NotSigned::Bad)?;
        let over = now_ms - Self::expiry(request, ttl_ms);
        if over > Self::SKEW_MS {
            return Err(NotSigned::Expired(rounded(over)));
        }
        if issued - now_ms > Self::SKEW_MS {
            return Err(NotSigned::Early(rounded(issued - now_ms)));
        }
        Ok(())
    }

    /// Until when a signed request may be begun, in milliseconds.
    fn expiry(request: &ToolRequest, ttl_ms: f64) -> f64 {
        request.deadline_ms.unwrap_or_else(|| request.issued_at_ms.unwrap_or_default() + ttl_ms)
    }
}

/// A time that is a whole number of milliseconds.
#[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
fn whole(ms: f64) -> Option<i64> {
    (ms.fract() == 0.0 && ms.abs() < 9e15).then_some(ms as i64)
}

#[expect(clippy::cast_possible_truncation, reason = "milliseconds of a few years")]
fn rounded(ms: f64) -> i64 {
    ms.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ToolName;

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
            created_at_ms: 0.0,
            deadline_ms,
            cancelled: false,
            issued_at_ms: Some(ISSUED),
            signature: Some(signature.to_owned()),
        }
    }

    #[test]
    fn what_another_program_signed_is_taken() {
        // Made with Node's crypto of the text that docs/audit.md describes.
        let whole =
            "TloLEPynriOAoskeAF/rvZ7DQqqmR0c5BvOF2qpD6uF3oeEdNTbW65/DA59XDb7jGqPAkbIJdzwCL7aqY3obCQ==";
        let least =
            "kFQbAc1eaTVoWKnGZfMao0u+PuUgGLEzDLd+H5vCVk9GzrJLL/gyLDQSQosVfv+qSd8BKs1QGgOtbq4+hVQAAA==";
        assert_eq!(public_key_of(&SEED), "GX9rI+FshTLGq8g4+s1ep4m+DHaykgM0A5v6iz02jWE=");
        let one = request(Some(ISSUED + 60_000.0), "talk", Some("main"), whole);
        assert_eq!(auth().check(&one, ISSUED, TTL), Ok(()));
        for agent in [None, Some("")] {
            assert_eq!(auth().check(&request(None, "req-1", agent, least), ISSUED, TTL), Ok(()));
        }
        assert_eq!(auth().check(&request(None, "req-1", None, whole), ISSUED, TTL), Err(NotSigned::Bad));
    }

    #[test]
    fn a_request_is_good_until_its_time_and_what_clocks_differ_by() {
        let least =
            "kFQbAc1eaTVoWKnGZfMao0u+PuUgGLEzDLd+H5vCVk9GzrJLL/gyLDQSQosVfv+qSd8BKs1QGgOtbq4+hVQAAA==";
        let request = request(None, "req-1", None, least);
        let at = |now_ms: f64| auth().check(&request, now_ms, TTL);
        let closes = ISSUED + TTL + RequestAuth::SKEW_MS;
        assert_eq!((at(closes), at(closes + 1.0)), (Ok(()), Err(NotSigned::Expired(300_001))));
        let opens = ISSUED - RequestAuth::SKEW_MS;
        assert_eq!((at(opens), at(opens - 1.0)), (Ok(()), Err(NotSigned::Early(300_001))));
    }

    #[test]
    fn times_that_are_no_whole_milliseconds_are_refused() {
        for odd in [ISSUED + 0.5, f64::NAN, f64::INFINITY, 1e300, -1e300] {
            let odd_deadline = request(Some(odd), "req-1", None, "");
            assert_eq!(auth().check(&odd_deadline, ISSUED, TTL), Err(NotSigned::Bad), "{odd}");
            let odd_issued = ToolRequest { issued_at_ms: Some(odd), ..request(None, "req-1", None, "") };
            assert_eq!(auth().check(&odd_issued, ISSUED, TTL), Err(NotSigned::Bad), "{odd}");
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
