//! `halite lab`.

mod crash;
mod media;
mod mutate;
mod report;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use halite_lab::blocks::blocks_suite;
use halite_lab::{
    Budget, Job, NotReplayed, Plan, Progress, Rules, media_suite, space_suite, suite,
};
use indicatif::ProgressBar;

use serde_json::json;

use crate::interrupt::Interrupt;
use crate::{Error, Result, duration, output, size};
use crash::Crash;
use media::Media;
use mutate::Mutate;

const EXAMPLES: &str = "\
Examples:
  halite lab crash                       look for a power cut that the engine does not survive
  halite lab crash --budget 10m --rules memory,page-cache
  halite lab crash --replay indexlog-few:memory:1f2e3d:120.3/8.1
  halite lab crash --engine blocks       the logs, pages, cells and leaves that engines are made of
  halite lab crash --engine alloc        segments, pools of objects and zones: is any lost, or there twice?
  halite lab media                       damage what a store left: does it notice?
  halite lab mutate --budget 5m          leave out each flush, fence and sync: does the lab notice?

The lab runs an engine on a modelled medium in DRAM and needs no folder and no persistent memory.
docs/CRASH_LAB.md says what it models and what it does not.

Exit codes: 0 nothing found, 5 a violation or a mutant that survives, 130 interrupted before that.";

/// Look for crashes that an engine does not survive
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Crash(Crash),
    Mutate(Mutate),
    Media(Media),
}

impl Lab {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.experiment {
            Experiment::Crash(crash) => crash.run(),
            Experiment::Mutate(mutate) => mutate.run(),
            Experiment::Media(media) => media.run(),
        }
    }
}

/// The argument for the building blocks in place of an engine.
const BLOCKS: &str = "blocks";
const SPACE: &str = "alloc";

/// Options of every experiment.
#[derive(Debug, Args)]
struct Bench {
    /// The engine to examine, or `blocks` for the building blocks of engines, or `alloc` for the
    /// allocator of their space
    #[arg(
        long,
        value_name = "NAME",
        default_value = halite::ENGINES[0],
        value_parser = PossibleValuesParser::new(names().into_iter().chain([BLOCKS, SPACE])),
    )]
    engine: String,

    /// The states that a power cut may leave: `all`, or some of memory, page-cache, failing-syncs, platform and
    /// failed-platform, with commas between them
    #[arg(long, value_name = "RULES", default_value = "all", value_parser = parse_rules)]
    rules: RulesList,

    /// The seed of the histories, as the summary shows it; by default drawn at random
    #[arg(long, value_name = "SEED", value_parser = parse_seed)]
    seed: Option<u64>,

    /// How long to look, such as 60s, 10m or 2h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    budget: Duration,

    /// Threads that look; by default one a processor
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The names of the engines.
fn names() -> Vec<&'static str> {
    halite::engines().into_iter().map(|engine| engine.name).collect()
}

#[derive(Debug, Clone)]
struct RulesList(Vec<Rules>);

fn parse_rules(text: &str) -> std::result::Result<RulesList, String> {
    if text == "all" {
        return Ok(RulesList(Rules::ALL.to_vec()));
    }
    let rules = text.split(',').map(|name| {
        Rules::named(name).ok_or_else(|| {
            let known = Rules::ALL.map(Rules::name).join(", ");
            format!("there are no rules `{name}`; there are {known}, and all")
        })
    });
    let mut rules = rules.collect::<std::result::Result<Vec<_>, _>>()?;
    rules.sort_unstable();
    rules.dedup();
    Ok(RulesList(rules))
}

/// Seeds are printed in hexadecimal, as in cases.
fn parse_seed(text: &str) -> std::result::Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "a seed is a hexadecimal number of at most 16 digits".to_owned())
}

impl Bench {
    /// The jobs under the rules that were asked for.
    fn jobs(&self) -> Vec<Arc<dyn Job>> {
        jobs(&self.engine, &self.rules.0)
    }

    /// The jobs of damaging closed and killed stores.
    ///
    /// # Errors
    /// Blocks, and space by itself, have no such jobs.
    fn media_jobs(&self) -> Result<Vec<Arc<dyn Job>>> {
        if [BLOCKS, SPACE].contains(&self.engine.as_str()) {
            let known = names().join(", ");
            return Err(Error::Usage(format!(
                "--engine {}: media are damaged under whole stores only, those of {known}",
                self.engine
            )));
        }
        let engine = halite::find_engine(&self.engine).expect("the argument is one of the engines");
        Ok(media_suite(engine))
    }

    /// Replays one case, with a request left out if there is one, and prints how it comes about.
    fn replay(&self, case: &str, without: Option<&str>) -> Result<()> {
        let (job, rest) = self.job_of(case)?;
        let replayed = halite_lab::replay(&job, rest, without, None);
        let replay = replayed.map_err(|why| match (why, without) {
            (NotReplayed::NoRequest, Some(text)) => {
                let why = "the history of this case makes no such request";
                Error::input(format!("--without {text}"), why)
            }
            (why, _) => Error::input(format!("--replay {case}"), not_replayed(why)),
        })?;
        if self.json {
            let story = replay.story;
            output::json(&json!({ "case": case, "story": story, "what": replay.what }))?;
        } else {
            let end = replay.what.as_deref().unwrap_or("nothing; it came back as it must");
            output::text(&format!("{}\nWrong: {end}\n", replay.story.join("\n")))?;
        }
        match replay.what {
            None => Ok(()),
            Some(_) => Err(Error::LabFound { found: format!("{case} is a violation") }),
        }
    }

    fn plan(&self) -> Result<Plan> {
        let mut plan = Plan::new(Budget::Time(self.budget));
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.threads = self.threads.map_or(plan.threads, NonZeroUsize::get);
        plan.interrupt = Interrupt::catch()?.flag();
        Ok(plan)
    }

    /// The job that a case belongs to, and the case without its name.
    fn job_of<'a>(&self, case: &'a str) -> Result<(Arc<dyn Job>, &'a str)> {
        let of_media = case.contains(":media:");
        // A case names its job, so that it is found without the engine that it was found with.
        let jobs = if of_media {
            self.media_jobs()?
        } else {
            [self.engine.as_str(), BLOCKS]
                .iter()
                .flat_map(|name| jobs(name, &[Rules::Memory]))
                .collect()
        };
        let mut names: Vec<_> = jobs.iter().map(|job| job.name().to_owned()).collect();
        names.dedup();
        let (name, rest) = case.split_once(':').unwrap_or((case, ""));
        let job = jobs.into_iter().find(|job| job.name() == name).ok_or_else(|| {
            Error::Usage(format!(
                "--replay {case}: a case begins with the name of its job, one of {}, \
                 as in indexlog-few:memory:1f2e3d:120.3/8.1",
                names.join(", ")
            ))
        })?;
        Ok((job, rest))
    }
}

fn not_replayed(why: NotReplayed) -> String {
    match why {
        NotReplayed::NoCase(why) => why,
        NotReplayed::NoRequest => "its history makes no such request".to_owned(),
        NotReplayed::OutOfTime => "it takes longer to tell than is left; replay it".to_owned(),
    }
}

/// Returns all jobs of the lab for an engine, for the blocks, or for space.
fn jobs(engine: &str, rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    if engine == BLOCKS {
        return blocks_suite(rules);
    }
    if engine == SPACE {
        return space_suite(rules);
    }
    let engine = halite::find_engine(engine).expect("the argument is one of the engines");
    suite(engine, rules)
}

/// Shows people at a terminal how far an experiment is.
fn show<'a>(bar: &'a ProgressBar, verb: &'a str) -> impl Fn(Progress) + 'a {
    move |progress| {
        bar.set_position((progress.share * 1000.0) as u64);
        let rate = progress.images as f64 / progress.elapsed.as_secs_f64().max(1e-3);
        let images = size::count(progress.images, "image");
        bar.set_message(format!("{verb}: {images}, {} a second", size::grouped(rate as u64)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_a_list_of_names() {
        assert_eq!(parse_rules("all").unwrap().0, Rules::ALL);
        assert_eq!(
            parse_rules("platform,memory,platform").unwrap().0,
            [Rules::Memory, Rules::Platform]
        );
        for text in ["", "memory,", "soup", "all,memory"] {
            assert!(parse_rules(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_reads_back() {
        assert_eq!(parse_seed("1f"), Ok(0x1f));
        assert_eq!(parse_seed("0xffffffffffffffff"), Ok(u64::MAX));
        for text in ["", "g", "-1", "10000000000000000"] {
            assert!(parse_seed(text).is_err(), "{text}");
        }
    }
}
