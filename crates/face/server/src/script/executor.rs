//! The commands of a script, and the care for the server while it runs.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::desk::{Abort, Desk, Errand, LOGGED_LEN_MAX, Words};
use super::flags::ScriptFlags;
use super::running::RunningScript;
use crate::admission::{Admitted, Sender, check_rights, check_store_in_script};
use crate::client::Client;
use crate::commands::{self, Command, flags};
use crate::dispatch;
use crate::failure::{Failure, Outcome};
use crate::partition_set::PartitionSet;
use crate::reply::Reply;
use crate::resp::Args;
use crate::service::Service;
use crate::shard::command_partitions::partitions_of;
use crate::store::Savepoint;

/// How often a running script looks after the server.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// How long a script waits before it asks again whether its migration has ended.
const PAUSE: Duration = Duration::from_millis(1);

/// The changes of a script that can be undone.
#[derive(Debug)]
pub(super) enum Undo {
    /// They are all of the store's transaction.
    All,
    /// They are behind the first part of a transaction, whose end is noted before the first write.
    Part(Option<Savepoint>),
    /// They are applied one by one.
    Nothing,
}

/// The service, lent to the bell of a run.
pub(super) struct Executor<'a> {
    pub(super) service: &'a mut Service,
    /// Stands for the client.
    pub(super) client: &'a mut Client,
    /// The client itself.
    pub(super) caller: &'a Client,
    pub(super) desk: &'a Rc<Desk>,
    /// It must not write.
    pub(super) is_read_only: bool,
    pub(super) flags: ScriptFlags,
    pub(super) undo: Undo,
    /// The failure for which the script is aborted.
    pub(super) failure: Option<Failure>,
    /// Whether it has changed keys.
    pub(super) has_written: bool,
    /// Whether it is a function of a library, and its name or its digest.
    pub(super) kind: (bool, &'a str),
    /// The words of the command that runs it.
    pub(super) command: Args<'a>,
    /// Its entry among the scripts that run, once it has looked at the clock.
    pub(super) running: Option<Arc<RunningScript>>,
}

/// Bytes of a word that FUNCTION STATS shows of a running command.
const SHOWN_LEN_MAX: usize = 128;
/// Words that it shows.
const SHOWN_MAX: usize = 32;

impl Executor<'_> {
    /// Serves the script: the bell rings.
    pub(super) fn serve(&mut self) {
        match self.desk.errand.get() {
            Errand::Execute => self.execute_words(),
            Errand::Log => {
                let words = self.desk.words.borrow();
                let shown = words.bytes.len().min(LOGGED_LEN_MAX);
                let line = String::from_utf8_lossy(&words.bytes[..shown]);
                self.service.settings.log(|| line.replace(['\r', '\n'], " "));
            }
            Errand::LookAfter => self.look_after(),
            Errand::CheckRights => self.check_words(),
        }
    }

    /// Executes the words on the desk, and lays the reply there.
    fn execute_words(&mut self) {
        let words = std::mem::take(&mut *self.desk.words.borrow_mut());
        let mut reply = std::mem::take(&mut *self.desk.reply.borrow_mut());
        reply.clear();
        let protocol = self.desk.protocol.get();
        self.client.protocol = protocol;
        if let Err(failure) = self.execute(&words, &mut reply) {
            match failure {
                Failure::Refused(text) => {
                    // Here, and not again if the script fails by it.
                    self.service.note_error(&text);
                    Reply { out: &mut reply, protocol }.error(&text);
                }
                failure => self.abort(Abort::Failed, Some(failure)),
            }
        }
        self.desk.reply.replace(reply);
        self.desk.words.replace(words);
    }

    fn execute(&mut self, words: &Words, out: &mut Vec<u8>) -> Outcome {
        let args = Args::new(&words.bytes, &words.ranges);
        let command = find(args).ok_or("ERR Unknown Redis command called from script")?;
        if !command.takes(args.len()) || !command.subcommands.is_empty() && args.len() < 2 {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        let may_debug = &self.service.shared.scripts.may_debug;
        let is_debug = command.is(flags::PROTECTED) && may_debug.load(Ordering::Relaxed);
        if command.is(flags::NO_SCRIPT) && !is_debug {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if !self.client.login.has_pass(&self.service.acl) {
            check_rights(self.service, self.caller, command, args, Sender::Script)?;
        }
        let writes = command.is(flags::WRITE);
        if self.is_read_only && command.is_any(flags::WRITE | flags::MAY_REPLICATE) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if !self.partitions(command, args).is_within(self.service.store.here()) {
            self.abort(Abort::Elsewhere, None);
            return Ok(());
        }
        if command.is(flags::ALL_THREADS) && self.lacks_reports() {
            self.abort(Abort::Elsewhere, None);
            return Ok(());
        }
        if !self.flags.has(ScriptFlags::ALLOW_OOM) || !command.is(flags::DENY_OOM) {
            check_store_in_script(self.service, self.client, command)?;
        }
        if writes {
            self.note_write();
            if self.desk.abort.get().is_some() {
                return Ok(());
            }
        }
        self.service.counters.commands += 1;
        let admitted = Admitted::kept(command, args);
        let mut done = dispatch::perform(self.service, self.client, admitted, out);
        while matches!(done, Err(Failure::Waits)) && self.migrates() {
            done = dispatch::perform(self.service, self.client, admitted, out);
        }
        if self.desk.abort.get().is_some() {
            return Ok(());
        }
        // The script is slow, and not its command.
        self.service.slow_guest = None;
        done
    }

    /// Waits for the end of a migration that a command of the script has begun; false: the script must end before.
    fn migrates(&mut self) -> bool {
        while self.client.awaits(true) {
            thread::sleep(PAUSE);
            if self.desk.began.get().elapsed() >= self.desk.next_look.get() {
                self.look_after();
            }
            if self.desk.abort.get().is_some() {
                // Its thread ends soon, and no key is removed.
                self.client.migration = None;
                return false;
            }
        }
        self.client.migration.is_some()
    }

    /// Lays on the desk whether the client may have the words executed: 1 or 0, or nothing if they are no command.
    fn check_words(&mut self) {
        let words = self.desk.words.borrow();
        let args = Args::new(&words.bytes, &words.ranges);
        let mut reply = self.desk.reply.borrow_mut();
        reply.clear();
        if let Some(command) = find(args) {
            let ending = &self.service.store.ending;
            let user = self.caller.login.current(&self.service.acl);
            let may = user
                .is_some_and(|user| user.check(command, args, &|| !ending.breaks_off()).is_ok());
            reply.push(u8::from(may));
        }
    }

    /// Whether the other threads have to report before a command about all of them, and the script can begin anew for
    /// that. If it cannot, the command tells of this thread only.
    fn lacks_reports(&self) -> bool {
        let threads = self.service.shared.threads();
        matches!(self.undo, Undo::All) && self.service.reports.len() + 1 < threads
    }

    /// The partitions that a command needs.
    fn partitions(&self, command: &'static Command, args: Args<'_>) -> PartitionSet {
        let store = &self.service.store;
        match command.is(flags::SCANS) {
            // The scan may go on in the next partition.
            true => PartitionSet::first(store.partitions()),
            false => partitions_of(store, command, args),
        }
    }

    fn note_write(&mut self) {
        self.has_written = true;
        if let Undo::Part(savepoint @ None) = &mut self.undo {
            *savepoint = self.service.store.savepoint();
        }
        self.note_end();
    }

    /// Notes whether the script may be killed, unless it was.
    fn note_end(&mut self) {
        if !self.has_written || !matches!(self.undo, Undo::Nothing) {
            return;
        }
        let Some(running) = &self.running else { return };
        if !self.service.shared.scripts.running.note_written(running) {
            self.abort(Abort::Killed, None);
        }
    }

    /// Has the script stopped once the bell is silent.
    fn abort(&mut self, why: Abort, failure: Option<Failure>) {
        self.desk.abort.set(Some(why));
        self.failure = failure;
    }

    /// Looks whether the script has to end, and answers other clients once it has been running for long.
    fn look_after(&mut self) {
        let settings = &self.service.settings.scripts;
        let (busy_threshold, time_max) = (settings.busy_threshold, settings.time_max);
        let passed = self.desk.began.get().elapsed();
        self.desk.next_look.set(passed + LOOK);
        if self.service.store.ending.breaks_off() {
            return self.abort(Abort::Failed, Some(Failure::Interrupted));
        }
        if !time_max.is_zero() && passed >= time_max {
            return self.abort(Abort::TooLong, None);
        }
        let running = self.running();
        if !busy_threshold.is_zero() && passed >= busy_threshold {
            if !running.is_busy() {
                self.note_busy(&running);
            }
            (self.service.answer_bystanders)(self.service);
        }
        if running.is_killed() {
            self.abort(Abort::Killed, None);
        }
    }

    /// The note that the script runs.
    fn running(&mut self) -> Arc<RunningScript> {
        if let Some(running) = &self.running {
            return Arc::clone(running);
        }
        let shown = |word: &[u8]| word[..word.len().min(SHOWN_LEN_MAX)].to_vec();
        let words = self.command.iter().take(SHOWN_MAX).map(shown).collect();
        let (is_function, name) = self.kind;
        let began = self.desk.began.get();
        let thread = self.service.thread;
        let running = RunningScript::new(thread, is_function, name.to_owned(), words, began);
        let running = Arc::new(running);
        self.service.shared.scripts.running.add(Arc::clone(&running));
        self.running = Some(Arc::clone(&running));
        self.note_end();
        running
    }

    fn note_busy(&self, running: &RunningScript) {
        self.service.shared.scripts.running.note_busy(running);
        self.service.settings.log(|| {
            let ran = Instant::now().saturating_duration_since(running.began).as_millis();
            let name = &running.name;
            format!("Slow script detected: still in execution after {ran} milliseconds. Script name is: {name}.")
        });
    }
}

impl Drop for Executor<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.service.shared.scripts.running.remove(&running);
        }
    }
}

/// The command that words name, a part of one where there are some.
fn find(args: Args<'_>) -> Option<&'static Command> {
    let command = commands::find(&args[0])?;
    match args.get(1) {
        Some(word) if !command.subcommands.is_empty() => {
            command.subcommand(word).or_else(|| command.is(flags::HAS_OTHERS).then_some(command))
        }
        _ => Some(command),
    }
}
