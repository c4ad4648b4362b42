//! The `halite` command with one engine more.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    halite::register_engine(&halite_own_engine::REGISTRATION);
    halite_cli::main()
}
