//! The stored form of clients' data: the key spaces of a Halite database, and the content of each.
//!
//! ```text
//! key space       key            value
//! db<N>           a client's     a tag of one byte, and behind it the form of its type (`value`)
//! db<N>:expires   a client's     when the key expires: milliseconds since 1970, 8 bytes, big-endian
//! db<N>:elements  an element's   the elements of larger collections (`store::elements`), and which hashes have fields with
//!                                deadlines (`store::field_deadlines`)
//! server:1        `library:<name>`  the text of a library of functions
//! server:1        `databases`    the N of each database as SWAPDB left them, 4 bytes each, big-endian (`store::order`)
//! server:2        none
//! server:3        none           only where sorted sets may have their order stored
//! ```
//!
//! The names of the key spaces `server:1` to `server:3` are the note that all values in the key spaces `db<N>` have tags,
//! and of which version they may be (`note`).
//!
//! A value gets its tag where a command puts it into the store, and loses it where a command reads it; all between
//! them, transactions, batches, backups and the change log included, has the stored bytes. Programs that look into
//! these key spaces without a server, such as `halite get` and `halite dump`, use the functions here.

mod field;
mod note;
pub(crate) mod order;
mod value;

pub(crate) use field::{
    FIELD_IN_KEY_MAX, element_of, is_of_order, long_field, long_value, read_element,
};
pub(crate) use note::{SPACE, check_note, make_newest_note, notes};
pub use note::{is_note, is_of_values, is_tagged, make_note};
pub(crate) use value::{
    IN_ELEMENTS, INLINE, STRING_TAG, Stored, StringValue, Type, WITH_ORDER, collection_id,
    has_order,
};
pub use value::{STRING_LEN_MAX, Unreadable, tagged, untagged};
