//! The message of a panic.

use std::any::Any;

/// The message of a panic that was caught.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, panic_any};

    use super::*;

    #[test]
    fn messages_of_panics_are_told() {
        let caught = |panics: fn()| catch_unwind(panics).unwrap_err();
        assert_eq!(panic_message(&*caught(|| panic!("plain"))), "plain");
        assert_eq!(panic_message(&*caught(|| panic!("{} by {}", 2, 3))), "2 by 3");
        assert_eq!(panic_message(&*caught(|| panic_any(7))), "without a message");
    }
}
