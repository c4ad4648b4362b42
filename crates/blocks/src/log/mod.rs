//! Logs: entries appended durably, one behind the other (van Renen §3.3).
