//! Operations that wait for the medium together (van Renen §3.5).
