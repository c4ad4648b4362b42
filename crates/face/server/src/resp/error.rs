//! The errors of malformed requests.

/// Why bytes are not a request. The connection cannot be read any further: where the next request
/// would begin is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of words is no number, or above the limit.
    #[error("Protocol error: invalid multibulk length")]
    ArgsLen,
    /// The length of a word is no number, negative, or above the limit.
    #[error("Protocol error: invalid bulk length")]
    BulkLen,
    /// A word does not begin with `$` and its length.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    BulkMark(u8),
    /// A word does not end with `\r\n` where its length says.
    #[error("Protocol error: expected CRLF after bulk string")]
    BulkEnd,
    /// The line with the number of words does not end.
    #[error("Protocol error: too big mbulk count string")]
    ArgsLine,
    /// The line with the length of a word does not end.
    #[error("Protocol error: too big bulk count string")]
    BulkLine,
    /// A line of words is too long.
    #[error("Protocol error: too big inline request")]
    InlineLen,
    /// A quote in a line of words is not closed, or not followed by a space.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// More words than a client may send before it is authenticated.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArgsLen,
    /// A longer word than a client may send before it is authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLen,
}

impl ProtocolError {
    /// The error reply: its byte as it is, which need not be text.
    pub(crate) fn reply(&self) -> Vec<u8> {
        match *self {
            Self::BulkMark(byte) => {
                [b"ERR Protocol error: expected '$', got '", &[byte][..], b"'"].concat()
            }
            _ => format!("ERR {self}").into_bytes(),
        }
    }
}
