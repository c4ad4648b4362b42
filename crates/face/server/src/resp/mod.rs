//! The requests of the Redis protocol, RESP: an incremental parser that is a pure function of bytes.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`), or a line of words as a
//! person types it (`GET k\r\n`). RESP2 and RESP3 differ in replies only, so there is one parser.
//!
//! The caller keeps the bytes that have arrived and are not yet consumed, and passes all of them to [`Parser::parse`]
//! whenever there are more. The parser remembers how far it has read and looks at no byte twice. It copies no bytes
//! (only the words of a quoted line need unescaping), and its allocations are in proportion to the bytes that have
//! arrived, never to an announced length. A request is rejected or accepted the same way however its bytes were split.
//!
//! ```
//! use halite_server::resp::{Limits, Parser, Step};
//!
//! let mut parser = Parser::new();
//! let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPI";
//! assert_eq!(parser.parse(&input[..9], &Limits::default()), Ok(Step::More));
//! assert_eq!(parser.parse(input, &Limits::default()), Ok(Step::Request { len: 20 }));
//! let words: Vec<_> = parser.args(input).iter().collect();
//! assert_eq!(words, [&b"GET"[..], b"k"]);
//! parser.reset(); // and drop the first 20 bytes of the input
//! ```

mod args;
mod error;
mod inline;
mod parser;

pub use args::{Args, ArgsIter};
pub use error::ProtocolError;
pub use parser::{Limits, Parser, Step};

/// The words of a line as a person types it.
pub(crate) fn split_line(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let (mut text, mut ranges) = (Vec::new(), Vec::new());
    inline::split(line, &mut text, &mut ranges)?;
    Ok(ranges.into_iter().map(|range| text[range].to_vec()).collect())
}
