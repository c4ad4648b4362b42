//! Replays, on threads of their own: a case in which the store is stuck is reported like any other.

use std::sync::Arc;
use std::time::Instant;

use crate::job::{Job, Replay};
use crate::mutate::find_request;
use crate::plan::PATIENCE;
use crate::watch::{STUCK, watched};
use crate::{Case, Effort};

/// Why a case is not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReplayed {
    /// The text is not a case of the job, for this reason.
    NoCase(String),
    /// Its history does not make the request that is to be left out.
    NoRequest,
    /// The deadline came before.
    OutOfTime,
}

/// Examines one case of a job again, and returns its story. `case` is without the job's name, `without` the text of a
/// [`Mutant`](crate::Mutant).
///
/// # Errors
/// Why it is not replayed.
///
/// # Panics
/// If a thread cannot be started.
pub fn replay(
    job: &Arc<dyn Job>,
    case: &str,
    without: Option<&str>,
    deadline: Option<Instant>,
) -> Result<Replay, NotReplayed> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return Err(NotReplayed::OutOfTime);
    }
    let patience = left.unwrap_or(PATIENCE).min(PATIENCE);
    let (job, case, without) = (Arc::clone(job), case.to_owned(), without.map(str::to_owned));
    let replayed = watched(patience, move |watch| {
        let effort = Effort { deadline, watch: watch.clone(), ..Effort::default() };
        let request = match without {
            None => None,
            Some(text) => {
                let seed = case.parse::<Case>().map_err(NotReplayed::NoCase)?.seed;
                let found = find_request(&*job, seed, &text, &effort);
                Some(found.ok_or(NotReplayed::NoRequest)?)
            }
        };
        let replay = job.replay(&case, &effort, request).map_err(NotReplayed::NoCase);
        let is_told = replay.as_ref().is_ok_and(|replay| replay.what.is_some());
        if effort.is_spent() && !is_told { Err(NotReplayed::OutOfTime) } else { replay }
    });
    match replayed {
        Ok(replay) => replay,
        Err(_) if patience < PATIENCE => Err(NotReplayed::OutOfTime),
        Err(at) => Ok(Replay { story: at.story, what: Some(STUCK.to_owned()) }),
    }
}
