//! A client of servers that speak RESP, the Redis protocol: requests are encoded, replies are read within limits.
//!
//! A [`Client`] is a blocking connection: [`Client::call`] waits for one reply, and [`Client::queue`],
//! [`Client::send`] and [`Client::reply`] pipeline requests. Two functions serve programs with sockets of their own:
//! [`encode`] writes a request, [`read_reply`] reads a reply from any buffered reader. A load generator that neither
//! blocks nor copies takes [`token`], which finds one token of a reply in the bytes that have arrived.
//!
//! A server is a stranger here: memory is taken in proportion to the bytes that have arrived, never to an announced
//! length, and [`Limits`] bound each string and the number of items of a reply, and the queued requests.
//!
//! ```
//! use halite_resp_client::{Limits, Reply, encode, read_reply};
//!
//! let mut request = Vec::new();
//! encode(&mut request, &["GET", "k"]);
//! assert_eq!(request, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
//! let mut arrived = &b"$5\r\nvalue\r\n"[..];
//! let reply = read_reply(&mut arrived, &Limits::default())?;
//! assert_eq!(reply, Reply::Bulk(b"value".to_vec()));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod head;
mod reply;
mod request;
mod socket;
mod token;

pub use client::Client;
pub use head::Malformed;
pub use reply::{Limits, Reply, read_reply};
pub use request::{array, bulk, encode};
pub use token::{Token, token};
