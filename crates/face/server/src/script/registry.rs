//! The scripts and libraries of the server, which all threads share.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::flags::{self, ScriptFlags};
use super::libraries::{Change, Libraries};
use super::running::RunningScripts;
use super::sha1::{self, Digest};
use super::state;
use crate::failure::{Failure, Outcome};
use crate::lock::lock;
use crate::resp::Args;
use crate::settings::Settings;

/// Scripts that are known because EVAL has run them: beyond this number, the oldest is forgotten. Those that SCRIPT LOAD
/// has loaded stay.
const EVALUATED_MAX: usize = 500;
/// Bytes of scripts that SCRIPT LOAD takes.
const LOADED_LEN_MAX: usize = 256 << 20;

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) digest: Digest,
    pub(crate) flags: ScriptFlags,
    body: Vec<u8>,
    /// The place of the code: behind the first line if that declares flags.
    code_at: usize,
    /// It has named a key of another thread that it has not declared.
    pub(super) roams: AtomicBool,
}

impl Script {
    fn new(body: &[u8], digest: Digest) -> Outcome<Self> {
        let (flags, code) = flags::of_script(body)?;
        let code_at = body.len() - code.len();
        Ok(Self { digest, flags, body: body.to_vec(), code_at, roams: AtomicBool::new(false) })
    }

    /// The code.
    pub(crate) fn code(&self) -> &[u8] {
        &self.body[self.code_at..]
    }

    /// Whether it may name keys that it has not declared.
    pub(crate) fn roams(&self) -> bool {
        self.roams.load(Ordering::Relaxed)
    }
}

/// The scripts that are known.
#[derive(Default)]
struct Scripts {
    by_digest: HashMap<Digest, Known>,
    /// Those that are known from EVAL alone, the oldest first.
    evaluated: VecDeque<Digest>,
    /// Bytes of those that were loaded.
    loaded_len: usize,
}

struct Known {
    script: Arc<Script>,
    is_loaded: bool,
}

/// The scripts and libraries of the server.
#[derive(Default)]
pub(crate) struct Registry {
    scripts: Mutex<Scripts>,
    /// How often all scripts were forgotten: threads forget what they have compiled then.
    flushes: AtomicU64,
    /// Some script names keys that it has not declared.
    some_roam: AtomicBool,
    /// The libraries; `None` until they are read from the store.
    libraries: Mutex<Option<Arc<Libraries>>>,
    /// Held while libraries are changed.
    pub(crate) changing: Mutex<()>,
    pub(crate) running: RunningScripts,
    /// Scripts may execute DEBUG: tests say so.
    pub(crate) may_debug: AtomicBool,
    /// Bytes that the Lua states take.
    pub(crate) state_bytes: AtomicU64,
}

impl Registry {
    /// The script of this digest.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        lock(&self.scripts).by_digest.get(digest).map(|known| Arc::clone(&known.script))
    }

    /// A script that EVAL runs.
    pub(crate) fn evaluated(&self, body: &[u8]) -> Outcome<Arc<Script>> {
        let digest = sha1::digest(body);
        match self.find(&digest) {
            Some(script) => Ok(script),
            None => Ok(Arc::new(Script::new(body, digest)?)),
        }
    }

    /// Whether the words of a command of this name run a script, or a function, that declares that it does not write.
    pub(crate) fn declares_no_writes(&self, name: &str, words: Args<'_>) -> bool {
        let Some(word) = words.get(1) else { return false };
        let flags = match () {
            () if name.starts_with("fcall") => {
                let libraries = self.libraries();
                libraries.ok().and_then(|libraries| Some(libraries.function(word)?.1.flags))
            }
            () if name.starts_with("evalsha") => {
                sha1::parse(word).and_then(|digest| self.find(&digest)).map(|script| script.flags)
            }
            () => flags::of_script(word).ok().map(|(flags, _)| flags),
        };
        flags.is_some_and(|flags| flags.has(ScriptFlags::NO_WRITES))
    }

    /// Keeps a script that was compiled.
    pub(crate) fn keep_evaluated(&self, script: &Arc<Script>) {
        let scripts = &mut *lock(&self.scripts);
        let digest = script.digest;
        if scripts.by_digest.contains_key(&digest) {
            return;
        }
        if scripts.evaluated.len() >= EVALUATED_MAX
            && let Some(oldest) = scripts.evaluated.pop_front()
        {
            scripts.by_digest.remove(&oldest);
        }
        scripts.evaluated.push_back(digest);
        scripts.by_digest.insert(digest, Known { script: Arc::clone(script), is_loaded: false });
    }

    /// Keeps a script until all are forgotten.
    pub(crate) fn load(&self, script: &Arc<Script>) -> Outcome {
        let scripts = &mut *lock(&self.scripts);
        let digest = script.digest;
        if scripts.by_digest.get(&digest).is_some_and(|known| known.is_loaded) {
            return Ok(());
        }
        let len = scripts.loaded_len + script.body.len();
        if len > LOADED_LEN_MAX {
            let text = format!("OOM the loaded scripts take more than {LOADED_LEN_MAX} bytes");
            return Err(text.into());
        }
        scripts.loaded_len = len;
        scripts.evaluated.retain(|other| *other != digest);
        scripts.by_digest.insert(digest, Known { script: Arc::clone(script), is_loaded: true });
        Ok(())
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        *lock(&self.scripts) = Scripts::default();
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// How often all scripts were forgotten.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// The number of scripts, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let scripts = lock(&self.scripts);
        let bytes = |known: &Known| known.script.body.len() + size_of::<Script>();
        (scripts.by_digest.len(), scripts.by_digest.values().map(bytes).sum())
    }

    /// Notes that a script names keys that it has not declared: from now on it begins with all partitions.
    pub(super) fn note_roaming(&self, roams: &AtomicBool) {
        roams.store(true, Ordering::Relaxed);
        self.some_roam.store(true, Ordering::Relaxed);
    }

    /// Whether some script names keys that it has not declared.
    pub(crate) fn some_roam(&self) -> bool {
        self.some_roam.load(Ordering::Relaxed)
    }

    /// The libraries; refused as long as they are not read.
    pub(crate) fn libraries(&self) -> Outcome<Arc<Libraries>> {
        let libraries = lock(&self.libraries).clone();
        libraries.ok_or_else(|| Failure::from("LOADING Redis is loading the dataset in memory"))
    }

    /// Applies a change to the libraries. Those that stay are not copied, unless a function of some is looked up now.
    pub(crate) fn change_libraries(&self, change: Change) {
        if let Some(libraries) = &mut *lock(&self.libraries) {
            change.apply(Arc::make_mut(libraries));
        }
    }

    /// Takes the libraries that the store has, at the start. One that cannot be loaded any more is left out.
    pub(crate) fn open(&self, bodies: &[Vec<u8>], settings: &Settings) {
        let mut libraries = Libraries::default();
        for body in bodies {
            let added = state::inspect_known(body, &settings.scripts).and_then(|library| {
                let name = library.name.clone();
                libraries
                    .add(Arc::new(library))
                    .map_err(|taken| format!("ERR in {name}: function {taken} exists").into())
            });
            if let Err(failure) = added {
                let why = failure.text();
                settings
                    .log(|| format!("a library is left out: {}", String::from_utf8_lossy(&why)));
            }
        }
        *lock(&self.libraries) = Some(Arc::new(libraries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::libraries::Draft;

    #[test]
    fn a_change_of_one_library_copies_no_others() {
        let registry = Registry::default();
        let settings = Settings::new(&crate::Config::default(), 0);
        let body = |name: &str| {
            let text =
                format!("#!lua name={name}\nredis.register_function('f_{name}', function() end)");
            text.into_bytes()
        };
        registry.open(&[body("a"), body("b")], &settings);
        let place = Arc::as_ptr(&registry.libraries().unwrap());
        let change = {
            let before = registry.libraries().unwrap();
            let mut draft = Draft::of(&before);
            let library = state::inspect(&body("c"), &settings.scripts).unwrap();
            draft.insert(Arc::new(library)).unwrap();
            draft.remove("a");
            draft.finish()
        };
        registry.change_libraries(change);
        let libraries = registry.libraries().unwrap();
        assert_eq!(Arc::as_ptr(&libraries), place);
        let names: Vec<_> = libraries.iter().map(|library| library.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn a_known_library_may_take_longer_than_a_new_one() {
        let registry = Registry::default();
        let settings = Settings::new(&crate::Config::default(), 0);
        // It stands for a short one on a slow machine.
        let body = b"#!lua name=slow\nlocal n = 0 while n < 3e8 do n = n + 1 end\n\
            redis.register_function('f', function() end)";
        registry.open(&[body.to_vec()], &settings);
        assert_eq!(registry.libraries().unwrap().function_count(), 1);
    }

    #[test]
    fn evaluated_scripts_are_forgotten_and_loaded_ones_are_not() {
        let registry = Registry::default();
        let loaded = registry.evaluated(b"return 0").unwrap();
        registry.keep_evaluated(&loaded);
        registry.load(&loaded).unwrap();
        let bodies = (1..=EVALUATED_MAX + 1).map(|number| format!("return {number}"));
        let scripts: Vec<_> =
            bodies.map(|body| registry.evaluated(body.as_bytes()).unwrap()).collect();
        scripts.iter().for_each(|script| registry.keep_evaluated(script));
        assert!(registry.find(&loaded.digest).is_some());
        assert!(registry.find(&scripts[0].digest).is_none());
        assert!(registry.find(&scripts[1].digest).is_some());
        assert_eq!(registry.size().0, EVALUATED_MAX + 1);
        registry.flush();
        assert_eq!((registry.size(), registry.flushes()), ((0, 0), 1));
    }
}
