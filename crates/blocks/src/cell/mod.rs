//! Small updates in place, whole or not at all (van Renen §3.4).
