//! Any bytes, in any pieces, are the same requests, or the same error.
#![no_main]

use halite_server::resp::{Limits, Parser, ProtocolError, Step};
use libfuzzer_sys::fuzz_target;

type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Parses the requests of `input`, of which `step` more bytes arrive at each attempt.
fn requests(input: &[u8], step: usize) -> Requests {
    let limits = Limits::default();
    let (mut parser, mut start, mut end) = (Parser::new(), 0, 0);
    let mut found = Vec::new();
    loop {
        match parser.parse(&input[start..end], &limits) {
            Err(error) => return (found, Some(error)),
            Ok(Step::Request { len }) => {
                assert!(len > 0 && len <= end - start);
                found.push(parser.args(&input[start..end]).iter().map(<[u8]>::to_vec).collect());
                parser.reset();
                start += len;
            }
            Ok(_) if end == input.len() => return (found, None),
            Ok(_) => end = (end + step).min(input.len()),
        }
    }
}

fuzz_target!(|data: (u8, &[u8])| {
    let (step, input) = data;
    assert_eq!(requests(input, usize::from(step).max(1)), requests(input, input.len().max(1)));
});
