//! The program `halite`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    halite_cli::main()
}
