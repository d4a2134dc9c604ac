//! A value that does not show itself.

use std::fmt;

/// A secret: no Display, a Debug that hides it, and one named way to its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Takes the value in.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; each use is a place to look at.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
