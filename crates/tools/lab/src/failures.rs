//! Where in a history the kernel fails to sync.

use crate::Random;
use crate::subject::Action;

/// Syncs of a step, and of a closing and an opening, about.
const SYNCS: (u64, u64) = (4, 10);

/// Lets some of the syncs of `actions` fail. After such a step the store goes on for a while without being reopened.
pub(crate) fn among<S>(actions: Vec<Action<S>>, random: &mut Random) -> Vec<Action<S>> {
    let mut failing = Vec::new();
    for action in actions {
        match action {
            Action::Step(step) if random.percent(25) => {
                failing.push(Action::FailWithin(Some(step), random.below(SYNCS.0) as u32));
            }
            Action::Reopen if random.percent(60) => {
                failing.push(Action::FailWithin(None, random.below(SYNCS.1) as u32));
            }
            Action::Kill if random.percent(60) => {
                failing.push(Action::FailOpening(random.below(SYNCS.1) as u32));
            }
            action => failing.push(action),
        }
    }
    // Not between two steps: one may announce the next.
    if random.percent(40) {
        let syncs = random.below(SYNCS.1) as u32;
        failing.push(match random.below(3) {
            0 => Action::Reopen,
            1 => Action::FailWithin(None, syncs),
            _ => Action::FailOpening(syncs),
        });
    }
    failing
}
