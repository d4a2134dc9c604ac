//! The sync protocol's form of a time of the commit clock: 8 bytes, little-endian, in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time of the commit clock; 0 is before every commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitTimestamp(u64);

impl CommitTimestamp {
    /// Converts a sequence number of the store.
    pub fn from_seq(seq: i64) -> Self {
        Self(u64::try_from(seq).unwrap_or(0))
    }

    /// Returns the sequence number, if it is in range.
    pub fn to_seq(self) -> Option<i64> {
        i64::try_from(self.0).ok()
    }
}

impl Serialize for CommitTimestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(self.0.to_le_bytes()))
    }
}

impl<'de> Deserialize<'de> for CommitTimestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = STANDARD
            .decode(text)
            .ok()
            .and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| D::Error::custom("a timestamp is 8 bytes in base64"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_clients_read_it() {
        let written = |seq| serde_json::to_string(&CommitTimestamp::from_seq(seq)).expect("text");
        assert_eq!(written(0), r#""AAAAAAAAAAA=""#);
        assert_eq!(written(1), r#""AQAAAAAAAAA=""#);
        let read: CommitTimestamp = serde_json::from_str(&written(i64::MAX)).expect("a timestamp");
        assert_eq!(read.to_seq(), Some(i64::MAX));
        let beyond: CommitTimestamp =
            serde_json::from_str(r#""//////////8=""#).expect("a timestamp");
        assert_eq!(beyond.to_seq(), None);
        for bad in [r#""""#, r#""AAAA""#, "7", "null", r#""????????????""#] {
            assert!(
                serde_json::from_str::<CommitTimestamp>(bad).is_err(),
                "{bad}"
            );
        }
    }
}
