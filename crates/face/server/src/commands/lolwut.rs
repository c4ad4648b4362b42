//! LOLWUT: a picture, and the version.

use crate::call::{Call, is};
use crate::failure::Outcome;

use super::connection::REDIS_VERSION;

/// Rock salt, which is called halite: its crystals are cubes.
const CRYSTAL: &str = "\
      +--------+
     /        /|
    +--------+ |
    |  Na Cl | +
    |        |/
    +--------+

";

pub(super) fn lolwut(call: &mut Call<'_>) -> Outcome {
    let names_version = is(call.args.get(1).unwrap_or_default(), "VERSION") && call.args.len() > 2;
    // Redis has pictures for two versions, the latter of which it draws by itself.
    let version = if names_version { call.integer(2)? } else { 0 };
    // Sizes, which the picture here does not have.
    let sizes = if version == 5 { 3..6 } else { 3..5 };
    if [5, 6].contains(&version) {
        sizes.filter(|&at| at < call.args.len()).try_for_each(|at| call.integer(at).map(drop))?;
    }
    let picture = if !names_version || [5, 6].contains(&version) { CRYSTAL } else { "" };
    call.reply().verbatim(&format!("{picture}Redis ver. {REDIS_VERSION}\n"));
    Ok(())
}
